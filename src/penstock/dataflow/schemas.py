"""Schemas as a user writes them: names with types, in several spellings, to Arrow."""

from collections.abc import Mapping
from typing import Any, TypeAlias

import pyarrow as pa

from penstock.core.errors import PenstockError

#: What a user may give for a schema: an Arrow schema, or names with Arrow types, names of types or Python types.
SchemaLike: TypeAlias = Any

_PYTHON = {int: pa.int64(), float: pa.float64(), str: pa.string(), bool: pa.bool_(), bytes: pa.binary()}
_NAMES = {
    "int": pa.int64(),
    "long": pa.int64(),
    "double": pa.float64(),
    "float": pa.float64(),
    "bool": pa.bool_(),
    "boolean": pa.bool_(),
    "timestamp": pa.timestamp("us", "UTC"),
}


def type_of(value: Any) -> pa.DataType:
    """An Arrow type from an Arrow type, a Python type or a name.

    >>> type_of("int64"), type_of(float), type_of(pa.string())
    (DataType(int64), DataType(double), DataType(string))
    """
    if isinstance(value, pa.DataType):
        return value
    if isinstance(value, type) and value in _PYTHON:
        return _PYTHON[value]
    if isinstance(value, str):
        if value in _NAMES:
            return _NAMES[value]
        try:
            return pa.type_for_alias(value)
        except ValueError:
            pass
    raise PenstockError(
        f"{value!r} is not a column type; give an Arrow type, its name, or int, float, str, bool."
    )


def schema_of(value: SchemaLike) -> pa.Schema:
    """An Arrow schema from what a user gave.

    >>> schema_of({"word": str, "count": "int64"}).names
    ['word', 'count']
    """
    if isinstance(value, pa.Schema):
        return value.remove_metadata()
    if not isinstance(value, Mapping):
        raise PenstockError(
            f"{value!r} is not a schema; give an Arrow schema or a mapping of column names to types."
        )
    return pa.schema([(str(name), type_of(kind)) for name, kind in value.items()])


def default_of(kind: pa.DataType) -> Any:
    """What a state column of this type holds for a key that is new: zero, an empty text, or None."""
    if pa.types.is_boolean(kind):
        return False
    if pa.types.is_integer(kind):
        return 0
    if pa.types.is_floating(kind):
        return 0.0
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return ""
    return None


def fits(given: pa.Schema, wanted: pa.Schema) -> str | None:
    """Why rows of one schema cannot be taken where another is wanted, in words; None if they can.

    Further columns are fine; types must be the same.
    """
    for field in wanted:
        index = given.get_field_index(field.name)
        if index < 0:
            return f"the column '{field.name}' is missing (there are {', '.join(given.names) or 'none'})"
        if given.field(index).type != field.type:
            return f"the column '{field.name}' is {given.field(index).type} where {field.type} is wanted"
    return None
