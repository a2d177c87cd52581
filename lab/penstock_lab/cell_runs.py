"""Runs of a benchmark that is made several times: each is kept in a folder, and figures are told with their spread.

The same call again goes on where the last one stopped. A difference between two ways counts only where it is larger than
the spread of both.
"""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import inf, isnan, nan
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from penstock_lab.results import announce

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
        if isnan(self.mean):
            return "-"
        if isnan(self.deviation):
            return f"{self.mean:.3g} (1 run)"
        return f"{self.mean:.3g} ± {self.deviation:.2g}" + (
            "" if self.runs >= RUNS else f" ({self.runs} runs)"
        )


@dataclass
class CellRuns:
    """The runs so far, in a folder."""

    folder: Path
    until: float = inf
    runs: int = RUNS

    @classmethod
    def beside(cls, page: Path, runs: int = RUNS, minutes: float | None = None) -> "CellRuns":
        """The folder of a page's runs, which are begun within so many minutes."""
        page.mkdir(parents=True, exist_ok=True)
        return cls(page, inf if minutes is None else time.monotonic() + 60 * minutes, runs)

    def of(self, cell: Cell) -> list[Figures]:
        """What the cell's runs came to."""
        path = self.folder / f"{cell.name}.json"
        return list(json.loads(path.read_text())) if path.exists() else []

    def fill(
        self, cells: Sequence[Cell], measure: Callable[[Cell, int], Figures], runs: int | None = None
    ) -> None:
        """Run what is missing, a run of every cell in turn, so that a call cut short has something of each."""
        for number in range(self.runs if runs is None else min(runs, self.runs)):
            for cell in cells:
                done = self.of(cell)
                if len(done) > number or time.monotonic() > self.until:
                    continue
                announce(f"{cell.part}: {cell.load}, {cell.way}, run {number + 1} of {self.runs}")
                done.append({**measure(cell, number), "plain_loop": plain_loop()})
                (self.folder / f"{cell.name}.json").write_text(json.dumps(done, indent=1))

    def spread(self, cell: Cell, figure: str) -> Spread:
        """One figure of a cell."""
        return Spread.of([run[figure] for run in self.of(cell) if run.get(figure) is not None])

    def speed(self, cells: Sequence[Cell]) -> str:
        """How fast the machine was, in words."""
        seen = [run["plain_loop"] for cell in cells for run in self.of(cell) if "plain_loop" in run]
        if not seen:
            return ""
        return f"A plain loop over ten million numbers took {min(seen):.2f} to {max(seen):.2f} s right after the runs."

    def remembered(self, name: str, make: Callable[[], Figures]) -> Figures:
        """A figure that all cells rest on, measured once."""
        path = self.folder / f"{name}.json"
        if not path.exists():
            path.write_text(json.dumps(make()))
        return dict(json.loads(path.read_text()))


@contextmanager
def kept_runs(page: Path, quick: bool, minutes: float | None = None) -> Iterator[CellRuns]:
    """The runs beside a page; a quick call has a folder of its own that goes with it, since its runs are too small to keep."""
    if not quick:
        yield CellRuns.beside(page, minutes=minutes)
        return
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as scratch:
        yield CellRuns.beside(Path(scratch) / page.name, 1, minutes)


def plain_loop() -> float:
    """Seconds of a loop over ten million numbers: what tells machines, and hours of one machine, apart."""
    began = time.perf_counter()
    for _ in range(10_000_000):
        pass
    return time.perf_counter() - began


def run_alone(module: str, spec: Mapping[str, Any]) -> Figures:
    """One run in a process of its own, which prints its figures last."""
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as scratch:
        command = [sys.executable, "-m", module, json.dumps({**spec, "folder": scratch})]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"a run of the benchmark failed:\n{done.stderr[-3000:]}")
    return dict(json.loads(done.stdout.strip().splitlines()[-1]))
