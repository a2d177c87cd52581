"""A journal as tables: columns by name."""

import contextlib
import glob
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.core.arrays import objects
from penstock.core.errors import PenstockError
from penstock.core.observation import Observation
from penstock.core.records import SCHEMA, check, decode
from penstock.core.stores import StorePath, is_store

#: Columns of equal length by name; numbers are float64 with nan where missing, everything else is object.
Table = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Tables:
    """The tables of one journal.

    ``observations``, ``stages``, ``regions``: one row per observation (and stage, and region).
    ``decisions``: one row per decision; ``changes``: one row per change that was applied;
    ``reconfigurations``, ``warnings``, ``runs``: one row each. ``others`` holds kinds that a plant added.
    ``torn`` counts lines that could not be read.
    """

    observations: Table
    stages: Table
    regions: Table
    decisions: Table
    changes: Table
    reconfigurations: Table
    warnings: Table
    runs: Table
    others: Mapping[str, Table]
    records: tuple[dict[str, Any], ...]
    torn: int = 0

    @classmethod
    def of(cls, records: Iterable[dict[str, Any]], torn: int = 0) -> "Tables":
        """Tables of records that were read or kept."""
        kept = tuple(records)
        kinds: dict[str, list[dict[str, Any]]] = {}
        for record in kept:
            kinds.setdefault(str(record.get("kind", "")), []).append(record)
        seen = kinds.pop("observation", [])
        made = kinds.pop("reconfiguration", [])
        return cls(
            observations=_table(_flat(r) for r in seen),
            stages=_table(_nested(seen, "stages", "stage")),
            regions=_table(_nested(seen, "regions", "region")),
            decisions=_table(decision_row(r) for r in kinds.pop("decision", [])),
            changes=_table(change_rows(made)),
            reconfigurations=_table(decision_row(r) for r in made),
            warnings=_table(_flat(r) for r in kinds.pop("warning", [])),
            runs=_table(_flat(r) for r in kinds.pop("run", [])),
            others={kind: _table(_flat(r) for r in rows) for kind, rows in kinds.items()},
            records=kept,
            torn=torn,
        )

    def stage(self, name: str) -> Table:
        """The rows of one stage."""
        rows = self.stages.get("stage", np.array([])) == name
        return {k: v[rows] for k, v in self.stages.items()}

    def replay(self) -> Iterator[Observation]:
        """The observations as objects again, to run another policy over them."""
        return (decode(r) for r in self.records if r.get("kind") == "observation")

    def arrow(self, table: str) -> Any:
        """One of the tables as a pyarrow table."""
        import pyarrow as pa

        columns: Table = getattr(self, table, None) or self.others.get(table, {})
        return pa.table({k: pa.array(v.tolist()) for k, v in columns.items()})


def parts_of(path: str | Path) -> list[Path]:
    """The parts of a journal that were finished, oldest first: ``journal.000001.jsonl`` and so on."""
    base = Path(path)
    digits = "[0-9]" * 6
    return sorted(base.parent.glob(f"{glob.escape(base.stem)}.{digits}{glob.escape(base.suffix)}"))


def parts_in_store(path: StorePath) -> list[StorePath]:
    """The parts of a journal in an object store, oldest first."""
    pattern = f"{path.stem}.{'[0-9]' * 6}{Path(path.name).suffix}"
    return sorted(part for part in path.parent.iterdir() if fnmatchcase(part.name, pattern))


def read(path: str | Path | StorePath) -> Tables:
    """Read a journal with all its parts, also one that is being written or that ended in a crash."""
    try:
        parts = _stored_parts(StorePath.of(str(path))) if is_store(path) else _parts(Path(str(path)))
        lines = [line for part in parts for line in part.split(b"\n")]
    except OSError as error:
        raise PenstockError(
            f"The journal {path} cannot be read ({error.strerror}); check the path."
        ) from None
    records, torn = [], 0
    for line in filter(None, lines):
        try:
            record = json.loads(line)
            check(record)
        except (
            ValueError,
            OverflowError,
            RecursionError,
            TypeError,
            KeyError,
            AttributeError,
            PenstockError,
        ):
            torn += 1
        else:
            records.append(record)
    if not any(r["kind"] == "run" for r in records):
        raise PenstockError(f"{path} is no Penstock journal; give a file that a run wrote.")
    newest = max(int(r.get("schema", 0)) for r in records if r["kind"] == "run")
    if newest > SCHEMA:
        raise PenstockError(
            f"{path} has schema {newest}, this Penstock knows {SCHEMA}; use a newer Penstock."
        )
    return Tables.of(records, torn)


def _stored_parts(path: StorePath) -> list[bytes]:
    parts = parts_in_store(path)
    if not parts:
        raise PenstockError(f"There is no journal {path}; check the address.")
    return [part.read_bytes() for part in parts]


def _parts(path: Path) -> list[bytes]:
    """The contents of all parts, oldest first, while the writer may be finishing one."""
    try:
        with open(path, "rb") as file:
            last, number = file.read(), os.fstat(file.fileno()).st_ino
    except FileNotFoundError:
        last, number = b"", -1
        if not parts_of(path):  # otherwise the last one has just become a part
            raise
    contents: list[bytes] = []
    for part in parts_of(path):
        with contextlib.suppress(FileNotFoundError):  # the oldest may be dropped
            contents.append(part.read_bytes())
            if part.stat().st_ino == number:
                last = b""  # it has become a part since
    return [*contents, last]


_CAPACITY = ("planned", "requested", "observed", "limit")
_CAPACITIES = {"workers", "replicas", "cpu_share", "frequency", "executors"}


def _flat(record: Mapping[str, Any]) -> dict[str, Any]:
    """One level: capacities and nested objects become columns with a joined name, extras keep their own name."""
    row: dict[str, Any] = {}
    for name, value in record.items():
        if name in ("kind", "stages", "regions"):
            continue
        if name in _CAPACITIES and isinstance(value, list):
            row |= {f"{name}_{part}": v for part, v in zip(_CAPACITY, value, strict=False)}
        elif isinstance(value, dict):
            prefix = "" if name == "extra" else f"{name}_"
            row |= {prefix + ("max" if k == "maximum" else k): v for k, v in value.items()}
        else:
            row[name] = value
    return row


def _nested(records: Iterable[Mapping[str, Any]], key: str, label: str) -> Iterator[dict[str, Any]]:
    for record in records:
        for inner in record.get(key, ()):
            row = _flat(inner)
            yield {"time": record.get("time"), "period": record.get("period"), label: row.pop("name"), **row}


def decision_row(record: Mapping[str, Any]) -> dict[str, Any]:
    """A decision as one row of a table: its changes in words."""
    row = _flat(record)
    for name in ("changes", "wanted", "refused"):
        if name in row:
            row[name] = "; ".join(_words(c) for c in row[name])
    row["notes"] = "; ".join(row.get("notes", ()))
    row["count"] = len(record.get("changes", ()))
    return row


def _words(change: list[Any]) -> str:
    value = f"of {len(change[2])}" if isinstance(change[2], list) and len(change[2]) > 12 else change[2]
    return f"{change[1]} {change[0]} {value}".strip()


def change_rows(records: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Reconfigurations as rows of a table, one for each change that was made."""
    for record in records:
        for knob, where, after, *rest in record.get("changes", ()):
            before = rest[0] if rest else None
            row = {"time": record["time"], "source": record.get("source", ""), "knob": knob, "where": where}
            yield row | {"before": _size(knob, before), "after": _size(knob, after)}


def _size(knob: str, value: Any) -> Any:
    """Pipelines count by their number; a routing has no size."""
    if isinstance(value, list):
        return len(value) if knob == "pipelines" else None
    return value


def _table(rows: Iterable[dict[str, Any]]) -> Table:
    kept = list(rows)
    names = list(dict.fromkeys(n for row in kept for n in row))
    return {name: _column([row.get(name) for row in kept]) for name in names}


def _column(values: list[Any]) -> NDArray[Any]:
    if all(v is None or isinstance(v, int | float) or v in ("inf", "-inf") for v in values):
        return np.array([np.nan if v is None else float(v) for v in values])
    return objects(values)
