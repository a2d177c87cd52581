"""What ``--json`` prints: JSON has no numbers like NaN and Infinity, which Python would write all the same."""

import json
from collections.abc import Mapping
from math import isfinite
from typing import Any


def json_text(value: Any, indent: int | None = 1) -> str:
    """Plain values as JSON; a number that is none, or is not finite, is null, and what JSON does not know is its text.

    >>> json_text({"late": float("nan"), "p95": [0.5, float("inf")]}, indent=None)
    '{"late": null, "p95": [0.5, null]}'
    """
    return json.dumps(_finite(value), indent=indent, allow_nan=False, default=str)


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _finite(held) for key, held in value.items()}
    return [_finite(held) for held in value] if isinstance(value, list | tuple) else value
