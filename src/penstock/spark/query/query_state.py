"""What a preference query remembers between two micro-batches: plain values, committed with each batch."""

import time
from collections.abc import Container, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from math import nan
from typing import Any

from penstock.core.belief import Belief
from penstock.disorder.strategy import DisorderState
from penstock.spark.query.pane_stage import Part
from penstock.spark.query.reports import FoldReport

#: Ids of parts are below this: that of a row has the part's in its upper 31 bits.
MOST_PARTS = 2**31


@dataclass(frozen=True)
class QueryTotals:
    """Counts since the first batch."""

    rows: int = 0
    late: int = 0
    bad: int = 0
    windows: int = 0
    results: int = 0
    shed: int = 0


@dataclass(frozen=True)
class PaneTimes:
    """When a pane's first and last rows came in, on the clock of the driver (seconds)."""

    first: float
    last: float


@dataclass(frozen=True)
class Judging:
    """What a slack by recall keeps: answers and late rows of windows that are not judged yet, and what came of others.

    Windows up to ``judged`` are judged. ``asked``: pairs of (window, share given up from it on), in order. ``rows`` and
    ``lost`` count the true answers of all judged windows.
    """

    judged: int | None = None
    asked: tuple[tuple[int, float], ...] = ()
    answers: str | None = None
    late: str | None = None
    rows: int = 0
    lost: int = 0

    @property
    def files(self) -> list[str]:
        """The state files."""
        return [file for file in (self.answers, self.late) if file]

    @property
    def recall(self) -> float:
        """The share of the true answers' rows that was given out."""
        return 1.0 - self.lost / self.rows if self.rows else nan

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Judging":
        """The value that ``asdict`` gave."""
        return cls(**{**value, "asked": tuple((int(n), float(a)) for n, a in value["asked"])})


@dataclass(frozen=True)
class QueryState:
    """The committed state of a query.

    ``parts`` holds the parts of all panes that some window to come needs, open or closed. Panes below
    ``closed_before`` are closed; those below ``windowed_before`` are part of the window stage's own state, the files
    in ``window_files``, which ``window_kind`` tells how to read. ``last_window`` is the last window that is complete.
    """

    disorder: DisorderState
    pane_workers: int
    window_workers: int
    splitting: Mapping[str, Any] = field(default_factory=dict)
    parts: tuple[Part, ...] = ()
    pane_times: Mapping[int, PaneTimes] = field(default_factory=dict)
    closed_before: int | None = None
    windowed_before: int | None = None
    window_kind: str = ""
    window_files: tuple[str, ...] = ()
    last_window: int | None = None
    next_part: int = 0  # begins again at 0 where there are no more
    inputs: int = 0
    loads: tuple[float, ...] = ()
    totals: QueryTotals = field(default_factory=QueryTotals)
    belief: Belief = field(default_factory=Belief)
    judging: Judging = field(default_factory=Judging)

    @property
    def files(self) -> list[str]:
        """All state files of this version."""
        return sorted({*self.window_files, *(part.file for part in self.parts), *self.judging.files})

    def open_parts(self) -> tuple[Part, ...]:
        """Parts of panes that may still get rows."""
        limit = self.closed_before
        return tuple(p for p in self.parts if limit is None or p.pane >= limit)

    def rescaled(self, pane_workers: int, window_workers: int) -> "QueryState":
        """The state with other numbers of workers; parts of removed pane workers are closed where they are."""
        still_open = {part.id for part in self.open_parts()}
        parts = tuple(
            replace(part, forced=True) if part.worker >= pane_workers and part.id in still_open else part
            for part in self.parts
        )
        loads = (*self.loads, *([0.0] * pane_workers))[:pane_workers]
        return replace(
            self, parts=parts, pane_workers=pane_workers, window_workers=window_workers, loads=loads
        )

    def held(self) -> dict[int, dict[int, Part]]:
        """Worker -> pane -> the part that new rows of that pane are merged into."""
        held: dict[int, dict[int, Part]] = {}
        for part in self.open_parts():
            if not part.forced:
                held.setdefault(part.worker, {})[part.pane] = part
        return held

    def with_parts(self, reports: Sequence[FoldReport], raw: bool, started: float) -> "QueryState":
        """The state after pane workers folded the rows of a batch, which began at ``started``."""
        held = self.held()
        parts = {part.id: part for part in self.parts}
        times = dict(self.pane_times)
        loads = [0.0] * self.pane_workers
        next_part = self.next_part
        for report in reports:
            loads[report.worker] = report.busy
            for new in report.parts:
                old = held.get(report.worker, {}).get(new.pane)
                if old is not None:
                    del parts[old.id]
                number = _free(next_part, parts)
                parts[number] = Part(
                    id=number,
                    pane=new.pane,
                    worker=report.worker,
                    file=report.file,
                    segment=new.segment,
                    rows=new.rows,
                    received=new.received + (old.received if old else 0),
                    raw=raw,
                )
                next_part = (number + 1) % MOST_PARTS
                first = times[new.pane].first if new.pane in times else started
                times[new.pane] = PaneTimes(first, time.time())
        return replace(
            self,
            parts=tuple(sorted(parts.values(), key=lambda p: (p.pane, p.id))),
            pane_times=times,
            next_part=next_part,
            loads=tuple(loads),
        )

    def to_json(self) -> dict[str, Any]:
        """Plain values; parts as lists, since there can be many."""
        plain = {
            k: v
            for k, v in vars(self).items()
            if k not in ("disorder", "parts", "pane_times", "totals", "belief", "judging")
        }
        return plain | {
            "disorder": self.disorder.to_json(),
            "belief": self.belief.to_json(),
            "judging": asdict(self.judging),
            "parts": [list(vars(part).values()) for part in self.parts],
            "pane_times": {pane: [t.first, t.last] for pane, t in self.pane_times.items()},
            "totals": asdict(self.totals),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "QueryState":
        """The value that ``to_json`` gave."""
        return cls(
            **{
                **value,
                "disorder": DisorderState.from_json(value["disorder"]),
                "belief": Belief.from_json(value["belief"]) if "belief" in value else Belief(),
                "judging": Judging.from_json(value["judging"]) if "judging" in value else Judging(),
                "parts": tuple(Part(*part) for part in value["parts"]),
                "pane_times": {int(pane): PaneTimes(*times) for pane, times in value["pane_times"].items()},
                "totals": QueryTotals(**value["totals"]),
                "window_files": tuple(value["window_files"]),
                "loads": tuple(value["loads"]),
            }
        )


def _free(number: int, taken: Container[int]) -> int:
    """The first number from this one on that no part has."""
    number %= MOST_PARTS
    while number in taken:
        number = (number + 1) % MOST_PARTS
    return number
