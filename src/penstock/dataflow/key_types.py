"""One type for a key that comes to several ports: the ports' own types where they are equal, else one that holds them all.

Keys go by the hash of their value, and a value hashes differently in each type. So what comes to the ports is cast to
one type first, where that is exact for every value; otherwise the flow is refused.
"""

from collections.abc import Mapping, Sequence
from functools import reduce

import pyarrow as pa

from penstock.core.errors import PenstockError
from penstock.dataflow.operators import Spec
from penstock.dataflow.rows import Chunk

_UNITS = ("s", "ms", "us", "ns")
#: Bits of the integers that a floating-point type holds exactly.
_EXACT = {16: 11, 32: 24, 64: 53}


def common_type(types: Sequence[pa.DataType]) -> pa.DataType | None:
    """The type that holds every value of all these types exactly; None if there is none.

    >>> common_type([pa.int32(), pa.int64()]), common_type([pa.int32(), pa.float64()])
    (DataType(int64), DataType(double))
    >>> common_type([pa.int64(), pa.float64()]) is None
    True
    """

    def pair(left: pa.DataType | None, right: pa.DataType) -> pa.DataType | None:
        return None if left is None else left if left == right else _wider(_plain(left), _plain(right))

    return reduce(pair, types[1:], types[0])


def with_common_keys(operator: str, spec: Spec, ports: Mapping[str, pa.Schema]) -> dict[str, pa.Schema]:
    """The schemas of an operator's input ports with one type for each key column; raises where there is none."""
    found = dict(ports)
    for key in spec.keys:
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


def cast_keys(operator: str, keys: Sequence[str], wanted: pa.Schema, chunk: Chunk) -> Chunk:
    """The rows with their key columns in the types that the operator goes by."""
    table = chunk.table
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
    return chunk if table is chunk.table else Chunk(table, chunk.positions)


def _plain(kind: pa.DataType) -> pa.DataType:
    """The type of the values, however they are laid out."""
    if pa.types.is_dictionary(kind):
        return _plain(kind.value_type)
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
