"""Rows as JSON objects."""

import base64
import json
from collections.abc import Iterator
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from math import isfinite
from typing import Any

import numpy as np
import pyarrow as pa


def json_rows(table: pa.Table) -> Iterator[bytes]:
    """Each row as a JSON object: times as ISO text, bytes in base64, numbers that JSON lacks (NaN) as null.

    >>> list(json_rows(pa.table({"a": [1.5, float("nan")], "b": ["x", None]})))
    [b'{"a":1.5,"b":"x"}', b'{"a":null,"b":null}']
    """
    names = table.column_names
    columns = [_plain(table.column(name)) for name in names]
    encode = json.JSONEncoder(
        separators=(",", ":"), default=_other, allow_nan=False, ensure_ascii=False
    ).encode
    for row in zip(*columns, strict=True):
        yield encode(dict(zip(names, row, strict=True))).encode()


def python_values(column: pa.ChunkedArray) -> list[Any]:
    """The values of a column; those that Python cannot have (times after the year 9999, text that is none) as text.

    >>> python_values(pa.chunked_array([pa.array([0, 253_402_300_800], pa.timestamp("s"))]))
    [datetime.datetime(1970, 1, 1, 0, 0), '10000-01-01T00:00:00']
    """
    try:
        values: list[Any] = column.to_pylist()
    except (OverflowError, ValueError):
        values = [_value(scalar) for scalar in column]
    return values


def _plain(column: pa.ChunkedArray) -> list[Any]:
    values = python_values(column)
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
    if isinstance(value, list | tuple):  # maps are lists of pairs
        return [_finite(v) for v in value]
    return value


def _value(scalar: Any) -> Any:
    """One value, for columns of which some value is too much for Python."""
    if not scalar.is_valid:
        return None
    if isinstance(scalar, pa.StructScalar):
        return {name: _value(part) for name, part in scalar.items()}
    if isinstance(scalar, pa.MapScalar):
        return [(_value(pair[0]), _value(pair[1])) for pair in scalar.values]
    if isinstance(scalar, pa.ListScalar):  # of any kind
        return [_value(part) for part in scalar.values]
    try:
        return scalar.as_py()
    except (OverflowError, ValueError):
        return _as_text(scalar)


def _as_text(scalar: Any) -> str:
    kind = scalar.type
    if pa.types.is_date(kind):
        return str(np.datetime64(scalar.value, "D" if pa.types.is_date32(kind) else "ms"))
    if pa.types.is_timestamp(kind):
        return f"{np.datetime64(scalar.value, kind.unit)}{'Z' if kind.tz else ''}"
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        text: str = scalar.as_buffer().to_pybytes().decode("utf-8", "replace")
        return text
    return str(scalar)


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
