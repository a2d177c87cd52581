"""``penstock bench elastic``: policies on live Spark against fixed numbers of workers, several runs a cell.

Parts can be run alone (``--part query``, ``flows``, ``paced``, ``logs``). Every finished run is kept in the output folder, so the same
call again goes on where it stopped; ``--minutes`` ends a call early. A claim on a difference counts only where it is larger
than the spread of both cells.
"""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isnan, nan
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, TypeVar

from penstock.core.errors import unknown
from penstock_lab.results import ResultsPage, announce

#: Runs of a cell.
RUNS = 3
#: Parts that can be run alone; the page keeps those that were run before.
PARTS = ("query", "flows", "paced", "logs")

Figures = Mapping[str, float]
F = TypeVar("F")


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
    until: float
    runs: int

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


def judge_against_fixed(
    page: ResultsPage,
    kept: CellRuns,
    own: Sequence[Cell],
    policy: str,
    figure: tuple[str, str],
    target: float,
) -> None:
    """The goals of an elastic policy: the target, at most 60 % of the static peak, not behind ``Threshold`` on both counts."""
    name, words = figure
    by, load = {c.way: c for c in own}, own[0].load
    if policy not in by:
        return
    late, cost = (kept.spread(by[policy], f) for f in (name, "worker_seconds"))
    if not late.runs:
        return
    page.claim(
        f"{load}: {policy} meets the target",
        f"{words} at most {target:g} s",
        f"{late} s",
        late.mean <= target,
    )
    most = max((way for way in by if way.partition(" ")[0].isdigit()), default="")
    peak = kept.spread(by[most], "worker_seconds") if most else Spread.of([])
    if peak.runs:
        page.claim(
            f"{load}: {policy} against the static peak ({most})",
            "at most 60 % of its worker-seconds",
            f"{cost.mean / peak.mean:.0%}",
            cost.mean <= 0.6 * peak.mean,
        )
    if "Threshold" in by and kept.of(by["Threshold"]):
        other = [kept.spread(by["Threshold"], f) for f in (name, "worker_seconds")]
        behind = other[0].below(late) and other[1].below(cost)
        page.claim(
            f"{load}: {policy} is not behind Threshold on both counts",
            "delay or worker-seconds no worse, beyond the spread",
            f"{late} s and {cost} against {other[0]} s and {other[1]}",
            not behind,
        )


def run_alone(module: str, spec: Mapping[str, Any]) -> Figures:
    """One run in a process of its own, which prints its figures last."""
    with tempfile.TemporaryDirectory(prefix="penstock-elastic-") as scratch:
        command = [sys.executable, "-m", module, json.dumps({**spec, "folder": scratch})]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"a run of the benchmark failed:\n{done.stderr[-3000:]}")
    return dict(json.loads(done.stdout.strip().splitlines()[-1]))


def watched(run: Any, seen: list[F], spec: Mapping[str, Any]) -> tuple[list[F], float]:
    """What a run that has just started adds to ``seen`` after its warm-up, and the seconds of that; then it is stopped."""
    while not seen and run.is_active:
        time.sleep(0.1)
    time.sleep(spec["warm_up"])
    first, began = len(seen), time.time()
    time.sleep(spec["seconds"])
    last, took = len(seen), time.time() - began
    run.stop()
    return seen[first:last], took


def run(quick: bool, folder: Path, part: str | None = None, minutes: float | None = None) -> ResultsPage:
    """One part, or all; a quick look is at the first alone."""
    from penstock_lab.benches import elastic_flows, elastic_logs, elastic_paced, elastic_query

    parts = {
        "query": elastic_query.add,
        "flows": elastic_flows.add,
        "paced": elastic_paced.add,
        "logs": elastic_logs.add,
    }
    if part is not None and part not in parts:
        raise unknown("part of the elastic benchmark", part, parts)
    place = folder / "elastic"
    place.mkdir(parents=True, exist_ok=True)
    until = time.monotonic() + (1e9 if minutes is None else 60 * minutes)
    kept = CellRuns(place, until, 1 if quick else RUNS)
    words = (" --quick" if quick else "") + (f" --part {part}" if part else "")
    page = ResultsPage("Elasticity on live Spark", "penstock bench elastic" + words)
    for name, add in parts.items():
        if part == name or (part is None and (not quick or name == "query")):
            add(page, kept, quick)
    return page
