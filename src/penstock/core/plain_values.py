"""Objects as plain values that can be compared after a restart: what makes two of them the same."""

import hashlib
from collections.abc import Mapping
from enum import Enum
from math import isfinite
from typing import Any

import numpy as np

#: Arrays up to so many values are written out, larger ones go by a digest.
_LISTED = 1000


def plain_values(value: Any, depth: int = 6) -> Any:
    """The value as lists, dictionaries, numbers and texts; objects by their type and fields, functions by their name.

    >>> plain_values({"k": 3, "weights": np.array([0.5, 0.5])})
    {'k': 3, 'weights': [0.5, 0.5]}
    >>> plain_values(len)
    'builtins.len'
    """
    if isinstance(value, Enum):
        return value.name
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if isfinite(value) else repr(value)  # JSON's NaN is equal to nothing
    if isinstance(value, np.generic):
        return plain_values(value.item(), depth)
    if isinstance(value, np.ndarray):
        small = value.size <= _LISTED and value.dtype != object
        return plain_values(value.tolist()) if small else hashlib.sha256(value.tobytes()).hexdigest()
    if depth == 0:
        return _name(type(value))
    if isinstance(value, list | tuple):
        return [plain_values(v, depth - 1) for v in value]
    if isinstance(value, set | frozenset):
        return sorted((plain_values(v, depth - 1) for v in value), key=repr)
    if isinstance(value, Mapping):
        return {str(k): plain_values(v, depth - 1) for k, v in value.items()}
    if callable(value) and hasattr(value, "__qualname__"):
        return _name(value)
    return {
        "type": _name(type(value)),
        **{k: plain_values(v, depth - 1) for k, v in fields_of(value).items()},
    }


def fields_of(value: object) -> dict[str, Any]:
    """What an object holds, by name, whether in a dictionary or in slots; private names are left out."""
    slots = [s for kind in type(value).__mro__ for s in _slots(kind)]
    held = {s: getattr(value, s) for s in slots if hasattr(value, s)} | getattr(value, "__dict__", {})
    return {name: held[name] for name in sorted(held) if not name.startswith("_")}


def _slots(kind: type) -> tuple[str, ...]:
    given = kind.__dict__.get("__slots__", ())
    return (given,) if isinstance(given, str) else tuple(given)


def _name(of: Any) -> str:
    return f"{of.__module__}.{of.__qualname__}"
