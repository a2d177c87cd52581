"""The append-only record of one run: one JSON object a line, schema version in each file's first line.

A line goes out in one write to a file opened for appending, so a crash loses at most the line being written, and
a reader skips what is torn. Kinds of records: ``run`` (the header), ``observation``, ``decision``,
``reconfiguration``, ``warning``; a plant may add kinds of its own. Fields that are unknown (``nan``) or at their
default are left out. The fields are documented in docs/journal.md; :func:`read` gives them as tables.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from penstock.core.decision import Change, Decision
from penstock.core.errors import PenstockError
from penstock.core.observation import Observation
from penstock.core.plant import Applied
from penstock.core.records import SCHEMA, encode, number, plain_mapping
from penstock.core.tables import Tables, parts_of, read

__all__ = ["SCHEMA", "FileJournal", "Journal", "MemoryJournal", "Tables", "read"]


#: Size at which a file becomes a part, and how many parts are kept: about 20,000 batches each.
PART_BYTES, PARTS = 16 << 20, 16


class Journal:
    """Takes the records of a run; this one forgets them, the others keep them."""

    def put(self, record: dict[str, Any]) -> None:
        """Take one record."""

    def tables(self) -> Tables:
        """What was kept so far, as :func:`read` gives it."""
        return Tables.of([{"kind": "run", "schema": SCHEMA}])

    def close(self) -> None:
        """Take no more."""

    def __enter__(self) -> "Journal":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def observation(self, observation: Observation) -> None:
        """What a plant saw in one period."""
        self.put({"kind": "observation", **encode(observation)})

    def decision(
        self,
        time: float,
        policy: str,
        decision: Decision,
        wanted: Decision | None = None,
        notes: tuple[str, ...] = (),
        mode: str = "",
    ) -> None:
        """What was decided and why; ``wanted`` where guards changed it; mode: "", dry-run, paused, rollback or failed."""
        record: dict[str, Any] = {
            "kind": "decision",
            "time": time,
            "policy": policy,
            "reason": decision.reason,
        }
        record["changes"] = [_change(c) for c in decision.changes]
        if wanted is not None and wanted.changes != decision.changes:
            record["wanted"] = [_change(c) for c in wanted.changes]
            if wanted.reason != decision.reason:
                record["wanted_reason"] = wanted.reason
        optional = {"notes": list(notes), "predicted": plain_mapping(decision.predicted), "mode": mode}
        record |= {k: v for k, v in optional.items() if v}
        if not decision.feasible:
            record["feasible"] = False
        self.put(record)

    def reconfiguration(
        self,
        time: float,
        applied: Applied,
        before: Mapping[Change, Any] | None = None,
        source: str = "policy",
    ) -> None:
        """Changes that were made, what each replaced, and the cost as far as it is known."""
        before = before or {}
        record: dict[str, Any] = {"kind": "reconfiguration", "time": time, "source": source}
        record["changes"] = [[*_change(c), _value(before.get(c))] for c in applied.changes]
        cost = {"pause": applied.pause, "delayed": applied.delayed, "moved": applied.moved}
        record |= {k: number(v) for k, v in cost.items()}
        if applied.refused:
            record["refused"] = [[*_change(c), why] for c, why in applied.refused]
        self.put(record)

    def warning(self, time: float, source: str, text: str) -> None:
        """Something that went wrong and did not stop the run."""
        self.put({"kind": "warning", "time": time, "source": source, "text": text})


def _change(change: Change) -> list[Any]:
    return [change.knob.value, change.where, _value(change.value)]


def _value(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


class MemoryJournal(Journal):
    """Keeps the records in a list, for tests and short runs."""

    def __init__(self) -> None:
        self.records: list[dict[str, Any]] = [{"kind": "run", "schema": SCHEMA}]

    def put(self, record: dict[str, Any]) -> None:
        """Keep one record."""
        self.records.append(record)

    def tables(self) -> Tables:
        """What was kept so far, as :func:`read` gives it."""
        return Tables.of(self.records)

    def texts(self, kind: str = "warning") -> list[str]:
        """The texts of all warnings, or the reasons of all decisions."""
        return [str(r.get("text", r.get("reason", ""))) for r in self.records if r["kind"] == kind]


class FileJournal(Journal):
    """Appends to a file; a file that exists is continued, and a torn last line of it is closed off.

    A file that has grown to ``part_bytes`` becomes a part with a number in its name, ``journal.000001.jsonl``, and the
    last ``parts`` of them are kept; :func:`read` reads all there are. ``durable`` forces every line to the disk, for those
    who fear power cuts more than latency.
    """

    def __init__(
        self,
        path: str | Path,
        run: Mapping[str, Any] | None = None,
        durable: bool = False,
        part_bytes: int = PART_BYTES,
        parts: int = PARTS,
    ) -> None:
        self.path, self._durable = Path(path), durable
        self._header = {"kind": "run", "schema": SCHEMA, **(run or {})}
        self._part_bytes, self._parts = part_bytes, max(parts, 1)
        self._encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, default=unusual).encode
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self._opened()
        except OSError as error:
            raise PenstockError(
                f"The journal {self.path} cannot be written ({error.strerror}); choose another place."
            ) from None
        self._size = os.fstat(self._file).st_size
        if self._size and os.pread(self._file, 1, self._size - 1) != b"\n":
            os.write(self._file, b"\n")
        self.put(self._header)

    def _opened(self) -> int:
        return os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)

    def __fspath__(self) -> str:
        """The path, so that the journal of a run can be read like its file."""
        return str(self.path)

    def __str__(self) -> str:
        return str(self.path)

    @property
    def header(self) -> Mapping[str, Any]:
        """The line that every file of this run begins with."""
        return self._header

    def tables(self) -> Tables:
        """What the file holds so far, as :func:`read` gives it."""
        return read(self.path)

    def put(self, record: dict[str, Any]) -> None:
        """Append one record."""
        if self._file < 0:
            raise PenstockError(f"The journal {self.path} is closed; open a new one.")
        line = (self._encode(record) + "\n").encode()
        self._size += len(line)
        while line:
            line = line[os.write(self._file, line) :]
        if self._durable:
            os.fsync(self._file)
        if self._size >= self._part_bytes:
            self._begin_part()

    def _begin_part(self) -> None:
        """Give the file a number and go on with a new one; the oldest parts go."""
        done = parts_of(self.path)
        if self._is_own():
            last = int(done[-1].name[len(self.path.stem) + 1 :][:6]) if done else 0
            os.replace(self.path, self.path.with_suffix(f".{last + 1:06d}{self.path.suffix}"))
        file, self._file, self._size = self._file, self._opened(), 0
        os.close(file)
        for old in parts_of(self.path)[: -self._parts]:
            old.unlink(missing_ok=True)
        self.put({**self._header, "continued": True})

    def _is_own(self) -> bool:
        """Whether the path still leads to the file that is written: another writer may have begun a part already."""
        try:
            return os.path.samestat(os.stat(self.path), os.fstat(self._file))
        except OSError:
            return False

    def close(self) -> None:
        """Close the file; further records are an error."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def unusual(value: Any) -> Any:
    """Numpy numbers and arrays, which the encoder of the standard library does not know."""
    return value.tolist() if hasattr(value, "tolist") else str(value)
