"""Keys to one type, to hashes, to key groups.

A key's 64-bit hash is its identity in state files and decides its group: the group is a rising function of the top 16
bits, so rows sorted by hash are sorted by group. Two keys with one hash are told apart (see ``layers.py``); the second
gets another hash of the same group. A value hashes differently in each type, so keys that come to several ports are cast
to one type first, where that is exact for every value; otherwise the flow is refused.
"""

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from penstock.core.arrays import Bytes, Ints
from penstock.core.errors import PenstockError
from penstock.core.jit import jit

Hashes = NDArray[np.uint64]

DEFAULT_GROUPS = 256
_TOP = np.uint64(0xFFFF_0000_0000_0000)
_LOW = np.uint64(0x0000_FFFF_FFFF_FFFF)


_UNITS = ("s", "ms", "us", "ns")
#: Bits of the integers that a floating-point type holds exactly.
_EXACT = {16: 11, 32: 24, 64: 53}


def hash_keys(table: pa.Table | pa.RecordBatch, columns: Sequence[str]) -> Hashes:
    """One hash a row, of the values of the key columns; nulls must have been taken out before."""
    combined: Hashes | None = None
    for name in columns:
        one = _hash_column(table.column(name))
        combined = one if combined is None else _combine(combined, one)
    return np.zeros(table.num_rows, dtype=np.uint64) if combined is None else combined


def group_of(hashes: Hashes, groups: int) -> Ints:
    """The key group of each hash: ``floor(top16(h) * groups / 2^16)``.

    >>> group_of(np.array([0, 2**64 - 1], dtype=np.uint64), 256).tolist()
    [0, 255]
    """
    return (((hashes >> np.uint64(48)) * np.uint64(groups)) >> np.uint64(16)).astype(np.int64)


def within(region: Hashes, own: Hashes) -> Hashes:
    """Hashes of longer keys that stay in the group of the region's key: its top bits, the others' low bits."""
    return (region & _TOP) | (own & _LOW)


def rehash(hashes: Hashes) -> Hashes:
    """Another hash of the same group, for a key whose hash another key has."""
    return within(hashes, _mix(hashes + np.uint64(0x9E3779B97F4A7C15)))


def missing_keys(table: pa.Table | pa.RecordBatch, columns: Sequence[str]) -> NDArray[np.bool_] | None:
    """Rows that have no usable key (null, or not a number); None if all have."""
    bad: NDArray[np.bool_] | None = None
    for name in columns:
        column = table.column(name)
        if column.null_count:
            mask = pc.is_null(column, nan_is_null=True).to_numpy(zero_copy_only=False)
        elif pa.types.is_floating(column.type):
            mask = np.isnan(
                column.to_numpy(zero_copy_only=False) if isinstance(column, pa.Array) else column.to_numpy()
            )
        else:
            continue
        if mask.any():
            bad = mask if bad is None else bad | mask
    return bad


def _hash_column(column: Any) -> Hashes:
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if isinstance(array, pa.ChunkedArray):  # pyarrow may keep several chunks of text
        array = pa.concat_arrays(array.chunks)
    kind = array.type
    if pa.types.is_dictionary(kind):
        hashed: Hashes = _hash_column(array.dictionary)[array.indices.to_numpy(zero_copy_only=False)]
        return hashed
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return _hash_bytes(*_text(array, np.int32))
    if pa.types.is_large_string(kind) or pa.types.is_large_binary(kind):
        return _hash_bytes(*_text(array, np.int64))
    if pa.types.is_floating(kind):
        values = array.cast(pa.float64()).to_numpy(zero_copy_only=False) + 0.0  # minus zero is zero
        return _mix(values.view(np.uint64))
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        return _mix(array.cast(pa.int64(), safe=False).to_numpy(zero_copy_only=False).view(np.uint64))
    if pa.types.is_temporal(kind):
        wide = array.cast(pa.int64() if kind.bit_width == 64 else pa.int32())
        return _hash_column(wide)
    return _hash_column(array.cast(pa.string()))


def _text(array: pa.Array, width: Any) -> tuple[NDArray[Any], Bytes]:
    _, offsets, data = array.buffers()
    if len(array) == 0 or offsets is None:
        return np.zeros(1, dtype=width), np.zeros(0, dtype=np.uint8)
    bounds = np.frombuffer(offsets, dtype=width)[array.offset : array.offset + len(array) + 1]
    return bounds, np.zeros(0, dtype=np.uint8) if data is None else np.frombuffer(data, dtype=np.uint8)


def _mix(values: Hashes) -> Hashes:
    """The finaliser of SplitMix64: every input bit moves every output bit."""
    with np.errstate(over="ignore"):
        x = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: Hashes = x ^ (x >> np.uint64(31))
    return mixed


def _combine(left: Hashes, right: Hashes) -> Hashes:
    with np.errstate(over="ignore"):
        return _mix(left * np.uint64(0x9E3779B97F4A7C15) + right)


@jit
def _hash_bytes(offsets: NDArray[Any], data: Bytes) -> Hashes:
    """FNV-1a over the bytes of each text, finished like :func:`_mix`."""
    rows = len(offsets) - 1
    out = np.empty(rows, dtype=np.uint64)
    for row in range(rows):
        h = np.uint64(0xCBF29CE484222325)
        for at in range(offsets[row], offsets[row + 1]):
            h = (h ^ np.uint64(data[at])) * np.uint64(0x100000001B3)
        h = (h ^ (h >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        h = (h ^ (h >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        out[row] = h ^ (h >> np.uint64(31))
    return out


def common_type(types: Sequence[pa.DataType]) -> pa.DataType | None:
    """The type that holds every value of all these types exactly; None if there is none.

    >>> common_type([pa.int32(), pa.int64()]), common_type([pa.int32(), pa.float64()])
    (DataType(int64), DataType(double))
    >>> common_type([pa.int64(), pa.float64()]) is None
    True
    """

    def pair(left: pa.DataType | None, right: pa.DataType) -> pa.DataType | None:
        return (
            None if left is None else left if left == right else _wider(_value_type(left), _value_type(right))
        )

    return reduce(pair, types[1:], types[0])


def with_common_keys(
    operator: str, keys: Sequence[str], ports: Mapping[str, pa.Schema]
) -> dict[str, pa.Schema]:
    """The schemas of an operator's input ports with one type for each key column; raises where there is none."""
    found = dict(ports)
    for key in keys:
        types = {port: schema.field(key).type for port, schema in ports.items()}
        common = common_type(list(types.values()))
        if common is None:
            kinds = " and ".join(f"{kind} on port '{port}'" for port, kind in types.items())
            raise PenstockError(
                f"The key column '{key}' of operator '{operator}' is {kinds}, which would never be equal; "
                "cast it to one type before the operator."
            )
        for port, schema in found.items():
            at = schema.get_field_index(key)
            found[port] = schema.set(at, schema.field(at).with_type(common))
    return found


def cast_keys(operator: str, keys: Sequence[str], wanted: pa.Schema, table: pa.Table) -> pa.Table:
    """The rows with their key columns in the types that the operator goes by."""
    for key in keys:
        at, kind = table.schema.get_field_index(key), wanted.field(key).type
        if table.schema.field(at).type == kind:
            continue
        try:
            column = table.column(at).cast(kind)
        except pa.ArrowInvalid as error:  # an instant that a finer unit cannot hold
            raise PenstockError(
                f"The key column '{key}' of operator '{operator}' cannot be made {kind}: {error}."
            ) from None
        table = table.set_column(at, table.schema.field(at).with_type(kind), column)
    return table


def _value_type(kind: pa.DataType) -> pa.DataType:
    """The type of the values, however they are laid out."""
    if pa.types.is_dictionary(kind):
        return _value_type(kind.value_type)
    if pa.types.is_large_string(kind):
        return pa.string()
    return pa.binary() if pa.types.is_large_binary(kind) else kind


def _wider(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    if left == right:
        return left
    if pa.types.is_timestamp(left) and pa.types.is_timestamp(right):
        return _timestamp(left, right)
    if pa.types.is_date(left) and pa.types.is_date(right):
        return pa.date32()
    if pa.types.is_integer(left) and pa.types.is_integer(right):
        return _integer(left, right)
    if _digits(left) and _digits(right) and (pa.types.is_decimal(left) or pa.types.is_decimal(right)):
        return _decimal(left, right)
    if pa.types.is_floating(left) and pa.types.is_floating(right):
        return max(left, right, key=lambda kind: kind.bit_width)
    if pa.types.is_integer(left) and pa.types.is_floating(right):
        return _floating(left)
    return _floating(right) if pa.types.is_floating(left) and pa.types.is_integer(right) else None


def _integer(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    signed = [pa.types.is_signed_integer(kind) for kind in (left, right)]
    if signed[0] == signed[1]:
        return max(left, right, key=lambda kind: kind.bit_width)
    unsigned, other = (right, left) if signed[0] else (left, right)
    bits = max(2 * unsigned.bit_width, other.bit_width)
    return {16: pa.int16(), 32: pa.int32(), 64: pa.int64()}.get(bits)


def _floating(integer: pa.DataType) -> pa.DataType | None:
    return pa.float64() if integer.bit_width <= _EXACT[64] else None


def _timestamp(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    if (left.tz is None) != (right.tz is None):
        return None  # which instant a time without a zone is, nobody knows
    unit = max(left.unit, right.unit, key=_UNITS.index)
    return pa.timestamp(unit, left.tz if left.tz == right.tz else "UTC")


def _digits(kind: pa.DataType) -> tuple[int, int] | None:
    """Digits before and after the point."""
    if pa.types.is_decimal(kind):
        return kind.precision - kind.scale, kind.scale
    if pa.types.is_integer(kind):
        return len(str(2**kind.bit_width)), 0
    return None


def _decimal(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    (a, b), (c, d) = _digits(left) or (0, 0), _digits(right) or (0, 0)
    before, after = max(a, c), max(b, d)
    return pa.decimal128(before + after, after) if before + after <= 38 else None
