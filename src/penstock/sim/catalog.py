"""Plants and policies by name, with defaults that fit each other: what ``penstock simulate`` offers."""

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any, Literal, get_args, get_origin

import numpy as np

from penstock import policies as shelf
from penstock.core.capacity import Knob
from penstock.core.errors import PenstockError, unknown
from penstock.core.policy import AnyPolicy
from penstock.policies.threshold import CPU_LEVELS
from penstock.sim.load import Load
from penstock.sim.plants.micro_batch import SparkCosts, SparkLike
from penstock.sim.plants.network import LOG_ANALYSIS, NetworkOperator, OperatorNetwork
from penstock.sim.plants.operator import OperatorCosts, PartitionedOperator, triggers
from penstock.sim.plants.query import PreferencePlant, QueryCosts, of_events
from penstock.sim.plants.regions import RegionOperator, RegionsPlant
from penstock.sim.plants.regions.graph import chain
from penstock.sim.plants.virtual import VirtualPlant
from penstock.traffic import Attributes, zipf


@dataclass(frozen=True)
class PlantKind:
    """A plant that can be simulated."""

    meaning: str
    make: Callable[[Load, dict[str, float], int], VirtualPlant]
    period: float  # control period in seconds
    target: float  # response time in seconds that makes sense by default
    parameters: dict[str, float]  # with their defaults
    trace: str  # a load that makes sense by default
    policies: dict[str, dict[str, Any]] = field(default_factory=dict)  # arguments that fit the plant


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


PLANTS: dict[str, PlantKind] = {
    "spark": PlantKind(
        "micro-batches with an overhead, executors that arrive late",
        _spark,
        period=5.0,
        target=3.0,
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
        policies={
            "Threshold": {"knob": Knob.EXECUTORS, "limits": (1, 16)},
            "RuleBased": {"knob": Knob.EXECUTORS, "limits": (1, 16)},
            "Spl": {"knob": Knob.EXECUTORS, "limits": (1, 16)},
            "Mpc": {
                "objective": "latency",
                "knob": Knob.EXECUTORS,
                "workers": (1, 16),
                "rebalance": False,
                "waiting": "microbatch-map",
            },
            "Mead": {
                "knob": Knob.EXECUTORS,
                "levels": (1.0,),
                "replicas": tuple(range(1, 17)),
                "max_states": 8,
                "interval": 30.0,
            },
            "Static": {"executors": 8},
        },
    ),
    "operator": PlantKind(
        "a partitioned-stateful operator: replicas, keys, CPU frequency, migration of state",
        _operator,
        period=1.0,
        target=0.02,
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
        policies={
            "Threshold": {"limits": (1, 12)},
            "RuleBased": {"limits": (1, 12)},
            "Spl": {"limits": (1, 12)},
            "Mpc": {"objective": "latency", "workers": (1, 12)},
            "Mead": {"levels": (1.0,), "replicas": tuple(range(1, 13)), "max_states": 8, "interval": 30.0},
            "Static": {"workers": {"operator": 12}},
        },
    ),
    "preference": PlantKind(
        "a two-stage preference query with real tuples: pane workers and window workers",
        _preference,
        period=2.5,
        target=3.0,
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
        policies={
            "Fuzzy": {"limit": 60},
            "Threshold": {"limits": (1, 60)},
            "RuleBased": {"limits": (1, 60)},
            "Spl": {"limits": (1, 60)},
            "Mpc": {"workers": (1, 60), "budget": 60, "stages": ("panes", "windows"), "rebalance": False},
            "Static": {"workers": {"panes": 4, "windows": 20}},
        },
    ),
    "network": PlantKind(
        "a log analysis of three operators with CPU shares",
        _network,
        period=10.0,
        target=0.3,
        parameters={"load": 1.0, "replicas": 1, "recent": 50_000},
        trace="map2:rate=300,dispersion=100",
        policies={
            "Threshold": {"knob": Knob.CPU_SHARE, "levels": CPU_LEVELS, "high": 0.7, "low": 0.5},
            "RuleBased": {"limits": (1, 1)},
            "Mead": {"max_states": 8},
            "Static": {},
        },
    ),
    "regions": PlantKind(
        "regions of pipelines and replicas on twelve cores",
        _regions,
        period=1.0,
        target=1.0,
        parameters={"cost": 1e-6, "scale": 1000.0, "limit": 16},
        trace="steps:rate=300,factor=4",
        policies={
            "Static": {"workers": {"r1": 8}},
            "PipelinedFission": {"threads": 12, "switching": 0.1e-6, "replication": 0.02e-6},
        },
    ),
}


def plant_kind(name: str) -> PlantKind:
    """The plant of that name."""
    if name not in PLANTS:
        raise unknown("plant", name, PLANTS)
    return PLANTS[name]


def plant_parameters(kind: PlantKind, given: list[str]) -> dict[str, float]:
    """The parameters of a plant, with ``name=value`` where they differ from the defaults."""
    values = dict(kind.parameters)
    for part in given:
        key, _, text = part.partition("=")
        if key not in values:
            raise unknown("parameter of this plant", key, values)
        values[key] = float(_value(text, part))
    return values


def policy(spec: str, kind: PlantKind, target: float) -> AnyPolicy:
    """A policy from words: ``Name`` or ``Name:argument=value,...``.

    >>> policy("Threshold:high=0.8", PLANTS["spark"], 3.0).high
    0.8
    """
    name, _, rest = spec.partition(":")
    names = [n for n in shelf.__all__ if hasattr(getattr(shelf, n), "step")]
    if name not in names:
        raise unknown("policy", name, names)
    made: Any = getattr(shelf, name)
    known = {f.name: f for f in fields(made)}
    arguments = {k: v for k, v in kind.policies.get(name, {}).items() if k in known}
    if "target" in known and "target" not in arguments:
        arguments["target"] = target
    for part in filter(None, rest.split(",")):
        key, _, text = part.partition("=")
        if key not in known:
            raise unknown(f"argument of {name}", key, known)
        arguments[key] = _typed(known[key].type, text, part)
    if "name" in known and rest and "name" not in arguments:
        arguments["name"] = spec
    built: AnyPolicy = made(**arguments)
    return built


def _typed(annotation: Any, text: str, part: str) -> Any:
    if annotation is str or get_origin(annotation) is Literal:
        allowed = get_args(annotation)
        if allowed and text not in allowed:
            raise unknown(f"value of {part.partition('=')[0]}", text, allowed)
        return text
    if annotation is Knob:
        return Knob(text)
    value = _value(text, part)
    return int(value) if annotation is int or (int in get_args(annotation) and value == int(value)) else value


def _value(text: str, part: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise PenstockError(f"'{part}' is no number; write name=1.5.") from None
