"""Three policies on a query of Nexmark live on Spark: executors of a real standalone cluster, several runs with their spread."""

import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from penstock.core.changes_made import steps_to_converge
from penstock.core.control_quality import times_of_changes
from penstock.spark.cluster import LocalCluster
from penstock.traffic import poisson
from penstock.traffic.composition import Shaped
from penstock.traffic.shapes import steps
from penstock_lab.benches.autoscale import Loads, measured
from penstock_lab.cell_runs import RUNS, Cell, CellRuns, Figures
from penstock_lab.judging import judged
from penstock_lab.results import ResultsPage, Table
from penstock_lab.trials.autoscale import AutoscaleTrial

#: The query: one with state, that of visits.
QUERY = "q11"
POLICIES = ("Threshold", "Ds2", "Mpc")
#: Rows a second, the factor of the step; seconds until state is steady and executors are warm, and of each level of the load.
RATE, FACTOR, WARM, LEVEL = 300.0, 4.0, 40.0, 30.0
TARGET = 6.0
FIGURES = ("p95", "violations", "late", "core_seconds", "changes", "to_converge")


def live(report: ResultsPage, kept: CellRuns) -> None:
    """Make the runs that are missing, as many as there is time for, and tell of all."""
    cells = [Cell("live", QUERY, policy) for policy in POLICIES]
    if any(len(kept.of(cell)) < kept.runs for cell in cells):
        with LocalCluster(workers=2, cores=2, memory="2g") as cluster:
            kept.fill(cells, lambda cell, _: one_run(cell.way, cluster.master))
    tell(report, kept, cells)


def loads() -> Loads:
    """A level, four times that, and back."""
    seconds = WARM + 3 * LEVEL
    shape = steps((WARM + LEVEL, FACTOR), (WARM + 2 * LEVEL, 1.0))
    arrivals = Shaped(poisson(RATE), shape).sample(seconds, 7)
    return Loads(arrivals, (("step", WARM, seconds),))


def one_run(policy: str, master: str) -> Figures:
    """One run in a process of its own."""
    made = loads()
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as scratch:
        np.save(Path(scratch) / "arrivals.npy", made.arrivals)
        trial = AutoscaleTrial(
            master, policy.lower(), str(Path(scratch) / "arrivals.npy"), str(Path(scratch) / "run"), TARGET,
            nexmark=QUERY,
        )  # fmt: skip
        outcome = measured(policy, trial, made)[0][0]
        times = times_of_changes(Path(trial.folder) / "journal.jsonl")
        result = np.load(Path(trial.folder) / "result.npz")
        to_converge = changes_to_converge(times, float(result["journal_began"] - result["began"]))
    return {**outcome.figures, "to_converge": to_converge}


def changes_to_converge(times: Sequence[float], offset: float) -> float:
    """Changes after a step of the load until none followed before the next; ``offset``: when the journal began, in seconds of the load."""
    stepped = [at - offset for at in (WARM + LEVEL, WARM + 2 * LEVEL)]
    return steps_to_converge(times, stepped, quiet=LEVEL)


def tell(report: ResultsPage, kept: CellRuns, cells: Sequence[Cell]) -> None:
    """What the runs came to."""
    report.tables.append(
        Table(
            f"Live on Spark: {QUERY} under a step",
            ("policy", "P95 delay (s)", "violations, %", "rows late, %", "core-seconds", "executors that came or went", "steps to converge"),
            [[cell.way, *(str(kept.spread(cell, figure)) for figure in FIGURES)] for cell in cells if kept.of(cell)],
            f"Mean ± standard deviation of the runs. {RATE:g} bids a second, then {FACTOR:g} times as many, then {RATE:g} again, {LEVEL:g} s each after {WARM:g} s of warm-up; every bid's price is converted by a Python function that "
            "computes for 0.1 ms and waits for 1.2 ms, as a lookup would. One to four executors of half a core on a standalone cluster on loopback. Target: 95 % of the rows within "
            f"{TARGET:g} s of their arrival; a violation is a slot of 2 s of arrivals whose own 95th percentile is later. Steps to converge: changes after a step of the load until none followed within its {LEVEL:g} s. {kept.speed(cells)}",
        )
    )  # fmt: skip
    least = min(len(kept.of(cell)) for cell in cells)
    report.claim(
        "Live comparisons are several runs, with spread", f"{RUNS} runs of each", f"{least} of each",
        judged(least >= RUNS, f"at least {RUNS} of each"),
    )  # fmt: skip
