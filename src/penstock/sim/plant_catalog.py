"""Simulated plants by name, with their parameters: what ``penstock simulate`` offers."""

from collections.abc import Callable
from dataclasses import dataclass
from math import isfinite, nan

import numpy as np

from penstock.core.errors import PenstockError, unknown
from penstock.policies.surroundings import TARGETS, PlantKind, Surroundings
from penstock.sim.load import Load
from penstock.sim.plants.micro_batch import SparkCosts, SparkLike
from penstock.sim.plants.network import LOG_ANALYSIS, NetworkOperator, OperatorNetwork
from penstock.sim.plants.operator.partitioned_operator import OperatorCosts, PartitionedOperator
from penstock.sim.plants.operator.triggers import triggers
from penstock.sim.plants.query.preference_plant import PreferencePlant, QueryCosts
from penstock.sim.plants.query.source import of_events
from penstock.sim.plants.regions.region_graph import RegionOperator, chain
from penstock.sim.plants.regions.regions_plant import RegionsPlant
from penstock.sim.plants.virtual import VirtualPlant
from penstock.traffic.attributes import Attributes
from penstock.traffic.keys import zipf


@dataclass(frozen=True)
class SimulatedPlant:
    """A plant that can be simulated."""

    meaning: str
    make: Callable[[Load, dict[str, float], int], VirtualPlant]
    period: float  # control period in seconds
    parameters: dict[str, float]  # with their defaults
    trace: str  # a load that makes sense by default
    kind: PlantKind
    stages: tuple[str, ...] = ()
    cores: int = 0
    overheads: tuple[float, float] | None = None  # of threads: seconds a tuple of a switch and of a splitter

    @property
    def target(self) -> float:
        """The response time in seconds that is aimed at where none is given, the same as on Spark."""
        return TARGETS[self.kind]

    def surroundings(
        self,
        parameters: dict[str, float],
        target: float | None = None,
        period: float | None = None,
        late: float = 0.05,
    ) -> Surroundings:
        """What a policy by name has to fit here."""
        return Surroundings(
            self.kind,
            (1, int(parameters.get("limit", 1))),
            target,
            self.period if period is None else period,
            stages=self.stages,
            cores=self.cores,
            overheads=self.overheads,
            late=late,
        )


def _spark(load: Load, p: dict[str, float], seed: int) -> VirtualPlant:
    costs = SparkCosts(
        overhead=p["overhead"],
        row_cost=p["row_cost"],
        trigger=p["trigger"],
        arrives_after=p["arrives_after"],
        warm_up=p["warm_up"],
        cores=int(p["cores"]),
        noise=p["noise"],
    )
    work = None if load.work is None else load.work * p["row_cost"]
    return SparkLike(load.arrivals, costs, int(p["executors"]), int(p["limit"]), seed, work)


def _operator(load: Load, p: dict[str, float], seed: int) -> VirtualPlant:
    keys = zipf(int(p["keys"]), p["zipf"], p["drift"] or None).draw(
        load.arrivals, np.random.default_rng(seed)
    )
    stream = triggers([(load.arrivals, keys)], int(p["keys"]), int(p["slide"]), load.seconds, seed)
    costs = OperatorCosts(ticks=p["cost"] * 2e9, queue=int(p["queue"]), spread=p["spread"])
    return PartitionedOperator(stream, costs, int(p["workers"]), int(p["limit"]), seed=seed)


def _preference(load: Load, p: dict[str, float], seed: int) -> VirtualPlant:
    stream = of_events(load.arrivals, delay=p["delay"], attributes=Attributes(int(p["dims"])), seed=seed)
    return PreferencePlant(
        stream,
        f"{p['window']:g} seconds",
        f"{p['slide']:g} seconds",
        QueryCosts(comparison=p["comparison"]),
        pane_workers=int(p["pane_workers"]),
        window_workers=int(p["window_workers"]),
        limit=int(p["limit"]),
    )


def _network(load: Load, p: dict[str, float], seed: int) -> VirtualPlant:
    factor = p["load"]
    operators = tuple(
        NetworkOperator(o.name, o.demand * factor, o.downstream, o.phases, o.selectivity)
        for o in LOG_ANALYSIS
    )
    return OperatorNetwork(
        load.arrivals, operators, 1.0, int(p["replicas"]), seed, int(p["recent"]), load.work
    )


def _regions(load: Load, p: dict[str, float], seed: int) -> VirtualPlant:
    counts, _ = np.histogram(load.arrivals, bins=max(1, int(load.seconds)), range=(0.0, load.seconds))
    rates = counts * p["scale"]
    graph = chain(
        RegionOperator("source", p["cost"] / 50),
        [
            (
                RegionOperator("parse", p["cost"]),
                RegionOperator("enrich", p["cost"]),
                RegionOperator("count", 2 * p["cost"]),
            )
        ],
    )
    return RegionsPlant(
        graph,
        offered=lambda t: float(rates[min(int(t), len(rates) - 1)]),
        most_replicas=int(p["limit"]),
        seed=seed,
    )


PLANTS: dict[str, SimulatedPlant] = {
    "spark": SimulatedPlant(
        "micro-batches with an overhead, executors that arrive late",
        _spark,
        period=5.0,
        parameters={
            "overhead": 0.3,
            "row_cost": 0.004,
            "trigger": 1.0,
            "arrives_after": 4.0,
            "warm_up": 2.5,
            "cores": 1,
            "noise": 0.05,
            "executors": 1,
            "limit": 16,
        },
        trace="map2:rate=800,dispersion=300",
        kind=PlantKind.MICRO_BATCHES,
    ),
    "operator": SimulatedPlant(
        "a partitioned-stateful operator: replicas, keys, CPU frequency, migration of state",
        _operator,
        period=1.0,
        parameters={
            "cost": 0.0025,
            "spread": 0.3,
            "keys": 500,
            "zipf": 0.5,
            "drift": 0,
            "slide": 1,
            "queue": 1000,
            "workers": 1,
            "limit": 12,
        },
        trace="walk:rate=1500",
        kind=PlantKind.OPERATOR,
        stages=("operator",),
    ),
    "preference": SimulatedPlant(
        "a two-stage preference query with real tuples: pane workers and window workers",
        _preference,
        period=2.5,
        parameters={
            "comparison": QueryCosts.comparison,
            "dims": 8,
            "delay": 0.2,
            "window": 1.0,
            "slide": 0.2,
            "pane_workers": 1,
            "window_workers": 1,
            "limit": 60,
        },
        trace="map2:rate=10000,dispersion=500",
        kind=PlantKind.PREFERENCE,
        stages=("panes", "windows"),
    ),
    "network": SimulatedPlant(
        "a log analysis of three operators with CPU shares",
        _network,
        period=10.0,
        parameters={"load": 1.0, "replicas": 1, "recent": 50_000},
        trace="map2:rate=300,dispersion=100",
        kind=PlantKind.NETWORK,
        stages=tuple(o.name for o in LOG_ANALYSIS),
    ),
    "regions": SimulatedPlant(
        "regions of pipelines and replicas on twelve cores",
        _regions,
        period=1.0,
        parameters={"cost": 1e-6, "scale": 1000.0, "limit": 16},
        trace="steps:rate=300,factor=4",
        kind=PlantKind.REPLICAS,
        stages=("r1",),
        cores=12,
        overheads=(0.1e-6, 0.02e-6),
    ),
}


def simulated_plant(name: str) -> SimulatedPlant:
    """The plant of that name."""
    if name not in PLANTS:
        raise unknown("plant", name, PLANTS)
    return PLANTS[name]


def plant_parameters(plant: SimulatedPlant, given: list[str]) -> dict[str, float]:
    """The parameters of a plant, with ``name=value`` where they differ from the defaults."""
    values = dict(plant.parameters)
    for part in given:
        key, _, text = part.partition("=")
        if key not in values:
            raise unknown("parameter of this plant", key, values)
        values[key] = float(_value(text, part))
    return values


def _value(text: str, part: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = nan
    if not isfinite(value):
        raise PenstockError(f"'{part}' is no number; write name=1.5.")
    return value
