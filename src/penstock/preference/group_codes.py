"""Class codes: 64-bit integers for the values of columns, the same in every process and every batch."""

from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from penstock.core.arrays import Ints
from penstock.core.errors import PenstockError, unknown
from penstock.preference.points import Codes

_NULL = np.uint64(0x9E3779B97F4A7C15)


def group_codes(table: pa.Table | pa.RecordBatch, columns: Sequence[str]) -> Codes:
    """One int64 a row, equal exactly where the rows are equal in all the columns (nulls equal nulls).

    Numbers, booleans, times and dates go through a bijective mix of their 64 bits, so one such column never
    collides; strings, binary and decimals through 64 bits of BLAKE2b over the distinct values: with a million
    groups the chance of any collision is below 1e-7.

    >>> table = pa.table({"region": ["a", "b", "a"], "day": [1, 1, 1]})
    >>> codes = group_codes(table, ["region", "day"])
    >>> bool(codes[0] == codes[2]), bool(codes[0] == codes[1])
    (True, False)
    """
    codes = np.zeros(table.num_rows, dtype=np.uint64)
    for name in columns:
        if name not in table.schema.names:
            raise unknown("column", name, table.schema.names)
        column = table.column(name)
        flat = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        codes = _mix(codes * np.uint64(0xD6E8FEB86659FD93) + _column_codes(flat, name))
    return codes.view(np.int64)


def _column_codes(column: Any, name: str) -> NDArray[np.uint64]:
    if isinstance(column, pa.ChunkedArray):  # an empty table combines to no chunk at all
        column = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    kind = column.type
    if pa.types.is_dictionary(kind):
        return _column_codes(column.dictionary_decode(), name)
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_temporal(kind):
        codes = _mix(_as_integers(column).view(np.uint64))
    elif pa.types.is_floating(kind):
        # One zero and one NaN, as equality of groups has it.
        values = column.cast(pa.float64()).fill_null(0.0).to_numpy() + 0.0
        codes = _mix(np.where(np.isnan(values), np.nan, values).view(np.uint64))
    elif _is_text(kind) or pa.types.is_decimal(kind):
        codes = _hashed(column)
    else:
        raise PenstockError(
            f"Column '{name}' of type {kind} cannot make groups; name a column of plain values."
        )
    if column.null_count:
        codes = np.where(pc.is_null(column).to_numpy(zero_copy_only=False), _NULL, codes)
    return codes


def _as_integers(column: pa.Array) -> Ints:
    kind = column.type
    if pa.types.is_temporal(kind):
        column = column.cast(pa.int32() if kind.bit_width == 32 else pa.int64())
    elif pa.types.is_boolean(kind):
        column = column.cast(pa.int8())
    values: Ints = column.fill_null(0).to_numpy()
    return values.astype(np.int64) if values.dtype != np.uint64 else values.view(np.int64)


def _is_text(kind: pa.DataType) -> bool:
    tests = (
        pa.types.is_string,
        pa.types.is_large_string,
        pa.types.is_string_view,
        pa.types.is_binary,
        pa.types.is_large_binary,
        pa.types.is_fixed_size_binary,
    )
    return any(test(kind) for test in tests)


def _hashed(column: pa.Array) -> NDArray[np.uint64]:
    """Hash the distinct values only: groups are few, rows are many."""
    encoded = column.dictionary_encode()
    values = [_digest(value) for value in encoded.dictionary.to_pylist()] or [0]
    codes: NDArray[np.uint64] = np.array(values, dtype=np.uint64)[encoded.indices.fill_null(0).to_numpy()]
    return codes


def _digest(value: Any) -> int:
    raw = value if isinstance(value, bytes) else str(value).encode()
    return int.from_bytes(blake2b(raw, digest_size=8).digest(), "little")


def _mix(codes: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finaliser of splitmix64 (Steele, Lea, Flood 2014): a bijection that spreads every bit over all."""
    codes = (codes ^ (codes >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    codes = (codes ^ (codes >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return codes ^ (codes >> np.uint64(31))
