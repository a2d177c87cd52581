"""``penstock bench nexmark``: five queries of Nexmark, as flows beside Spark's own operators, and under every policy.

Throughput is measured live on Spark. Policies are compared in the simulator, under a cosine, steps, a flash crowd and recorded
packets, at sixteen cores on average; queries differ there in what a batch costs beside its rows.
"""

import tempfile
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.policies.catalog import fitting, policy_named
from penstock.policies.surroundings import PlantKind, Surroundings
from penstock.sim.closed_loop import run_policy
from penstock.sim.plants.micro_batch import SparkCosts, SparkLike
from penstock_lab import families, recorded_traces
from penstock_lab.judging import judged
from penstock_lab.nexmark import QUERIES
from penstock_lab.nexmark.events import generate
from penstock_lab.papers.parallel import spread
from penstock_lab.results import ResultsPage, Table, announce

#: Simulated: cores that the mean load takes, most executors of one core, target in seconds, start that is left out.
MEAN_CORES, MOST, TARGET, START = 16.0, 64, 5.0, 300.0
LOADS = ("cosine", "steps", "flash-crowd", "bc")
#: Seconds a batch beside its rows: a query without state, one with one stateful operator, one with two. Assumed, so that the table
#: does not hang on the machine that made it.
OVERHEAD = {"q1": 0.2, "q2": 0.2, "q5": 0.5, "q8": 0.5, "q11": 0.35}


@dataclass(frozen=True)
class PolicyTrial:
    """One policy on one query under one load."""

    query: str
    load: str
    policy: str
    overhead: float
    seconds: float


@dataclass(frozen=True)
class PolicyFigures:
    """What it did after the start."""

    trial: PolicyTrial
    late: float
    violations: float
    core_seconds: float
    changes: int
    steps: float  # control steps until a series of changes was over, on average


def run(quick: bool, folder: Path) -> ResultsPage:
    """Throughput, then policies."""
    report = ResultsPage("Nexmark", "penstock bench nexmark" + (" --quick" if quick else ""))
    batches, size = (4, 10_000) if quick else (12, 100_000)
    queries = ("q1", "q11") if quick else tuple(QUERIES)
    throughput(report, queries, batches, size)
    policies(report, queries, quick)
    return report


def throughput(report: ResultsPage, queries: tuple[str, ...], batches: int, size: int) -> None:
    """Rows a second of flow and query."""
    from penstock.spark.session import session
    from penstock_lab.benches.flow_runs import FlowBench

    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as scratch:
        spark = session("local[2]", app="penstock bench nexmark")
        spark.conf.set("spark.sql.shuffle.partitions", "2")
        bench = FlowBench(spark, Path(scratch))
        events = generate(batches * size, rate=size / 2.0, seed=1)
        cuts = {name: _cut(getattr(events, name), batches) for name in ("bids", "persons", "auctions")}
        rows = []
        for query in queries:
            announce(query)
            rows.append(_both(bench, query, cuts))
        spark.stop()
    report.tables.append(
        Table(
            "Throughput on two cores",
            ("query", "asks for", "flow, rows/s", "Structured Streaming, rows/s", "times"),
            rows,
            f"{batches} batches of {size:,} events of which the first {min(3, batches - 1)} are not counted; RocksDB for Spark's state; output of Spark to nowhere, of the flow to "
            "files.",
        )
    )  # fmt: skip


def _both(bench: Any, query: str, cuts: dict[str, list[pa.Table]]) -> list[Any]:
    from penstock.spark.flow.flow import Flow
    from penstock_lab.baselines import ROCKS
    from penstock_lab.nexmark.flows import FLOWS
    from penstock_lab.nexmark.spark import QUERIES as WRITTEN
    from penstock_lab.nexmark.spark import start

    make, sources = FLOWS[query]
    ours = bench.flow(make(Flow(query), *(bench.files(f"{query} flow {s}", cuts[s]) for s in sources)))
    bench.spark.conf.set("spark.sql.streaming.stateStore.providerClass", ROCKS)
    written, _ = WRITTEN[query]
    frame = written(*(bench.files(f"{query} spark {s}", cuts[s]) for s in sources))
    theirs = bench.query(start(frame, bench.folder()))
    return [query, QUERIES[query], ours["rate"], theirs["rate"], ours["rate"] / theirs["rate"]]


def _cut(table: pa.Table, parts: int) -> list[pa.Table]:
    """As many tables as there are batches, by rows."""
    edges = np.linspace(0, table.num_rows, parts + 1).astype(int)
    return [table.slice(a, b - a) for a, b in pairwise(edges)]


def policies(report: ResultsPage, queries: tuple[str, ...], quick: bool) -> None:
    """Every policy of the catalog on every query under every load."""
    loads = [n for n in LOADS if n in families.FAMILIES or recorded_traces.folder() is not None]
    names = [n for n in fitting(PlantKind.MICRO_BATCHES) if not quick or n in ("Static", "Ds2", "Threshold")]
    seconds = 600.0 if quick else 1800.0
    trials = [
        PolicyTrial(query, load, policy, OVERHEAD[query], seconds)
        for query in queries
        for load in (loads[:1] if quick else loads)
        for policy in names
    ]
    found = spread(simulated, trials)
    rows = [
        [f.trial.load, f.trial.query, f.trial.policy, f"{f.late:.1%}", f"{f.violations:.1%}", f.core_seconds, f.changes, f.steps]
        for f in sorted(found, key=lambda f: (f.trial.load, f.trial.query))
    ]  # fmt: skip
    summary = _summary(found, names)
    report.tables.append(
        Table(
            "Policies over all queries and loads",
            ("policy", "target kept (at most 5 % late)", "late rows, mean", "core-seconds over the peak's, mean", "changes, mean", "steps to converge, mean"),
            summary,
            f"Simulated: mean load {MEAN_CORES:g} cores, at most {MOST} executors, target {TARGET:g} s, {seconds:.0f} s of load of which the first {START:.0f} are left out.",
        )
    )  # fmt: skip
    report.tables.append(
        Table(
            "Policies, one by one",
            ("load", "query", "policy", "late rows", "observations late", "core-seconds", "changes", "steps to converge"),
            rows,
            "A batch costs " + ", ".join(f"{s:g} s ({q})" for q, s in OVERHEAD.items()) + " beside its rows, assumed.",
        )
    )  # fmt: skip
    if not quick:
        own = next(r for r in summary if r[0] == "Autopilot")
        cases = len({(f.trial.query, f.trial.load) for f in found})
        report.claim(
            "Autopilot keeps the target wherever the most executors do", f"{cases} of {cases}", own[1],
            judged(_kept(found, "Autopilot") >= _kept(found, "Static"), "as many cases as Static, the peak"),
        )  # fmt: skip


def simulated(trial: PolicyTrial) -> PolicyFigures:
    """One run in virtual time."""
    made = families.load(trial.load, trial.seconds, 201)
    cost = MEAN_CORES / made.rate
    here = Surroundings(PlantKind.MICRO_BATCHES, (1, MOST), TARGET, 5.0)
    policy = policy_named(trial.policy, here)
    begin = MOST if trial.policy == "Static" else int(MEAN_CORES)
    costs = SparkCosts(overhead=trial.overhead, row_cost=cost)
    plant = SparkLike(made.arrivals, costs, begin, MOST, 1)
    out = run_policy(plant, policy, 5.0, made.seconds, target=TARGET, warm_up=START)
    quality = out.quality
    steps = quality.settling_time / 5.0 if np.isfinite(quality.settling_time) else 0.0
    return PolicyFigures(
        trial, out.late, quality.violation_share, out.core_seconds, quality.reconfigurations, steps
    )


def _kept(found: list[PolicyFigures], policy: str) -> int:
    return sum(f.late <= 0.05 for f in found if f.trial.policy == policy)


def _summary(found: list[PolicyFigures], names: list[str]) -> list[list[Any]]:
    peak = {(f.trial.query, f.trial.load): f.core_seconds for f in found if f.trial.policy == "Static"}
    rows: list[list[Any]] = []
    for name in names:
        mine = [f for f in found if f.trial.policy == name]
        over = [f.core_seconds / peak[f.trial.query, f.trial.load] for f in mine]
        rows.append([
            name, f"{_kept(found, name)} of {len(mine)}", f"{np.mean([f.late for f in mine]):.1%}", float(np.mean(over)),
            float(np.mean([f.changes for f in mine])), float(np.mean([f.steps for f in mine])),
        ])  # fmt: skip
    return rows
