"""What a decision costs: policies, searches, guards, forecasters and the journal."""

import tempfile
import timeit
from collections.abc import Callable
from pathlib import Path

import numpy as np

from penstock.core import Guards
from penstock.core.capacity import Capacity
from penstock.core.guards import GuardState, check
from penstock.core.journal import FileJournal
from penstock.core.observation import Latency, Observation, StageObservation
from penstock.core.rollback import RollbackRule
from penstock.forecast.holt import Holt
from penstock.forecast.holt_winters import HoltWinters
from penstock.models import fit_map2
from penstock.policies import Fuzzy, Mead, Mpc
from penstock.policies.fuzzy import infer
from penstock.policies.mpc_model import Grid, OperatorLoad, Weights, stage_costs
from penstock.policies.search import shortest_path
from penstock.policies.waiting import KingmanWait
from penstock.testing.policy_suite import example_observations
from penstock_lab.judging import judged
from penstock_lab.results import ResultsPage, Table
from penstock_lab.searches import branch_and_bound

FREQUENCIES = tuple(round(1.2 + 0.1 * i, 1) for i in range(9))
VOLTAGES = tuple(np.linspace(0.82, 0.98, 9).tolist())
#: Table 5 of the MPC paper: horizon -> states explored by its branch and bound, microseconds.
PAPER = {1: (108, 45.77), 2: (2537, 608.0), 3: (72055, 17000.0)}


def run(quick: bool, folder: Path) -> ResultsPage:
    """Measure and check against the goals."""
    report = ResultsPage("Cost of control", "penstock bench control" + (" --quick" if quick else ""))
    _decisions(report, quick)
    _searches(report, quick)
    _rest(report)
    return report


def _seconds(function: Callable[[], object], number: int, repeat: int = 5) -> float:
    return min(timeit.repeat(function, number=number, repeat=repeat)) / number


def _operator(name: str = "op") -> StageObservation:
    return StageObservation(
        name,
        Capacity.steady(4),
        arrival_rate=5000.0,
        service_time=1e-3,
        frequency=Capacity.steady(2.0),
        arrival_scv=3.0,
    )


def _mpc(horizon: int, *stages: str) -> float:
    policy = Mpc("latency", "power", horizon, speeds=FREQUENCIES, voltages=VOLTAGES, stages=stages)
    seen = Observation(1.0, 1.0, tuple(_operator(n) for n in stages or ("op",)))
    state, _ = policy.step(policy.start(), seen)
    return _seconds(lambda: policy.step(state, seen), 5)


def _decisions(report: ResultsPage, quick: bool) -> None:
    rows: list[tuple[str, str, float]] = [
        ("Fuzzy, inference", "12 rules", 1e6 * _seconds(lambda: infer(0.7, 2.5, 1.1), 500))
    ]
    fuzzy, seen = Fuzzy(interval=0.0), example_observations(1)[0]
    rows.append(
        ("Fuzzy, whole step", "12 rules", 1e6 * _seconds(lambda: fuzzy.step(fuzzy.start(), seen), 200))
    )
    rows += [(f"Mpc, horizon {horizon}", "108", 1e6 * _mpc(horizon)) for horizon in (1, 3, 10)]
    rows.append(("Mpc, two operators, horizon 3", "11,664", 1e6 * _mpc(3, "a", "b")))
    if not quick:
        rows += _mead_rows()
    report.tables.append(Table("One decision", ("policy", "options", "microseconds"), rows))
    cost = {name: value for name, _, value in rows}
    for name, goal in (("Fuzzy, inference", 50.0), ("Mpc, horizon 3", 5e3), ("Mpc, horizon 10", 50e3)):
        report.claim(name, f"at most {goal:,.0f} us", f"{cost[name]:,.0f} us", cost[name] <= goal)


def _mead_rows() -> list[tuple[str, str, float]]:
    gaps = fit_map2(0.01, dispersion=60.0).sample(50_000, np.random.default_rng(1))
    stages = tuple(
        StageObservation(
            name,
            Capacity.steady(1),
            downstream=("counter", "matcher") if name == "parser" else (),
            arrival_rate=100.0,
            interarrivals=gaps if name == "parser" else None,
            tuples_in=1.0,
            tuples_out=1.0,
            service_time=demand,
            cpu_share=Capacity.steady(1.0),
        )
        for name, demand in (("parser", 0.0012), ("counter", 0.0015), ("matcher", 0.0035))
    )
    seen = Observation(1.0, 10.0, stages)
    rows = []
    for percentile in (None, 0.95):
        policy = Mead(target=0.5, percentile=percentile)
        spent = _seconds(lambda p=policy: p.step(p.start(), seen), 1, 2)  # type: ignore[misc]
        rows.append(
            (
                f"Mead, {'mean' if percentile is None else 'P95'}, fits of 50,000, 25,000 and 12,500 included",
                "5 ^ 3",
                1e6 * spent,
            )
        )
    return rows


def _searches(report: ResultsPage, quick: bool) -> None:
    grid = Grid(tuple(range(1, 13)), FREQUENCIES, VOLTAGES)
    rng, rows, worst = np.random.default_rng(0), [], 0.0
    for horizon in (1, 2) if quick else (1, 2, 3):
        explored, branch, dynamic = [], [], []
        for _ in range(3):
            rate = rng.uniform(1000, 8000)
            load = OperatorLoad(
                "op",
                tuple(1 / (rate * (1 + 0.05 * i)) for i in range(horizon)),
                1.6e-3,
                KingmanWait(1.5, 0.3),
            )
            costs = stage_costs(
                [grid], [load], Weights("latency", "power", 2.0, 0.5, 1.5e-3, None), horizon, None
            )
            now = [float(rng.integers(1, 13)), float(rng.integers(12, 21))]
            bounded = branch_and_bound(costs, grid.axes(), now, 0.4)
            exact = shortest_path(costs, grid.axes(), now, 0.4)
            worst = max(worst, abs(bounded.cost / exact.cost - 1))
            explored.append(bounded.explored)
            branch.append(_seconds(lambda c=costs, n=now: branch_and_bound(c, grid.axes(), n, 0.4), 1, 1))  # type: ignore[misc]
            dynamic.append(_seconds(lambda c=costs, n=now: shortest_path(c, grid.axes(), n, 0.4), 10, 3))  # type: ignore[misc]
        paper, time = PAPER[horizon]
        rows.append(
            (
                horizon,
                108**horizon,
                paper,
                round(np.mean(explored)),
                108 * horizon,
                time,
                1e6 * np.mean(branch),
                1e6 * np.mean(dynamic),
            )
        )
    columns = (
        "horizon", "states", "B&B, paper", "B&B, ours", "dynamic programming", "paper us", "B&B us", "dynamic programming us",
    )  # fmt: skip
    report.tables.append(Table("Searching the best trajectory (MPC, Table 5)", columns, rows))
    report.claim(
        "dynamic programming finds the optimum of branch and bound",
        "same cost",
        f"{worst:.1e} apart",
        judged(worst < 1e-9, "less than 1e-9 of it apart"),
    )


def _rest(report: ResultsPage) -> None:
    rich = example_observations(1)[0]
    plain = Observation(1.0, 1.0, (_operator(),), latency=Latency(0.1, 0.1, 0.2, 0.3, 0.4))
    guards, decision = (
        Guards(rollback=RollbackRule()),
        Mpc(forecaster=Holt()).step(Mpc(forecaster=Holt()).start(), plain)[1],
    )
    holt, winters = Holt(), HoltWinters(season=24)
    h, w = holt.start(), winters.start()
    for value in range(48):
        h, w = holt.update(h, float(value)), winters.update(w, float(value))
    with tempfile.TemporaryDirectory() as folder, FileJournal(Path(folder) / "journal.jsonl") as journal:
        rows = [
            (
                "guards on one decision",
                1e6 * _seconds(lambda: check(guards, GuardState(), plain, decision), 500),
            ),
            ("Holt, update and forecast", 1e6 * _seconds(lambda: holt.predict(holt.update(h, 5.0)), 500)),
            (
                "Holt-Winters, 24 candidates",
                1e6 * _seconds(lambda: winters.predict(winters.update(w, 5.0)), 500),
            ),
            ("journal, one stage", 1e6 * _seconds(lambda: journal.observation(plain), 500)),
            ("journal, four stages with keys", 1e6 * _seconds(lambda: journal.observation(rich), 200)),
        ]
    report.tables.append(Table("Around the decision", ("what", "microseconds"), rows))
