"""Our own table: all policies on four real traces, same target, on the plants they can control."""

from dataclasses import dataclass
from math import nan
from pathlib import Path
from typing import Any

import numpy as np

from penstock.core.capacity import Knob
from penstock.core.errors import PenstockError
from penstock.core.guards import Guards
from penstock.core.metrics import Metric
from penstock.forecast.moving_average import MovingAverage
from penstock.picture import COLOURS, INK
from penstock.policies import (
    Autopilot,
    Dhalion,
    Ds2,
    Fuzzy,
    Hpa,
    Mead,
    Mpc,
    Organic,
    PipelinedFission,
    RuleBased,
    Spl,
    Static,
    Threshold,
)
from penstock.policies.dynamic_allocation import DynamicAllocation
from penstock.sim.closed_loop import run_policy
from penstock.sim.load import Load
from penstock.sim.plants.micro_batch import SparkCosts, SparkLike
from penstock.sim.plants.query.preference_plant import PreferencePlant
from penstock.sim.plants.query.source import of_events
from penstock.sim.plants.regions.region_graph import RegionOperator, chain
from penstock.sim.plants.regions.regions_plant import RegionsPlant
from penstock.traffic.attributes import Attributes
from penstock_lab import recorded_traces
from penstock_lab.papers.differences import explain
from penstock_lab.papers.drawing import draw
from penstock_lab.papers.parallel import spread
from penstock_lab.papers.policies_beyond import beyond
from penstock_lab.results import ResultsPage, Table

TRACES = ("bc", "worldcup", "azure-code", "azure-conv")
#: Mean response in seconds that every observation should keep, and the share of observations that may miss it.
TARGET, MISSED = 5.0, 0.05
#: Cores that the mean load needs, and the most executors.
MEAN_CORES, LIMIT = 2.0, 32
_EXECUTORS: dict[str, Any] = {"knob": Knob.EXECUTORS, "limits": (1, LIMIT)}


def spark_policies() -> dict[str, Any]:
    """Policies for executors of a micro-batch query."""
    mpc: dict[str, Any] = {"knob": Knob.EXECUTORS, "workers": (1, LIMIT), "rebalance": False}
    return {
        "Static peak": Static(executors=LIMIT),
        "Static mean": Static(executors=4),
        "Threshold": Threshold(**_EXECUTORS, high=0.8, low=0.5),
        "RuleBased": RuleBased(**_EXECUTORS, high=0.8, low=0.6),
        "Spl": Spl(**_EXECUTORS, interval=10.0),
        "Ds2": Ds2(**_EXECUTORS),
        "Hpa": Hpa(**_EXECUTORS),
        "Dhalion": Dhalion(**_EXECUTORS),
        "DynamicAllocation": DynamicAllocation(limits=(1, LIMIT)),
        "Autopilot": Autopilot(target=TARGET, limits=(1, LIMIT)),
        "Mpc throughput": Mpc("throughput", **mpc),
        "Mpc latency, Kingman": Mpc("latency", **mpc, alpha=2.0, target=TARGET),
        "Mpc latency, micro-batch": Mpc("latency", **mpc, alpha=2.0, target=TARGET, waiting="microbatch-map"),
        "Mpc latency, head-room": Mpc(
            "latency", **mpc, alpha=1.0, steep=3.0, target=TARGET, waiting="microbatch", headroom=0.98, drain=3 * TARGET,
            forecaster=MovingAverage(3),
        ),
        "Mead, MAP": Mead("map", TARGET, knob=Knob.EXECUTORS, levels=(1.0,), replicas=tuple(range(1, LIMIT + 1)), max_states=8, best=3, interval=30.0, least=300),
        "Mead, M/G/1": Mead("mg1", TARGET, knob=Knob.EXECUTORS, levels=(1.0,), replicas=tuple(range(1, LIMIT + 1)), interval=30.0, least=300),
    }  # fmt: skip


def query_policies() -> dict[str, Any]:
    """Policies for the two stages of a preference query."""
    return {
        "Static peak": Static(workers={"panes": 4, "windows": 36}),
        "Threshold": Threshold(high=1.0, low=0.7, limits=(1, 40)),
        "Ds2": Ds2(limits=(1, 36)),
        "Hpa": Hpa(limits=(1, 36)),
        "Dhalion": Dhalion(limits=(1, 36)),
        "Fuzzy": Fuzzy(limit=40),
        "Mpc, both stages": Mpc(
            workers=(1, 40),
            budget=40,
            stages=("panes", "windows"),
            rebalance=False,
            drain=TARGET,
            forecaster=MovingAverage(3),
        ),
    }


def region_policies() -> dict[str, Any]:
    """Policies for pipelines and replicas."""
    return {
        "Static peak": Static(workers={"r1": 12}),
        "Ds2": Ds2(limits=(1, 16)),
        "Hpa": Hpa(limits=(1, 16)),
        "Dhalion": Dhalion(limits=(1, 16)),
        "Organic": Organic(),
        "Organic, shrinking": Organic(shrink=True),
        "PipelinedFission": PipelinedFission(threads=12, switching=0.1e-6, replication=0.02e-6),
    }


MAKERS = {"spark": spark_policies, "query": query_policies, "regions": region_policies}


@dataclass(frozen=True)
class Cell:
    """One policy on one trace."""

    plant: str
    trace: str
    policy: str
    seconds: float | None = None


@dataclass(frozen=True, eq=False)
class Filled:
    """Its figures."""

    cell: Cell
    mean: float
    p95: float
    missed: float
    core_seconds: float
    reconfigurations: int
    warnings: tuple[str, ...]
    time: Any
    rate: Any
    resources: Any

    @property
    def met(self) -> bool:
        """Whether the target was kept in all but a few observations, start-up included."""
        return self.missed <= MISSED and self.mean <= TARGET


def execute(cell: Cell) -> Filled:
    """Run one policy."""
    made = recorded_traces.load(cell.trace, cell.seconds)
    plant, period = _plant(cell.plant, made)
    policy = MAKERS[cell.plant]()[cell.policy]
    out = run_policy(
        plant,
        policy,
        period,
        made.seconds,
        metric=Metric.LATENCY_MEAN,
        target=TARGET,
        guards=Guards(catch_up=2.0),
    )
    series = out.series
    return Filled(
        cell, out.response_mean, out.response_p95, out.quality.violation_share, out.core_seconds, out.quality.reconfigurations,
        out.warnings, series.time, series.arrival_rate, series.resources,
    )  # fmt: skip


def _plant(kind: str, made: Load) -> tuple[Any, float]:
    """The plant, scaled so that the mean load of every trace needs about the same, and its control period."""
    if kind == "spark":
        cost = MEAN_CORES / made.rate
        work = None if made.work is None else made.work * cost
        return SparkLike(made.arrivals, SparkCosts(row_cost=cost), 2, LIMIT, 1, work), 5.0
    if kind == "query":
        events = _tuples(made, 12_000.0)
        stream = of_events(events, delay=0.05, attributes=Attributes(8), seed=1)
        return PreferencePlant(stream, pane_workers=1, window_workers=2, limit=40), 2.5
    rates = np.convolve(_per_second(made), np.ones(5) / 5, mode="same") * 600_000.0
    graph = chain(
        RegionOperator("source", 0.02e-6),
        [(RegionOperator("a", 1e-6), RegionOperator("b", 1e-6), RegionOperator("c", 2e-6))],
    )
    return RegionsPlant(graph, offered=lambda t: float(rates[min(int(t), len(rates) - 1)]), seed=1), 1.0


def _per_second(made: Load) -> Any:
    """Arrivals of each second over their mean."""
    counts, _ = np.histogram(made.arrivals, bins=int(made.seconds), range=(0.0, float(int(made.seconds))))
    return counts / made.rate


def _tuples(made: Load, rate: float) -> Any:
    """Poisson tuples at the pace of the trace's seconds; one in a hundred comes always, since windows close on tuples."""
    rng = np.random.default_rng(2)
    numbers = rng.poisson(rate * np.maximum(_per_second(made), 0.01))
    return np.sort(np.repeat(np.arange(len(numbers)), numbers) + rng.random(int(numbers.sum())))


#: Why claims differ where they do, by how the claim begins.
REASONS = {
    "azure-code": "Minutes of silence end in a burst that needs all executors at once; a short run has too few bursts to learn what to keep ready for.",
    "": "The load changes faster than executors arrive.",
}


def run(scale: float, folder: Path) -> ResultsPage:
    """The table, with what was checked."""
    if recorded_traces.folder() is None:
        raise PenstockError(
            "The real traces are not here; name the folder that has them with the environment variable PENSTOCK_DATA."
        )
    report = ResultsPage("All policies on four real traces", f"penstock papers policies --scale {scale:g}")
    lengths = {
        "spark": None if scale >= 1 else 1200.0 * scale,
        "query": max(20.0, 120.0 * scale),
        "regions": 1200.0 * scale,
    }
    cells = [
        Cell(plant, trace, policy, lengths[plant])
        for plant in MAKERS
        for trace in (TRACES if scale >= 0.3 else TRACES[2:])
        for policy in MAKERS[plant]()
    ]
    filled = {f.cell: f for f in spread(execute, cells)}
    titles = {
        "spark": "Micro-batch query: executors that arrive 4 s late, mean load 2 cores",
        "query": "Preference query: pane and window workers, about 12,000 tuples/s of eight attributes",
        "regions": "Region of three operators: pipelines and replicas, mean load 600,000 tuples/s",
    }
    for plant, title in titles.items():
        _table(report, plant, title, [f for f in filled.values() if f.cell.plant == plant])
    beyond(report, min(scale, 1.0))
    _claims(report, [f for f in filled.values() if f.cell.plant == "spark"])
    report.plots.append(
        draw(folder / "policies.png", lambda axes: _draw(axes, list(filled.values())), 2, 2, (13, 7))
    )
    explain(report, REASONS)
    return report


def _table(report: ResultsPage, plant: str, title: str, found: list[Filled]) -> None:
    rows = [
        [f.cell.trace, f.cell.policy, f.mean, f.p95, f"{f.missed:.1%}", f.core_seconds, f.reconfigurations, "yes" if f.met else "no"]
        for f in sorted(found, key=lambda f: TRACES.index(f.cell.trace))
    ]  # fmt: skip
    report.tables.append(
        Table(
            title,
            ("trace", "policy", "mean (s)", "P95 (s)", "observations late", "core-seconds", "reconfigurations", "meets target"),
            rows,
            f"Target: mean response of {TARGET:g} s; met: at most {MISSED:.0%} of the observations beyond it, start-up included. "
            + "; ".join(f"{k}: {recorded_traces.TRACES[k]}" for k in TRACES if any(r[0] == k for r in rows)) + ".",
        )
    )  # fmt: skip


def _claims(report: ResultsPage, found: list[Filled]) -> None:
    for trace in dict.fromkeys(f.cell.trace for f in found):
        here = [f for f in found if f.cell.trace == trace]
        fixed = min((f for f in here if _fixed(f) and f.met), key=lambda f: f.core_seconds, default=None)
        best = min((f for f in here if not _fixed(f) and f.met), key=lambda f: f.core_seconds, default=None)
        if fixed is None:
            continue  # no size is enough: there is nothing to be cheaper than
        share = nan if best is None else best.core_seconds / fixed.core_seconds
        told = "none" if best is None else f"{best.cell.policy}: {share:.0%} of {fixed.cell.policy}'s"
        report.claim(
            f"{trace}: an adaptive policy meets the target with fewer core-seconds than the cheaper of the fixed sizes that do",
            "yes", told, share < 1.0,
        )  # fmt: skip


def _fixed(filled: Filled) -> bool:
    return filled.cell.policy.startswith("Static")


def _draw(axes: Any, found: list[Filled]) -> None:
    for one, trace in zip(axes.ravel(), TRACES, strict=True):
        here = [f for f in found if f.cell.plant == "spark" and f.cell.trace == trace]
        for f, colour in zip(
            (f for f in here if not f.cell.policy.startswith("Static")), COLOURS * 2, strict=False
        ):
            one.step(f.time, f.resources, where="post", color=colour, linewidth=0.9, label=f.cell.policy)
        if here:
            right = one.twinx()
            right.fill_between(here[0].time, here[0].rate, color=INK, alpha=0.12)
            right.set_yticks([])
        one.set(title=trace, xlabel="time (s)", ylabel="executors")
