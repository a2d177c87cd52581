"""Ways to scale a streaming query on a real standalone cluster, under bursty load, side by side.

Executors are held to half a core each, so that four fit on two cores. Every way runs the same rows in a process of
its own: a warm-up, then the Bellcore trace sped up, then a MAP(2) stream with index of dispersion 1000.
"""

import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from penstock.core.arrays import Floats
from penstock.core.errors import PenstockError
from penstock.core.journal import read
from penstock.picture import BLUE, GREEN, INK, PURPLE, RED, picture
from penstock.spark.cluster import LocalCluster
from penstock.traffic import map2, poisson
from penstock.traffic.trace import read_trace
from penstock_lab.data import data_folder
from penstock_lab.results import ResultsPage, Table, announce
from penstock_lab.trials.autoscale import AutoscaleTrial, request

#: Seconds in which executors come up and compile, and a policy that fits models sees warm batches before it is judged.
WARM = 60.0
SLOT = 2.0  # seconds of arrivals that are judged together

#: Name in the tables -> method of the trial, idle time of Spark's own allocation.
WAYS: dict[str, tuple[str, str]] = {
    "static minimum (1)": ("minimum", ""),
    "static maximum (4)": ("maximum", ""),
    "Spark dynamic allocation": ("dynamic", "60s"),
    "Spark dynamic allocation, idle 1 s": ("dynamic", "1s"),
    "Threshold": ("threshold", ""),
    "RuleBased": ("rulebased", ""),
    "Spl": ("spl", ""),
    "Mead": ("mead", ""),
    "Mpc": ("mpc", ""),
}
QUICK = ("static maximum (4)", "Mpc")
#: The policies, all held to the same goals.
OURS = ("Threshold", "RuleBased", "Spl", "Mead", "Mpc")


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
    overhead: float


def run(quick: bool, folder: Path, minutes: float | None = None) -> ResultsPage:
    """Run all ways, compare, check the goals; ``minutes`` of each load instead of 36 seconds."""
    words = "" if minutes is None else f" --minutes {minutes:g}"
    report = ResultsPage("Autoscaling of a Spark query under bursts", "penstock bench autoscale" + words)
    seconds = 60.0 * minutes if minutes is not None else 24.0 if quick else 36.0
    target = 6.0
    loads = make_loads(seconds)
    names = QUICK if quick else tuple(WAYS)
    outcomes: list[AutoscaleResult] = []
    curves: dict[str, tuple[Floats, Floats, Floats, Floats]] = {}
    work = Path(tempfile.mkdtemp(prefix="penstock-bench-"))
    try:
        np.save(work / "arrivals.npy", loads.arrivals)
        with LocalCluster(workers=2, cores=2, memory="2g") as cluster:
            for name in names:
                announce(f"{name}: {loads.arrivals[-1]:.0f} s of load")
                trial = _trial(name, cluster.master, work, target)
                found, curve = measured(name, trial, loads)
                outcomes += found
                curves[name] = curve
    finally:
        shutil.rmtree(work, ignore_errors=True)
    for load in loads.names:
        report.tables.append(_table(load, [o for o in outcomes if o.load == load], target))
    _claims(report, outcomes, target)
    report.plots.append(_plot(folder / "autoscale.png", curves, loads, target))
    return report


@dataclass(frozen=True)
class Loads:
    """Arrivals of all parts one after the other, and where each part begins and ends."""

    arrivals: Floats
    parts: tuple[tuple[str, float, float], ...]

    @property
    def names(self) -> list[str]:
        """The parts by name."""
        return [name for name, _, _ in self.parts]


def make_loads(seconds: float, rate: float = 600.0, seed: int = 5) -> Loads:
    """Warm-up, the recorded trace where it is there, the MAP(2) stream, one after the other."""
    pieces: list[Floats] = [poisson(rate).sample(WARM, seed)]
    parts, start = [], WARM
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
    done = subprocess.run(
        [sys.executable, "-m", "penstock_lab.trials.autoscale", str(request(trial))],
        capture_output=True,
        text=True,
        timeout=patience,
        check=False,
    )
    folder = Path(trial.folder)
    if done.returncode or not (folder / "result.npz").exists():
        why = (done.stderr.strip().splitlines() or ["no word"])[-1]
        raise PenstockError(f"The trial of {name} failed ({why}); run it again on a quieter machine.")
    result = np.load(folder / "result.npz")
    journal = read(folder / "journal.jsonl")
    offset = float(result["journal_began"] - result["began"])
    delays = row_delays(loads.arrivals, result["rows"], result["ends"] - float(result["began"]))
    held = journal.observations["registered"]
    times = journal.observations["time"] + offset
    outcomes = [
        _outcome(name, part, loads.arrivals, delays, times, held, trial, float(result["overhead"]))
        for part in loads.parts
    ]
    rate = np.histogram(loads.arrivals, np.arange(0, loads.arrivals[-1] + 1, 1.0))[0].astype(float)
    return outcomes, (times, held, _by_slot(loads.arrivals, delays), rate)


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


def _table(load: str, outcomes: list[AutoscaleResult], target: float) -> Table:
    rows = [
        (
            o.way,
            o.p95,
            f"{o.violations} of {o.slots}",
            f"{o.late:.1%}",
            o.core_seconds,
            o.changes,
            f"{o.overhead:.1%}",
        )
        for o in outcomes
    ]
    columns = (
        "way",
        "P95 delay (s)",
        "violations",
        "rows late",
        "core-seconds",
        "changes",
        "driver overhead",
    )
    note = (
        f"Target: 95 % of rows done within {target:g} s of their arrival. Violations count slots of {SLOT:g} s of arrivals "
        "whose own 95th percentile is later. Core-seconds count every registered executor (starting and leaving ones "
        "too) at half a core. Changes are executors that came or went."
    )
    return Table(load, columns, rows, note)


def _claims(report: ResultsPage, outcomes: list[AutoscaleResult], target: float) -> None:
    for load in dict.fromkeys(o.load for o in outcomes):
        by = {o.way: o for o in outcomes if o.load == load}
        for ours in (by[name] for name in OURS if name in by):
            _own_claims(report, ours, by["static maximum (4)"], target)
            for name, other in by.items():
                if name.startswith("Spark dynamic"):
                    _against_spark(report, name, ours, other, by["static maximum (4)"])
    worst = max(o.overhead for o in outcomes)
    report.claim(
        "Controller overhead on the driver", "below 3 % of one core", f"{worst:.2%} at most", worst < 0.03
    )


def _own_claims(report: ResultsPage, ours: AutoscaleResult, most: AutoscaleResult, target: float) -> None:
    report.claim(
        f"{ours.load}: {ours.way} meets the target",
        f"P95 at most {target:g} s",
        f"{ours.p95:.2f} s",
        ours.p95 <= target,
    )
    saved = 1 - ours.core_seconds / most.core_seconds
    report.claim(
        f"{ours.load}: {ours.way} takes fewer core-seconds than the static maximum",
        "at least 30 % fewer",
        f"{saved:.0%} fewer",
        saved >= 0.3,
    )


def _against_spark(
    report: ResultsPage, name: str, ours: AutoscaleResult, other: AutoscaleResult, most: AutoscaleResult
) -> None:
    about = f"{ours.load}: {ours.way} against {name}"
    if other.changes == 0 and other.core_seconds >= 0.99 * most.core_seconds:
        # It gave nothing back: there are no changes to have a fifth of, and what is left to compare is what it took.
        report.claim(
            f"{about}, which keeps the maximum: core-seconds",
            "at least 30 % fewer, with no more violations",
            f"{1 - ours.core_seconds / other.core_seconds:.0%} fewer, {ours.violations} against {other.violations}",
            ours.core_seconds <= 0.7 * other.core_seconds and ours.violations <= other.violations,
        )
        return
    report.claim(
        f"{about}: violations",
        "fewer (or none at all)",
        f"{ours.violations} against {other.violations}",
        ours.violations < other.violations or ours.violations == other.violations == 0,
    )
    report.claim(
        f"{about}: changes",
        "at most a fifth",
        f"{ours.changes} against {other.changes}",
        ours.changes <= other.changes / 5,
    )


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
