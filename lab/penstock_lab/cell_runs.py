"""Runs of a benchmark that is made several times: each is kept in a folder, and figures are told with their spread.

The same call again goes on where the last one stopped. A kept run carries its number (ways have the same seed in runs of the
same number), the specification of its cell, its wall seconds, and the seconds of a plain loop right after it. It counts where
its specification is the cell's present one; others stay in the file. Where ``machine`` is known, a run counts only if its plain
loop took no more than 1.5 times as long or as short: rates that one speed of a machine was measured for are no load for
another, so what was run at another speed is run again.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from math import inf, isnan, nan
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from penstock.core.errors import PenstockError
from penstock.spark.actuators.processes import tree
from penstock_lab.results import ResultsPage, announce

#: Runs of a cell.
RUNS = 3
#: How many times faster or slower a machine may be and still count as the same.
SPEEDS = 1.5
#: Seconds that Spark may take to come and go, and how many times its own seconds a run may take.
COMING_AND_GOING, OVERTIME = 120.0, 5.0

Figures = Mapping[str, Any]


@dataclass(frozen=True)
class Cell:
    """One way of running one load, with every constant that its figures rest on."""

    part: str
    load: str
    way: str
    spec: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name of its file."""
        words = "--".join(word for word in (self.part, self.load, self.way) if word)
        return words.replace(" ", "_").replace("/", "-").replace(",", "")


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

    @property
    def above_nothing(self) -> bool:
        """Whether differences are above 0 by more than their spread."""
        return self.mean > self.deviation

    @property
    def verdict(self) -> str:
        """Differences of what should be small, in a word: more than their spread says something, less does not."""
        if self.above_nothing:
            return "worse"
        return "better" if self.mean < -self.deviation else "undecided"

    def __str__(self) -> str:
        if isnan(self.mean):
            return "-"
        if isnan(self.deviation):
            return f"{_short(self.mean)} (1 run)"
        told = f"{_short(self.mean)} ± {_short(self.deviation, 2)}"
        return told if self.runs >= RUNS else f"{told} ({self.runs} runs)"


def _short(value: float, digits: int = 3) -> str:
    return f"{value:.{digits}g}" if abs(value) < 100 else f"{value:,.0f}"


@dataclass
class CellRuns:
    """The runs so far, in a folder."""

    folder: Path
    until: float = inf
    runs: int = RUNS
    #: Seconds of a plain loop of the machine whose runs count; nan: those of any.
    machine: float = nan

    @classmethod
    def beside(cls, page: Path, runs: int = RUNS, minutes: float | None = None) -> "CellRuns":
        """The folder of a page's runs, which are begun within so many minutes."""
        page.mkdir(parents=True, exist_ok=True)
        return cls(page, inf if minutes is None else time.monotonic() + 60 * minutes, runs)

    def of(self, cell: Cell) -> list[Figures]:
        """The runs of a cell that count, by their number; of those with one number the last."""
        counted = {run["run"]: run for run in self._kept(cell) if self._counts(run, cell)}
        return [counted[number] for number in sorted(counted)]

    def fill(
        self, cells: Sequence[Cell], measure: Callable[[Cell, int], Figures], runs: int | None = None
    ) -> None:
        """Run what is missing, a run of every cell in turn, so that a call cut short has something of each."""
        for number in range(self.runs if runs is None else min(runs, self.runs)):
            for cell in cells:
                done = any(run["run"] == number for run in self.of(cell))
                if not done and time.monotonic() <= self.until:
                    announce(f"{cell.part}: {cell.load}, {cell.way}, run {number + 1} of {self.runs}")
                    self._run(cell, number, measure)

    def remembered(self, cell: Cell, measure: Callable[[Cell, int], Figures]) -> Figures:
        """A run that all cells of a part rest on, made once, however little time there is."""
        done = self.of(cell)
        return done[0] if done else self._run(cell, 0, measure)

    def spread(self, cell: Cell, figure: str) -> Spread:
        """One figure of a cell."""
        return Spread.of([run[figure] for run in self.of(cell) if run.get(figure) is not None])

    def worst(self, cell: Cell, figure: str) -> float:
        """The largest of a cell's figure."""
        return max((run[figure] for run in self.of(cell) if run.get(figure) is not None), default=nan)

    def differences(self, one: Cell, other: Cell, figure: str) -> Spread:
        """A figure of one way less that of another, run by run: runs of the same number have the same seed."""
        theirs = {run["run"]: run[figure] for run in self.of(other)}
        pairs = [(run[figure], theirs[run["run"]]) for run in self.of(one) if run["run"] in theirs]
        return Spread.of([a - b for a, b in pairs])

    def wall(self, cells: Sequence[Cell]) -> float:
        """Seconds that the runs of cells took, whenever that was."""
        return float(sum(run.get("wall", 0.0) for cell in cells for run in self.of(cell)))

    def speed(self, cells: Sequence[Cell]) -> str:
        """How fast the machine was, in words, and what is not counted."""
        seen = [run["plain_loop"] for cell in cells for run in self.of(cell) if "plain_loop" in run]
        out = sum(not self._counts(run, cell) for cell in cells for run in self._kept(cell))
        words = []
        if seen:
            words.append(
                f"A plain loop over ten million numbers took {min(seen):.2f} to {max(seen):.2f} s right after the runs."
            )
        if out:
            words.append(
                f"Kept, but not counted: {out} runs with other constants or on a machine more than {SPEEDS:g} times faster or slower."
            )
        return " ".join(words)

    def newest_speed(self, cells: Sequence[Cell] | None = None) -> float:
        """Seconds of the plain loop after the last of all runs, or of those of these cells; nan where there is none."""
        paths = (
            self.folder.glob("*.json") if cells is None else [self.folder / f"{c.name}.json" for c in cells]
        )
        runs = [run for path in paths if path.exists() for run in json.loads(path.read_text())]
        timed = [(run["ended"], run["plain_loop"]) for run in runs if "ended" in run]
        return float(max(timed)[1]) if timed else nan

    def usual_speed(self, part: str) -> float:
        """The speed of the machine by which the most runs of a part count; nan where there is none."""
        runs = [run for path in self.folder.glob(f"{part}--*.json") for run in json.loads(path.read_text())]
        seen = sorted(run["plain_loop"] for run in runs if isinstance(run, dict) and "plain_loop" in run)
        # A window of speeds that count begins with one of them, which must not fall out by rounding.
        within = SPEEDS * (1 - 1e-6)
        windows = [(sum(low <= s <= low * within**2 for s in seen), -low) for low in seen]
        return -max(windows)[1] * within if windows else nan

    def _run(self, cell: Cell, number: int, measure: Callable[[Cell, int], Figures]) -> Figures:
        began = time.monotonic()
        found = {**measure(cell, number), "run": number, "spec": _plain(cell.spec)}
        found |= {"wall": time.monotonic() - began, "plain_loop": plain_loop(), "ended": round(time.time())}
        path = self.folder / f"{cell.name}.json"
        path.write_text(json.dumps([*self._kept(cell), found], indent=1))
        return found

    def _kept(self, cell: Cell) -> list[dict[str, Any]]:
        """All runs in the file; those of before runs had a number are numbered by their place."""
        path = self.folder / f"{cell.name}.json"
        runs = json.loads(path.read_text()) if path.exists() else []
        return [{"run": place, **run} for place, run in enumerate(runs)]

    def _counts(self, run: Figures, cell: Cell) -> bool:
        speed = run.get("plain_loop", nan) / self.machine
        return run.get("spec", {}) == _plain(cell.spec) and not (speed > SPEEDS or speed < 1 / SPEEDS)


@contextmanager
def kept_runs(page: Path, quick: bool, minutes: float | None = None) -> Iterator[CellRuns]:
    """The runs beside a page; a quick call has a folder of its own that goes with it, since its runs are too small to keep."""
    if not quick:
        yield CellRuns.beside(page, minutes=minutes)
        return
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as scratch:
        yield CellRuns.beside(Path(scratch) / page.name, 1, minutes)


def missing(kept: CellRuns, cells: Sequence[Cell]) -> bool:
    """Whether a cell has fewer runs than it should have, and there is time for more."""
    return time.monotonic() <= kept.until and any(len(kept.of(cell)) < kept.runs for cell in cells)


def attempt_all(
    report: ResultsPage, kept: CellRuns, cells: Sequence[Cell], measure: Callable[[Cell, int], Figures]
) -> None:
    """Run what is missing, a run of every cell in turn; a run that fails is tried again with the next one of its cell.

    A cell that has a run too few at the end because of that is a claim that differs.
    """
    failed: dict[str, str] = {}
    for number in range(kept.runs):
        for cell in cells:
            try:
                kept.fill([cell], measure, number + 1)
            except (PenstockError, RuntimeError) as error:
                announce(f"{cell.load}, {cell.way}: {error}")
                failed[cell.name] = str(error).strip().splitlines()[-1]
    for cell in cells:
        if cell.name in failed and len(kept.of(cell)) < kept.runs:
            report.claim(
                f"{cell.part}, {cell.load}: every run of {cell.way} comes to its end",
                f"{kept.runs} of {kept.runs}",
                f"{len(kept.of(cell))}; {failed[cell.name]}",
                False,
            )


def plain_loop() -> float:
    """Seconds of a loop over ten million numbers, the best of three: what tells machines, and hours of one machine, apart."""
    return min(_loop() for _ in range(3))


def _loop() -> float:
    began = time.perf_counter()
    for _ in range(10_000_000):
        pass
    return time.perf_counter() - began


def _plain(spec: Mapping[str, Any]) -> dict[str, Any]:
    """As it comes back from a file."""
    return dict(json.loads(json.dumps(spec)))


def run_alone(module: str, spec: Mapping[str, Any]) -> Figures:
    """One run in a process of its own, which prints its figures last; whatever it started ends with it.

    It has five times its warm-up and seconds, and two minutes for Spark to come and go.
    """
    limit = COMING_AND_GOING + OVERTIME * (spec.get("warm_up", 0.0) + spec.get("seconds", 0.0))
    with tempfile.TemporaryDirectory(prefix="penstock-bench-", ignore_cleanup_errors=True) as scratch:
        command = [sys.executable, "-m", module, json.dumps({**spec, "folder": scratch})]
        out, err = Path(scratch) / "stdout", Path(scratch) / "stderr"
        with out.open("wb") as stdout, err.open("wb") as stderr:
            process = subprocess.Popen(command, stdout=stdout, stderr=stderr, start_new_session=True)
            try:
                process.wait(limit)
            except subprocess.TimeoutExpired:
                raise RuntimeError(
                    f"A run of the benchmark did not end within {limit:.0f} s:\n{_end_of(err)}"
                ) from None
            finally:
                _end(process)
        if process.returncode:
            raise RuntimeError(f"A run of the benchmark failed:\n{_end_of(err)}")
        return dict(json.loads(out.read_text().strip().splitlines()[-1]))


def _end(process: "subprocess.Popen[bytes]") -> None:
    """Kill what is left of a process's group, and its descendants in groups of their own (Spark's Python workers)."""
    others = tree(process.pid) if process.poll() is None else []
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    for pid in others:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.wait()


def _end_of(file: Path) -> str:
    return file.read_text(errors="replace")[-3000:]
