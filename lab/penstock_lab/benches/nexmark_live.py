"""Three policies on a query of Nexmark live on Spark: executors of a real standalone cluster, several runs with their spread.

The runs are kept beside the page, one by one, so that they can be made in several calls.
"""

import json
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from penstock.core import control_quality
from penstock.spark.cluster import LocalCluster
from penstock.traffic import poisson
from penstock.traffic.composition import Shaped
from penstock.traffic.shapes import steps
from penstock_lab.benches.autoscale import Loads, measured
from penstock_lab.judging import judged
from penstock_lab.results import ResultsPage, Table, announce
from penstock_lab.trials.autoscale import AutoscaleTrial

#: The query: one with state, that of visits.
QUERY = "q11"
POLICIES = ("Threshold", "Ds2", "Mpc")
RUNS = 3
#: Rows a second, the factor of the step; seconds until state is steady and executors are warm, and of each level of the load.
RATE, FACTOR, WARM, LEVEL = 300.0, 4.0, 40.0, 30.0
TARGET = 6.0


def live(report: ResultsPage, folder: Path, minutes: float | None) -> None:
    """Make the runs that are missing, as many as fit into the minutes, and tell of all."""
    kept = folder / "nexmark.live.json"
    done: list[dict[str, Any]] = json.loads(kept.read_text()) if kept.exists() else []
    until = time.monotonic() + 60.0 * (minutes or 600.0)
    missing = [p for number in range(RUNS) for p in POLICIES if sum(r["policy"] == p for r in done) <= number]
    if missing:
        with LocalCluster(workers=2, cores=2, memory="2g") as cluster:
            for policy in missing:
                if time.monotonic() > until:
                    break
                announce(f"{QUERY} under {policy}, live")
                done.append(one_run(policy, cluster.master))
                kept.write_text(json.dumps(done, indent=1))
    _tables(report, done)


def loads() -> Loads:
    """A level, four times that, and back."""
    seconds = WARM + 3 * LEVEL
    shape = steps((WARM + LEVEL, FACTOR), (WARM + 2 * LEVEL, 1.0))
    arrivals = Shaped(poisson(RATE), shape).sample(seconds, 7)
    return Loads(arrivals, (("step", WARM, seconds),))


def one_run(policy: str, master: str) -> dict[str, Any]:
    """One run in a process of its own."""
    made = loads()
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as scratch:
        np.save(Path(scratch) / "arrivals.npy", made.arrivals)
        trial = AutoscaleTrial(
            master, policy.lower(), str(Path(scratch) / "arrivals.npy"), str(Path(scratch) / "run"), TARGET,
            nexmark=QUERY,
        )  # fmt: skip
        outcome = measured(policy, trial, made)[0][0]
        quality = control_quality.figures(Path(trial.folder) / "journal.jsonl", target=TARGET)
    settled = quality.settling_time / trial.period
    return {"policy": policy, "steps": settled if np.isfinite(settled) else 0.0} | asdict(outcome)


def _tables(report: ResultsPage, done: list[dict[str, Any]]) -> None:
    rows: list[list[Any]] = []
    for policy in POLICIES:
        mine = [r for r in done if r["policy"] == policy]
        if mine:
            violations = [r["violations"] / max(1, r["slots"]) for r in mine]
            rows.append([
                policy, len(mine), _spread([r["p95"] for r in mine]), _spread([100 * v for v in violations]),
                _spread([100 * r["late"] for r in mine]), _spread([r["core_seconds"] for r in mine]),
                _spread([r["changes"] for r in mine]), _spread([r["steps"] for r in mine]),
            ])  # fmt: skip
    report.tables.append(
        Table(
            f"Live on Spark: {QUERY} under a step",
            ("policy", "runs", "P95 delay (s)", "violations, %", "rows late, %", "core-seconds", "executors that came or went", "steps to converge"),
            rows,
            f"Mean of the runs (least to most). {RATE:g} bids a second, then {FACTOR:g} times as many, then {RATE:g} again, {LEVEL:g} s each after {WARM:g} s of warm-up; every bid's price is converted by a Python function that "
            "computes for 0.1 ms and waits for 1.2 ms, as a lookup would. One to four executors of half a core on a standalone cluster on loopback. Target: 95 % of the rows within "
            f"{TARGET:g} s of their arrival; a violation is a slot of 2 s of arrivals whose own 95th percentile is later.",
        )
    )  # fmt: skip
    least = min((sum(r["policy"] == p for r in done) for p in POLICIES), default=0)
    report.claim(
        "Live comparisons are several runs, with spread", f"{RUNS} runs of each", f"{least} of each",
        judged(least >= RUNS, f"at least {RUNS} of each"),
    )  # fmt: skip


def _spread(values: list[float]) -> str:
    return f"{np.mean(values):.3g} ({min(values):.3g} to {max(values):.3g})"
