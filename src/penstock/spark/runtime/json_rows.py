"""Rows as JSON objects."""

import base64
import json
from collections.abc import Iterator
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from math import isfinite
from typing import Any

import pyarrow as pa


def json_rows(table: pa.Table) -> Iterator[bytes]:
    """Each row as a JSON object: times as ISO text, bytes in base64, numbers that JSON lacks (NaN) as null.

    >>> list(json_rows(pa.table({"a": [1.5, float("nan")], "b": ["x", None]})))
    [b'{"a":1.5,"b":"x"}', b'{"a":null,"b":null}']
    """
    names = table.column_names
    columns = [_plain(table.column(name)) for name in names]
    encode = json.JSONEncoder(separators=(",", ":"), default=_other, allow_nan=False).encode
    for row in zip(*columns, strict=True):
        yield encode(dict(zip(names, row, strict=True))).encode()


def _plain(column: pa.ChunkedArray) -> list[Any]:
    values: list[Any] = column.to_pylist()
    kind = column.type
    if pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_boolean(kind):
        return values
    if pa.types.is_nested(kind) or pa.types.is_floating(kind):
        return [_finite(v) for v in values]
    return values


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if isfinite(value) else None
    if isinstance(value, dict):
        return {k: _finite(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_finite(v) for v in value]
    return value


def _other(value: Any) -> Any:
    if isinstance(value, datetime | date | time):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, Decimal):
        return str(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")
