"""What the options beyond the papers change: each policy with and without them, on a plant that has the knob."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from penstock.core.guards import Guards
from penstock.policies import Fuzzy, Mead, Mpc, Organic
from penstock.sim import load
from penstock.sim.closed_loop import run_policy
from penstock.sim.plants.network import LOG_ANALYSIS, NetworkOperator, OperatorNetwork
from penstock.sim.plants.operator.partitioned_operator import OperatorCosts, PartitionedOperator
from penstock.sim.plants.operator.triggers import triggers
from penstock.sim.plants.regions.region_graph import RegionOperator, chain
from penstock.sim.plants.regions.regions_plant import RegionsPlant
from penstock.traffic.keys import zipf
from penstock_lab.judging import judged
from penstock_lab.papers.parallel import spread
from penstock_lab.results import ResultsPage, Table

FREQUENCIES = (1.2, 1.3, 1.4, 1.5, 1.6, 1.7, 1.8, 1.9, 2.0)


@dataclass(frozen=True)
class Comparison:
    """A plant with its load, the seconds between two steps, a target, and the policies side by side."""

    title: str
    plant: Callable[[float], Any]
    seconds: float
    period: float
    target: float
    policies: dict[str, Any] = field(default_factory=dict)


def _organic(seconds: float) -> RegionsPlant:
    """Four times the load in the middle third."""
    graph = chain(
        RegionOperator("source", 0.02e-6),
        [(RegionOperator("a", 1e-6), RegionOperator("b", 1e-6), RegionOperator("c", 2e-6))],
    )

    def offered(time: float) -> float:
        return 1.6e6 if seconds / 3 < time < 2 * seconds / 3 else 0.4e6

    return RegionsPlant(graph, offered=offered, seed=1)


def _heavy_logs(seconds: float) -> OperatorNetwork:
    """The log analysis with a pattern matcher that one core can hardly serve."""
    operators = tuple(
        NetworkOperator(o.name, 2.3 * o.demand, o.downstream, o.phases, o.selectivity) for o in LOG_ANALYSIS
    )
    return OperatorNetwork(
        load("map2:rate=300,dispersion=30", seconds, 4).arrivals, operators, most_replicas=4, seed=2
    )


def _two_stages(seconds: float, rate: float = 900.0) -> OperatorNetwork:
    """A light and a heavy operator one behind the other, with replicas, frequencies and shedding."""
    operators = (NetworkOperator("panes", 1.0e-3, ("windows",)), NetworkOperator("windows", 4.0e-3))
    arrivals = load(f"steps:rate={rate:g},factor=3", seconds, 3).arrivals
    return OperatorNetwork(arrivals, operators, most_replicas=12, seed=2, frequencies=FREQUENCIES)


def _bursts(seconds: float) -> PartitionedOperator:
    """Replicas behind a splitter, under bursts that last longer than the time between two arrivals."""
    arrivals = load("map2:rate=1500,dispersion=150", seconds, 5).arrivals
    keys = zipf(500, 0.2).draw(arrivals, np.random.default_rng(1))
    stream = triggers([(arrivals, keys)], 500, 1, seconds, 1)
    return PartitionedOperator(
        stream, OperatorCosts(ticks=2.5e-3 * 2e9, spread=0.3, queue=4000), 6, 12, seed=1
    )


def comparisons(scale: float) -> list[Comparison]:
    """All of them; ``scale`` shortens the loads."""
    mpc: dict[str, Any] = {"objective": "latency", "workers": (1, 12), "target": 0.05}
    both: dict[str, Any] = {"stages": ("panes", "windows"), "rebalance": False}
    return [
        Comparison(
            "Organic: scale-in (load x 4 and back)", _organic, 900.0 * scale, 1.0, 1.0,
            {"Organic": Organic(), "Organic, shrink": Organic(shrink=True)},
        ),
        Comparison(
            "Mead: replicas beside shares (log analysis, 2.3 times as costly)", _heavy_logs, 900.0 * scale, 30.0, 0.1,
            {
                "Mead": Mead(target=0.1, interval=30.0, max_states=4, best=2),
                "Mead, replicas": Mead(target=0.1, interval=30.0, max_states=4, best=2, replicas=(1, 2, 3, 4)),
            },
        ),
        Comparison(
            "Mpc: two operators under one budget of 16 (load x 3 and back)", _two_stages, 300.0 * scale, 1.0, 0.05,
            {
                "Mpc, second operator only": Mpc(**mpc, stages=("windows",), rebalance=False),
                "Mpc, both": Mpc(**mpc, **both, budget=16),
            },
        ),
        Comparison(
            "Fuzzy: shedding and frequency (load x 3 and back, at most 10 workers)", _two_stages, 300.0 * scale, 2.5, 1.0,
            {
                "Fuzzy": Fuzzy(limit=10),
                "Fuzzy, shedding": Fuzzy(limit=10, shedding=True),
                "Fuzzy, frequencies": Fuzzy(limit=10, frequencies=FREQUENCIES),
                "Fuzzy, both": Fuzzy(limit=10, shedding=True, frequencies=FREQUENCIES),
            },
        ),
        Comparison(
            "Mpc: waits of a fitted MAP/PH/1 (MAP(2) arrivals, index of dispersion 150)", _bursts, 300.0 * scale, 1.0, 0.05,
            {"Mpc, Kingman": Mpc(**mpc), "Mpc, MAP": Mpc(**mpc, waiting="map", refit=30.0)},
        ),
    ]  # fmt: skip


@dataclass(frozen=True)
class Pair:
    """One policy of one comparison."""

    scale: float
    place: int
    policy: str


def execute(pair: Pair) -> dict[str, float]:
    """Its figures."""
    spec = comparisons(pair.scale)[pair.place]
    plant = spec.plant(spec.seconds)
    out = run_policy(
        plant,
        spec.policies[pair.policy],
        spec.period,
        spec.seconds,
        target=spec.target,
        guards=Guards(catch_up=None),
    )
    series = out.series
    late = np.where(np.isnan(series.response), False, series.response > spec.target)
    return {
        "mean": out.response_mean,
        "p95": out.response_p95,
        "late": float(late.mean()),
        "cores": out.core_seconds,
        "energy": out.energy / 1e3,
        "shed": getattr(plant, "shed", 0) / max(1.0, float(np.nansum(series.arrival_rate) * spec.period)),
        "changes": float(out.quality.reconfigurations),
    }


def beyond(report: ResultsPage, scale: float) -> None:
    """The table, and whether each option does what it is for."""
    specs = comparisons(scale)
    pairs = [Pair(scale, i, name) for i, spec in enumerate(specs) for name in spec.policies]
    found = {p.policy: f for p, f in zip(pairs, spread(execute, pairs), strict=True)}
    rows: list[list[Any]] = []
    for spec in specs:
        for name in spec.policies:
            f = found[name]
            rows.append([
                spec.title, name, spec.target, f["mean"], f["p95"], f"{f['late']:.1%}", f["cores"], f["energy"], f"{f['shed']:.1%}",
                int(f["changes"]),
            ])  # fmt: skip
    report.tables.append(
        Table(
            "Beyond the papers: options of the policies, with and without",
            ("option and plant", "policy", "target (s)", "mean (s)", "P95 (s)", "observations late", "core-seconds", "kJ", "shed", "changes"),
            rows,
            "Late: share of the observations whose mean response was beyond the target.",
        )
    )  # fmt: skip
    if scale >= 0.3:
        _claims(report, found)


def _claims(report: ResultsPage, found: dict[str, dict[str, float]]) -> None:
    def told(key: str, *names: str) -> str:
        return ", ".join(f"{n} {found[n][key]:.3g}" for n in names)

    plain, shrink = found["Organic"], found["Organic, shrink"]
    report.claim(
        "Organic with scale-in gives back what it no longer needs", "fewer core-seconds", told("cores", "Organic", "Organic, shrink"),
        judged(shrink["cores"] < 0.9 * plain["cores"], "below 90 % of those without"),
    )  # fmt: skip
    report.claim(
        "Mead with replicas meets a target that shares alone cannot", "mean below 0.1 s", told("mean", "Mead", "Mead, replicas"),
        judged(found["Mead, replicas"]["mean"] <= 0.1 < found["Mead"]["mean"], "at most 0.1 s, and above it without"),
    )  # fmt: skip
    report.claim(
        "One Mpc for both operators is late less often than one for the second alone", "fewer late",
        told("late", "Mpc, second operator only", "Mpc, both"),
        found["Mpc, both"]["late"] < found["Mpc, second operator only"]["late"],
    )  # fmt: skip
    report.claim(
        "Fuzzy that sheds is late less often where the limit is too small", "fewer late", told("late", "Fuzzy", "Fuzzy, shedding"),
        found["Fuzzy, shedding"]["late"] < found["Fuzzy"]["late"],
    )  # fmt: skip
    report.claim(
        "Fuzzy that lowers the frequency needs less energy", "less", told("energy", "Fuzzy", "Fuzzy, frequencies"),
        found["Fuzzy, frequencies"]["energy"] < found["Fuzzy"]["energy"],
    )  # fmt: skip
    report.claim(
        "Mpc with the waits of a MAP is late less often than with Kingman's", "fewer late", told("late", "Mpc, Kingman", "Mpc, MAP"),
        found["Mpc, MAP"]["late"] < found["Mpc, Kingman"]["late"],
    )  # fmt: skip
