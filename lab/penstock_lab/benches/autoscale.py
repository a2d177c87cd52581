"""Ways to scale a streaming query on a real standalone cluster, under bursty load, side by side.

Executors are held to half a core each, so that four fit on two cores. Every way runs the same rows in a process of
its own: a warm-up, then the Bellcore trace sped up, or a MAP(2) stream with index of dispersion 1000. Every finished run is kept
beside the page, so the same call again goes on where it stopped; ``--minutes`` ends a call early.
"""

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from penstock.core.arrays import Floats
from penstock.core.journal import read
from penstock.models import MicroBatch, fit_kpc
from penstock.picture import BLUE, GREEN, INK, PURPLE, RED, picture
from penstock.spark.cluster import LocalCluster
from penstock.traffic import map2, poisson
from penstock.traffic.trace import read_trace
from penstock_lab.benches.autoscale_goals import MOST, REACTIVE, judge
from penstock_lab.cell_runs import Cell, CellRuns, Figures, Spread, attempt_all, kept_runs, missing
from penstock_lab.data import data_folder
from penstock_lab.results import ResultsPage, Table
from penstock_lab.trials.autoscale import AutoscaleTrial, request
from penstock_lab.trials.process import result_of

#: Seconds in which executors come up and compile, and a policy that fits models sees warm batches before it is judged.
WARM = 60.0
SLOT = 2.0  # seconds of arrivals that are judged together

#: Name in the tables -> method of the trial, idle time of Spark's own allocation.
WAYS: dict[str, tuple[str, str]] = {
    MOST: ("maximum", ""),
    "Spark dynamic allocation": ("dynamic", "60s"),
    "Spark dynamic allocation, idle 1 s": ("dynamic", "1s"),
    "Threshold": ("threshold", ""),
    "RuleBased": ("rulebased", ""),
    "Spl": ("spl", ""),
    "Mead": ("mead", ""),
    "Mpc": ("mpc", ""),
    "Ds2": ("ds2", ""),
    "Hpa": ("hpa", ""),
    "static minimum (1)": ("minimum", ""),
}
#: The most telling first: a call may be ended early.
ORDER = (MOST, REACTIVE, "Mpc", "Mead", "RuleBased", "Spl", "Ds2", "Hpa", *WAYS)
#: Seconds of each load.
SECONDS = 300.0
#: Ways of a quick look, its seconds and those of its warm-up.
QUICK, QUICK_SECONDS, QUICK_WARM = ("Mpc",), 16.0, 10.0
TARGET = 6.0
#: Rows a second on average; what the arrivals of the first run are drawn by.
RATE, SEED = 600.0, 5
#: So many of the ways come under all loads before the others do.
TELLING = 8
FIGURES = ("p95", "violations", "late", "core_seconds", "changes")


@dataclass(frozen=True)
class AutoscaleResult:
    """What one way did under one load."""

    way: str
    load: str
    p95: float
    late: float  # share of rows later than the target
    violations: int  # slots whose 95th percentile was later than the target
    slots: int
    core_seconds: float
    changes: int  # executors that came or went
    overhead: float  # cores that observing and deciding took, in driver and policy's own process

    @property
    def figures(self) -> Figures:
        """What is kept of a run; violations and late rows in per cent."""
        return {
            "p95": self.p95,
            "violations": 100 * self.violations / max(1, self.slots),
            "late": 100 * self.late,
            "core_seconds": self.core_seconds,
            "changes": self.changes,
            "overhead": self.overhead,
        }


def run(quick: bool, folder: Path, minutes: float | None = None) -> ResultsPage:
    """Run what is missing of all ways under all loads, compare, check the goals; no run is begun after so many ``minutes``."""
    words = " --quick" if quick else ""
    report = ResultsPage(
        "Autoscaling of a Spark query under bursts", "penstock bench autoscale" + words, quick=quick
    )
    with kept_runs(folder / "autoscale", quick, minutes) as kept:
        cells = cells_of(quick)
        _measure(report, kept, cells)
        tell(report, kept, cells, folder)
        report.seconds = kept.wall(cells)
    return report


def _measure(report: ResultsPage, kept: CellRuns, cells: Sequence[Cell]) -> None:
    if missing(kept, cells):
        _compile()
        with LocalCluster(workers=2, cores=2, memory="2g") as cluster:
            attempt_all(
                report,
                kept,
                cells,
                lambda cell, number: one_run(cell, number, cluster.master, kept.folder),
            )


def _compile() -> None:
    """The loops that ``Mead`` and ``Mpc`` compute with: they are compiled once an installation, and no run is charged for that."""
    gaps = np.diff(map2(RATE, 1000.0).sample(20.0, SEED))
    MicroBatch(fit_kpc(gaps, best=1, max_states=4)[0], 2.0, 0.3, 1.5e-3, workers=2).percentile(0.95)


def tell(report: ResultsPage, kept: CellRuns, cells: Sequence[Cell], folder: Path) -> None:
    """Tables, plots and claims, from the runs that there are."""
    for load in dict.fromkeys(cell.load for cell in cells if kept.of(cell)):
        own = [cell for cell in cells if cell.load == load and kept.of(cell)]
        report.tables.append(_table(kept, own))
        name = "autoscale-" + load.partition(" ")[0].partition("(")[0].lower()
        curves = {cell.way: curve for cell in own if (curve := _curve(kept.folder, cell)) is not None}
        if curves:
            report.plots.append(_plot(folder / f"{name}.png", curves, _span(own[0], curves), TARGET))
    judge(report, kept, cells, TARGET)


def cells_of(quick: bool) -> list[Cell]:
    """Every way under every load, those that tell most first; a quick look is at one load."""
    loads = make_loads(1.0).names[::-1]  # the MAP(2) stream has the longer bursts
    ways = QUICK if quick else tuple(dict.fromkeys(ORDER))
    constants = {"seconds": SECONDS, "warm_up": WARM, "rate": RATE, "target": TARGET, "seed": SEED}
    if quick:
        constants |= {"seconds": QUICK_SECONDS, "warm_up": QUICK_WARM}
    made = [
        Cell("autoscale", load, way, constants) for load in (loads[:1] if quick else loads) for way in ways
    ]
    return sorted(made, key=lambda cell: ways.index(cell.way) >= TELLING)  # stable: loads stay together


def one_run(cell: Cell, number: int, master: str, place: Path) -> Figures:
    """One run in a process of its own; the curves of the first are kept for the plot. Ways with the same number have the same rows."""
    loads = make_loads(cell.spec["seconds"], cell.spec["warm_up"], SEED + number).only(cell.load)
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as scratch:
        np.save(Path(scratch) / "arrivals.npy", loads.arrivals)
        trial = _trial(cell.way, master, Path(scratch), TARGET)
        (outcome,), (times, held, slots, rate) = measured(cell.way, trial, loads)
    if number == 0:
        np.savez_compressed(place / f"{cell.name}.npz", times=times, held=held, slots=slots, rate=rate)
    return outcome.figures


def _curve(place: Path, cell: Cell) -> Any:
    path = place / f"{cell.name}.npz"
    if not path.exists():
        return None
    found = np.load(path)
    return found["times"], found["held"], found["slots"], found["rate"]


def _span(cell: Cell, curves: dict[str, Any]) -> "Loads":
    """Where the load begins and ends, for the plot."""
    seconds = len(next(iter(curves.values()))[3])
    return Loads(np.empty(0), ((cell.load, cell.spec["warm_up"], float(seconds)),))


@dataclass(frozen=True)
class Loads:
    """Arrivals of all parts one after the other, and where each part begins and ends."""

    arrivals: Floats
    parts: tuple[tuple[str, float, float], ...]

    @property
    def names(self) -> list[str]:
        """The parts by name."""
        return [name for name, _, _ in self.parts]

    def only(self, name: str) -> "Loads":
        """The warm-up and one part right after it."""
        ((_, start, end),) = (part for part in self.parts if part[0] == name)
        first = self.parts[0][1]
        warm, own = self.arrivals < first, (self.arrivals >= start) & (self.arrivals < end)
        moved = np.concatenate([self.arrivals[warm], self.arrivals[own] - start + first])
        return Loads(moved, ((name, first, first + end - start),))


def make_loads(seconds: float, warm_up: float = WARM, seed: int = SEED, rate: float = RATE) -> Loads:
    """Warm-up, the recorded trace where it is there, the MAP(2) stream, one after the other."""
    pieces: list[Floats] = [poisson(rate).sample(warm_up, seed)]
    parts, start = [], warm_up
    bursts: list[tuple[str, Floats]] = []
    recorded = _bellcore(rate, seconds)
    if recorded is not None:
        bursts.append(("BC-pAug89 sped up", recorded))
    bursts.append(("MAP(2), I = 1000", map2(rate, 1000.0).sample(seconds, seed)))
    for name, arrivals in bursts:
        pieces.append(start + arrivals)
        parts.append((name, start, start + seconds))
        start += seconds
    return Loads(np.concatenate(pieces), tuple(parts))


def _bellcore(rate: float, seconds: float) -> Floats | None:
    """Every third row of the trace, as much faster as makes the mean rate right."""
    path = data_folder() / "bc_paug89.csv.gz"
    if not path.exists():
        return None
    arrivals = np.asarray(read_trace(path, column="ts_us", unit="us").arrival)[::3]
    arrivals = (arrivals - arrivals[0]) * (len(arrivals) / (arrivals[-1] - arrivals[0]) / rate)
    return np.asarray(arrivals[arrivals < seconds])


def _trial(name: str, master: str, work: Path, target: float) -> AutoscaleTrial:
    method, idle = WAYS[name]
    own = work / name.replace(" ", "-").replace("(", "").replace(")", "").replace(",", "")
    return AutoscaleTrial(
        master, method, str(work / "arrivals.npy"), str(own), target=target, idle=idle or "60s"
    )


def measured(name: str, trial: AutoscaleTrial, loads: Loads) -> tuple[list[AutoscaleResult], Any]:
    """Run a trial; what it did under each load, and its curves."""
    patience = float(loads.arrivals[-1]) + 240.0
    folder = Path(trial.folder)
    result = result_of("penstock_lab.trials.autoscale", request(trial), folder, name, patience)
    journal = read(folder / "journal.jsonl")
    offset = float(result["journal_began"] - result["began"])
    delays = row_delays(loads.arrivals, result["rows"], result["ends"] - float(result["began"]))
    held = journal.observations["registered"]
    times = journal.observations["time"] + offset
    overhead = float(result["overhead"]) + _thinking(journal.observations)
    outcomes = [
        _outcome(name, part, loads.arrivals, delays, times, held, trial, overhead) for part in loads.parts
    ]
    rate = np.histogram(loads.arrivals, np.arange(0, loads.arrivals[-1] + 1, 1.0))[0].astype(float)
    return outcomes, (times, held, _by_slot(loads.arrivals, delays), rate)


def _thinking(observations: Mapping[str, Any]) -> float:
    """Cores that the policy's own process took on average; 0 where it has none."""
    if "thinking" not in observations:
        return 0.0
    cores = np.nan_to_num(observations["thinking"])
    return float(np.average(cores, weights=observations["period"]))


def row_delays(arrivals: Floats, rows: Any, ends: Floats) -> Floats:
    """Seconds from arrival to the end of the batch, for every row; rows come in order of arrival.

    Rows that no batch took before the trial was ended count as done at its end: they are later than that.
    """
    taken = np.repeat(ends, rows)[: len(arrivals)]
    finish = np.full(len(arrivals), ends.max() if len(ends) else np.inf)
    finish[: len(taken)] = taken
    return np.asarray(finish - arrivals)


def _by_slot(arrivals: Floats, delays: Floats) -> Floats:
    """95th percentile of the delay of the rows that arrived in each slot; ``nan`` for slots without rows."""
    slots = (arrivals // SLOT).astype(int)
    found = np.full(slots.max() + 1, np.nan)
    for slot in np.unique(slots):
        found[slot] = np.percentile(delays[slots == slot], 95)
    return found


def _outcome(
    way: str, part: tuple[str, float, float], arrivals: Floats, delays: Floats, times: Floats, held: Floats,
    trial: AutoscaleTrial, overhead: float,
) -> AutoscaleResult:  # fmt: skip
    load, start, end = part
    mine = delays[(arrivals >= start) & (arrivals < end)]
    slots = _by_slot(arrivals, delays)[int(start // SLOT) : int(end // SLOT)]
    inside = (times >= start) & (times < end)
    seconds = np.diff(times, append=times[-1] + trial.period)
    return AutoscaleResult(
        way=way,
        load=load,
        p95=float(np.percentile(mine, 95)),
        late=float((mine > trial.target).mean()),
        violations=int((slots > trial.target).sum()),
        slots=int(np.isfinite(slots).sum()),
        core_seconds=float((held * seconds)[inside].sum() * trial.share),
        changes=int(np.abs(np.diff(held[inside])).sum()),
        overhead=overhead,
    )


def _table(kept: CellRuns, own: Sequence[Cell]) -> Table:
    columns = (
        "way",
        "P95 delay (s)",
        "violations, %",
        "rows late, %",
        "core-seconds",
        "changes",
        "overhead, % of a core",
    )
    rows = []
    for cell in own:
        overhead = Spread.of([100 * run["overhead"] for run in kept.of(cell)])
        rows.append((cell.way, *(str(kept.spread(cell, f)) for f in FIGURES), str(overhead)))
    note = (
        f"Mean ± standard deviation of the runs, {own[0].spec['seconds']:g} s each after {own[0].spec['warm_up']:g} s of warm-up; runs with the same number have the same rows. "
        f"Target: 95 % of rows done within {TARGET:g} s of their arrival. Violations count slots of {SLOT:g} s of arrivals "
        "whose own 95th percentile is later. Core-seconds count every registered executor (starting and leaving ones "
        f"too) at half a core. Changes are executors that came or went. Overhead is what observing and deciding took, in the driver and in a process of the policy's own, whose loops were compiled before (once an installation, 15 to 20 CPU seconds). {kept.speed(own)}"
    )
    return Table(own[0].load, columns, rows, note.rstrip())


def _plot(path: Path, curves: dict[str, Any], loads: Loads, target: float) -> Path:
    rate = next(iter(curves.values()))[3]
    size = (11.0, 2.0 + 1.9 * len(curves))
    with picture(path, len(curves) + 1, 1, size=size, sharex=True, squeeze=False) as grid:
        axes = grid[:, 0]
        axes[0].fill_between(np.arange(len(rate)), rate, color=BLUE, alpha=0.4, step="post")
        axes[0].set_ylabel("rows/s")
        for axis, (name, (times, held, slots, _)) in zip(axes[1:], curves.items(), strict=True):
            axis.plot(np.arange(len(slots)) * SLOT, slots, color=PURPLE)
            axis.axhline(target, color=RED, ls="--", lw=1)
            axis.set_ylabel("P95 delay (s)", color=PURPLE)
            axis.set_ylim(0, min(max(2.5 * target, 1.0), max(1.2 * target, float(np.nanmax(slots)) * 1.1)))
            other = axis.twinx()
            other.step(times, held, color=GREEN, where="post")
            other.set_ylim(0, 4.6)
            other.set_ylabel("executors", color=GREEN)
            axis.set_title(name)
        for axis in axes:
            for _, start, _ in loads.parts:
                axis.axvline(start, color=INK, lw=0.7, ls=":")
        axes[-1].set_xlabel("seconds; " + ", then ".join(["warm-up", *loads.names]))
    return path
