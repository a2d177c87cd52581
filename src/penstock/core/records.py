"""Observations as plain JSON values and back."""

from collections.abc import Mapping
from dataclasses import MISSING, fields
from functools import cache
from math import inf, isfinite, isinf, nan
from typing import Any

from penstock.core import observation as seen
from penstock.core.capacity import Capacity
from penstock.core.observation import Observation, StageObservation

#: Version of the record layout; a reader refuses newer ones than its own.
SCHEMA = 1

_NESTED: dict[str, Any] = {
    "latency": seen.Latency,
    "last_change": seen.LastChange,
    "keys": seen.KeyLoad,
    "stages": StageObservation,
    "regions": seen.RegionObservation,
}
_CAPACITIES = {"workers", "replicas", "cpu_share", "frequency", "executors"}


@cache
def _floats(kind: Any) -> frozenset[str]:
    """Names of the fields that hold one number."""
    return frozenset(f.name for f in fields(kind) if f.type is float)


@cache
def _defaults(kind: Any) -> tuple[tuple[str, Any], ...]:
    """Names and defaults of the recorded fields; inter-arrival times are too many for a journal."""
    pairs = []
    for f in fields(kind):
        default = f.default_factory() if f.default_factory is not MISSING else f.default
        if f.name != "interarrivals":
            pairs.append((f.name, default))
    return tuple(pairs)


def number(value: float) -> float | str | None:
    """A number that JSON has: infinity becomes a word, not-a-number becomes null."""
    if isfinite(value):
        return value
    return ("inf" if value > 0 else "-inf") if isinf(value) else None


def plain_mapping(values: Mapping[Any, float]) -> dict[str, Any]:
    """A mapping of numbers without the unknown ones."""
    return {str(k): number(float(v)) for k, v in values.items() if v == v}


def encode(value: Any) -> dict[str, Any]:
    """A dataclass of the observation family as a JSON object without unknown and default fields."""
    record: dict[str, Any] = {}
    whole: Any = type(value)
    for name, default in _defaults(whole):
        field = getattr(value, name)
        if field is default or field is None:
            continue
        kind = type(field)
        if kind is float:
            if field != field or field == default:
                continue
            record[name] = field if isfinite(field) else number(field)
        elif kind is int or kind is str:
            record[name] = field
        elif kind is Capacity:
            limit = (field.limit,) if field.limit != inf else ()
            record[name] = [field.planned, field.requested, field.observed, *limit]
        elif kind is tuple:
            if field:
                record[name] = [encode(v) if hasattr(v, "__dataclass_fields__") else _item(v) for v in field]
                if name == "frequencies":  # hundreds of them, and of each five places say enough
                    record[name] = [round(v, 5) for v in field]
        elif isinstance(field, Mapping):
            if field:
                record[name] = plain_mapping(field)
        elif hasattr(field, "__dataclass_fields__"):
            if field != default and (inner := encode(field)):
                record[name] = inner
        elif field == field:
            record[name] = number(float(field))
    return record


def _item(value: Any) -> Any:
    return number(value) if isinstance(value, float) else value


def decode(record: Mapping[str, Any]) -> Observation:
    """The observation of a journal's record, as far as it was recorded.

    >>> o = Observation(1.0, 0.5, (StageObservation("a", Capacity(3, 3, 2), backlog=7.0),))
    >>> decode(encode(o)) == o or encode(decode(encode(o))) == encode(o)
    True
    """
    made: Observation = _build(Observation, record)
    return made


def check(record: Any) -> None:
    """Raise an error of some kind where a line of a journal is no record that can be worked with."""
    kind = record["kind"]
    if kind == "observation":
        decode(record)
    elif kind == "run":
        int(record.get("schema", 0))
        _numeric(record.get("target", 0.0))
    elif kind in _TIMED:
        _numeric(record["time"])
        for change in record.get("changes", ()):
            knob, where, after, *_ = change
            if not isinstance(knob, str) or not isinstance(where, str) or isinstance(after, str):
                raise TypeError(change)
        if not isinstance(record.get("changes", []), list) or not isinstance(record.get("notes", []), list):
            raise TypeError(record)
    elif not isinstance(kind, str):
        raise TypeError(kind)


_TIMED = {"decision", "reconfiguration", "warning"}


def _numeric(value: Any) -> float:
    """A number as journals have them; infinity is a word."""
    if isinstance(value, str) and value not in ("inf", "-inf"):
        raise TypeError(value)
    return float(value)


def _build(kind: Any, record: Mapping[str, Any]) -> Any:
    names = {name for name, _ in _defaults(kind)}
    if isinstance(record.get("extra"), dict):
        record = _lifted(record, names)
    floats = _floats(kind)
    return kind(
        **{n: _numeric(v) if n in floats else _field(n, kind, v) for n, v in record.items() if n in names}
    )


def _lifted(record: Mapping[str, Any], names: set[str]) -> dict[str, Any]:
    """Figures that older journals have among the extras and that are fields by now."""
    extra = record["extra"]
    now = {k: v for k, v in extra.items() if k in names and k not in record}
    return {**now, **record, "extra": {k: v for k, v in extra.items() if k not in now}}


def _field(name: str, kind: type, value: Any) -> Any:
    if name in _CAPACITIES:
        return Capacity(*value)
    if name == "operators" and kind is StageObservation:
        return tuple(_build(seen.OperatorObservation, v) for v in value)
    if name in _NESTED:
        inner = _NESTED[name]
        return tuple(_build(inner, v) for v in value) if isinstance(value, list) else _build(inner, value)
    if isinstance(value, list):
        return tuple(nan if v is None else v for v in value)
    if isinstance(value, dict):
        return {k: float(v) for k, v in value.items()}
    return float(value) if value in ("inf", "-inf") else value
