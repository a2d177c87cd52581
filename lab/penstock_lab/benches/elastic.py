"""``penstock bench elastic``: policies on live Spark against fixed numbers of workers, several runs a cell.

Parts can be run alone (``--part query``, ``flows``, ``logs``). Every finished run is kept in the output folder, so the same
call again goes on where it stopped; ``--minutes`` ends a call early. A claim on a difference counts only where it is larger
than the spread of both cells.
"""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isnan, nan
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from penstock.core.errors import unknown
from penstock_lab.results import ResultsPage, announce

#: Runs of a cell.
RUNS = 3

Figures = Mapping[str, float]


@dataclass(frozen=True)
class Cell:
    """One way of running one load."""

    part: str
    load: str
    way: str
    spec: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name of its file."""
        return f"{self.part}--{self.load}--{self.way}".replace(" ", "_").replace("/", "-").replace(",", "")


@dataclass(frozen=True)
class Spread:
    """A figure over the runs of a cell."""

    mean: float
    deviation: float
    runs: int

    @classmethod
    def of(cls, values: Sequence[float]) -> "Spread":
        """Mean and standard deviation; nan where nothing was measured."""
        known = [v for v in values if not isnan(v)]
        if not known:
            return cls(nan, nan, 0)
        return cls(fmean(known), stdev(known) if len(known) > 1 else nan, len(known))

    def below(self, other: "Spread") -> bool:
        """Whether this is smaller by more than both spreads."""
        apart = sum(0.0 if isnan(s.deviation) else s.deviation for s in (self, other))
        return self.mean + apart < other.mean

    def __str__(self) -> str:
        return "-" if isnan(self.mean) else f"{self.mean:.3g} ± {self.deviation:.2g}"


@dataclass
class CellRuns:
    """The runs so far, in a folder."""

    folder: Path
    until: float
    runs: int

    def of(self, cell: Cell) -> list[Figures]:
        """What the cell's runs came to."""
        path = self.folder / f"{cell.name}.json"
        return list(json.loads(path.read_text())) if path.exists() else []

    def fill(self, cells: Sequence[Cell], measure: Callable[[Cell, int], Figures]) -> None:
        """Run what is missing, a run of every cell in turn, so that a call cut short has something of each."""
        for number in range(self.runs):
            for cell in cells:
                done = self.of(cell)
                if len(done) > number or time.monotonic() > self.until:
                    continue
                announce(f"{cell.part}: {cell.load}, {cell.way}, run {number + 1} of {self.runs}")
                done.append(measure(cell, number))
                (self.folder / f"{cell.name}.json").write_text(json.dumps(done, indent=1))

    def spread(self, cell: Cell, figure: str) -> Spread:
        """One figure of a cell."""
        return Spread.of([run[figure] for run in self.of(cell) if run.get(figure) is not None])

    def remembered(self, name: str, make: Callable[[], Figures]) -> Figures:
        """A figure that all cells rest on, measured once."""
        path = self.folder / f"{name}.json"
        if not path.exists():
            path.write_text(json.dumps(make()))
        return dict(json.loads(path.read_text()))


def run(quick: bool, folder: Path, part: str | None = None, minutes: float | None = None) -> ResultsPage:
    """One part, or all."""
    from penstock_lab.benches import elastic_flows, elastic_logs, elastic_query

    parts = {"query": elastic_query.add, "flows": elastic_flows.add, "logs": elastic_logs.add}
    if part is not None and part not in parts:
        raise unknown("part of the elastic benchmark", part, parts)
    place = folder / "elastic"
    place.mkdir(parents=True, exist_ok=True)
    until = time.monotonic() + (1e9 if minutes is None else 60 * minutes)
    kept = CellRuns(place, until, 1 if quick else RUNS)
    words = (" --quick" if quick else "") + (f" --part {part}" if part else "")
    page = ResultsPage("Elasticity on live Spark", "penstock bench elastic" + words)
    for name, add in parts.items():
        if part in (None, name):
            add(page, kept, quick)
    return page
