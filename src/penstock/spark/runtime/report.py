"""What a task tells the driver: a frozen value that travels as JSON."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Self


@dataclass(frozen=True)
class Report:
    """The base of all task reports; a subclass whose fields are not plain values says how to read them.

    >>> @dataclass(frozen=True)
    ... class Counted(Report):
    ...     rows: int
    >>> Counted(3).to_json(), Counted.from_json('{"rows": 3}')
    ('{"rows": 3}', Counted(rows=3))
    """

    def to_json(self) -> str:
        """The report as text."""
        return json.dumps(_plain(self))

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """The report that ``to_json`` gave."""
        return cls(**cls.read(json.loads(text)))

    @classmethod
    def read(cls, values: Mapping[str, Any]) -> Mapping[str, Any]:
        """The fields made from plain values."""
        return values


def _plain(value: Any) -> Any:
    """Dataclasses as dictionaries, to any depth; what is no dataclass is left as it is, and not copied."""
    if is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, tuple):
        return [_plain(inner) for inner in value]
    return value
