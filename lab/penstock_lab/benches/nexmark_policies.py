"""Policies on the queries of Nexmark in the simulator: a cosine, steps, a flash crowd and recorded packets, at sixteen cores on average.

Queries differ there in what a batch costs beside its rows; those that cost the same are one row.
"""

from dataclasses import dataclass
from math import isnan, nan
from typing import Any

import numpy as np

from penstock.core.changes_made import steps_to_converge
from penstock.core.control_quality import times_of_changes
from penstock.policies.catalog import fitting, policy_named
from penstock.policies.surroundings import PlantKind, Surroundings
from penstock.sim.closed_loop import run_policy
from penstock.sim.plants.micro_batch import SparkCosts, SparkLike
from penstock_lab import families, recorded_traces
from penstock_lab.judging import every
from penstock_lab.papers.parallel import spread
from penstock_lab.results import ResultsPage, Table

#: Simulated: cores that the mean load takes, most executors of one core, target in seconds, start that is left out.
MEAN_CORES, MOST, TARGET, START = 16.0, 64, 5.0, 300.0
#: Share of the rows that may be later than the target.
LATE = 0.05
#: Seed of the loads that are drawn.
SEED = 201
#: Seconds without a change after which a policy has converged: more than any of them pauses by itself (Dhalion 45 s, DynamicAllocation 60 s).
QUIET = 75.0
LOADS = ("cosine", "steps", "flash-crowd", "bc")
#: Seconds a batch beside its rows: a query without state, one with one stateful operator, one with two. Assumed, so that the table
#: does not hang on the machine that made it.
OVERHEAD = {"q1": 0.2, "q2": 0.2, "q5": 0.5, "q8": 0.5, "q11": 0.35}


@dataclass(frozen=True)
class PolicyTrial:
    """One policy on queries of one cost under one load."""

    queries: str
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
    steps: float  # changes after a step of the load until it converged, on average; nan where the load has no steps


def policies(report: ResultsPage, queries: tuple[str, ...], quick: bool) -> None:
    """Every policy of the catalog on every query under every load."""
    loads = [n for n in LOADS if n in families.FAMILIES or recorded_traces.folder() is not None]
    names = [n for n in fitting(PlantKind.MICRO_BATCHES) if not quick or n in ("Static", "Ds2", "Threshold")]
    seconds = 600.0 if quick else 1800.0
    trials = [
        PolicyTrial(alike, load, policy, overhead, seconds)
        for alike, overhead in _alike(queries)
        for load in (loads[:1] if quick else loads)
        for policy in names
    ]
    found = spread(simulated, trials)
    rows = [
        [f.trial.load, f.trial.queries, f.trial.policy, f"{f.late:.1%}", f"{f.violations:.1%}", f.core_seconds, f.changes, _told(f.steps)]
        for f in sorted(found, key=lambda f: (f.trial.load, f.trial.queries))
    ]  # fmt: skip
    summary = _summary(found, names)
    report.tables.append(
        Table(
            "Policies over all queries and loads",
            ("policy", "target kept (at most 5 % late)", "late rows, mean", "core-seconds over the peak's, mean", "changes, mean", "steps to converge, mean"),
            summary,
            f"Simulated: mean load {MEAN_CORES:g} cores, at most {MOST} executors, target {TARGET:g} s, {seconds:.0f} s of load of which the first {START:.0f} are left out. Steps to converge: changes after a step of the load (those of the load `steps`; others have none) until none follows for {QUIET:.0f} s or the load steps again.",
        )
    )  # fmt: skip
    report.tables.append(
        Table(
            "Policies, one by one",
            ("load", "queries", "policy", "late rows", "observations late", "core-seconds", "changes", "steps to converge"),
            rows,
            "A batch costs " + ", ".join(f"{s:g} s ({q})" for q, s in OVERHEAD.items()) + " beside its rows, assumed.",
        )
    )  # fmt: skip
    if not quick:
        due = [
            (f.trial.queries, f.trial.load) for f in found if f.trial.policy == "Static" and f.late <= LATE
        ]
        own = {(f.trial.queries, f.trial.load): f for f in found if f.trial.policy == "Autopilot"}
        kept = sum(own[case].late <= LATE for case in due)
        report.claim("Autopilot keeps the target wherever the most executors do", str(len(due)), str(kept), every(kept, len(due)))  # fmt: skip


def _alike(queries: tuple[str, ...]) -> list[tuple[str, float]]:
    """Queries whose batches cost the same, together, with what they cost."""
    costs = dict.fromkeys(OVERHEAD[q] for q in queries)
    return [(", ".join(q for q in queries if OVERHEAD[q] == cost), cost) for cost in costs]


def simulated(trial: PolicyTrial) -> PolicyFigures:
    """One run in virtual time."""
    made = families.load(trial.load, trial.seconds, SEED)
    cost = MEAN_CORES / made.rate
    here = Surroundings(PlantKind.MICRO_BATCHES, (1, MOST), TARGET, 5.0)
    policy = policy_named(trial.policy, here)
    begin = MOST if trial.policy == "Static" else int(MEAN_CORES)
    costs = SparkCosts(overhead=trial.overhead, row_cost=cost)
    plant = SparkLike(made.arrivals, costs, begin, MOST, 1)
    out = run_policy(plant, policy, 5.0, made.seconds, target=TARGET, warm_up=START)
    quality = out.quality
    stepped = families.step_times(trial.seconds, SEED) if trial.load == "steps" else []
    steps = steps_to_converge(times_of_changes(out.tables), [at for at, _ in stepped if at >= START], QUIET)
    return PolicyFigures(
        trial, out.late, quality.violation_share, out.core_seconds, quality.reconfigurations, steps
    )


def _kept(found: list[PolicyFigures], policy: str) -> int:
    return sum(f.late <= LATE for f in found if f.trial.policy == policy)


def _summary(found: list[PolicyFigures], names: list[str]) -> list[list[Any]]:
    peak = {(f.trial.queries, f.trial.load): f.core_seconds for f in found if f.trial.policy == "Static"}
    rows: list[list[Any]] = []
    for name in names:
        mine = [f for f in found if f.trial.policy == name]
        stepped = [f.steps for f in mine if not isnan(f.steps)]
        over = [f.core_seconds / peak[f.trial.queries, f.trial.load] for f in mine]
        rows.append([
            name, f"{_kept(found, name)} of {len(mine)}", f"{np.mean([f.late for f in mine]):.1%}", float(np.mean(over)),
            float(np.mean([f.changes for f in mine])), _told(float(np.mean(stepped)) if stepped else nan),
        ])  # fmt: skip
    return rows


def _told(steps: float) -> str | float:
    return "-" if isnan(steps) else steps
