"""Data-flow graphs and runs for the experiments of Joker."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from penstock.core.controller import Controller
from penstock.core.guards import Guards
from penstock.policies import Organic
from penstock.sim.plants.regions.region_graph import (
    FlowCosts,
    RegionGraph,
    RegionOperator,
    SimulatedRegion,
    chain,
)
from penstock.sim.plants.regions.regions_plant import RegionsPlant
from penstock_lab.papers.parallel import spread

#: Seconds of one multiplication, and what an operator takes beside them.
MULTIPLICATION, OPERATOR = 2.8e-9, 0.05e-6
SOURCE = RegionOperator("source", 0.02e-6)


def multiply(name: str, count: float, selectivity: float = 1.0) -> RegionOperator:
    """The operator of the micro-benchmarks."""
    return RegionOperator(name, count * MULTIPLICATION + OPERATOR, selectivity)


def single(count: float, operators: int = 4) -> RegionGraph:
    """Fig. 4: a source and one data-parallel region."""
    return chain(SOURCE, [tuple(multiply(f"m{i + 1}", count) for i in range(operators))])


def topology(name: str, count: float) -> RegionGraph:
    """Fig. 7: graphs of several regions."""
    m = multiply
    if name == "chain of 2":
        return chain(SOURCE, [(m("a", count),), (m("b", count),)])
    if name == "chain of 4":
        return chain(SOURCE, [(m("a", count), m("b", count)), (m("c", count), m("d", count))])
    if name == "tree":
        return RegionGraph((
            SimulatedRegion("source", (SOURCE,), "source", ("a",)),
            SimulatedRegion("a", (m("a", count),), downstream=("b", "c")),
            SimulatedRegion("b", (m("b", count),)),
            SimulatedRegion("c", (m("c", count),)),
        ))  # fmt: skip
    return RegionGraph((
        SimulatedRegion("source", (SOURCE,), "source", ("a", "b")),
        SimulatedRegion("a", (m("a", count),), downstream=("c",)),
        SimulatedRegion("b", (m("b", count),), downstream=("c",)),
        # It works once for a tuple of each branch. If it did for each of the two, it alone would need half of all
        # threads, and the graph as many for each speedup as a chain of 2; the paper shares its CPU among three regions.
        SimulatedRegion("c", (RegionOperator("c", m("c", count).cost / 2),)),
    ))  # fmt: skip


@dataclass(frozen=True, eq=False)
class JokerOutcome:
    """What a run showed: throughput before and after, configurations, decisions that changed something."""

    before: float
    after: float
    configs: dict[str, Any]
    changes: tuple[tuple[float, str], ...]
    reverts: int
    time: Any
    throughput: Any
    replicas: Any
    threads: int

    @property
    def speedup(self) -> float:
        """Steady throughput after over before."""
        return self.after / self.before


@dataclass
class _Watch:
    plant: RegionsPlant
    region: str
    time: list[float] = field(default_factory=list)
    throughput: list[float] = field(default_factory=list)
    replicas: list[int] = field(default_factory=list)

    def observe(self) -> Any:
        seen = self.plant.observe()
        self.time.append(seen.time)
        self.throughput.append(seen.region(self.region).throughput)
        self.replicas.append(self.plant.configs[self.region][1])
        return seen

    def apply(self, decision: Any) -> Any:
        return self.plant.apply(decision)


@dataclass(frozen=True)
class JokerJob:
    """One run of :func:`adapt` in another process."""

    graph: RegionGraph
    policy: Organic = field(default_factory=Organic)
    seconds: float = 900.0


def adapt_all(jobs: Sequence[JokerJob]) -> list[JokerOutcome]:
    """All of them, on all cores."""
    return spread(_adapt_one, jobs)


def _adapt_one(job: JokerJob) -> JokerOutcome:
    return adapt(job.graph, job.policy, job.seconds)


def adapt(
    graph: RegionGraph,
    policy: Any = None,
    seconds: float = 900.0,
    offered: Callable[[float], float] | None = None,
    costs: FlowCosts | None = None,
    region: str = "",
) -> JokerOutcome:
    """Run a graph under a policy, from one pipeline and one replica a region."""
    plant = RegionsPlant(graph, costs, offered, seed=1)
    before = plant.steady.rate
    watch = _Watch(plant, region or graph.regions[1].name)
    loop: Controller[Any] = Controller(watch, policy or Organic(), Guards(catch_up=None))
    changes: list[tuple[float, str]] = []
    reverts = 0
    while plant.now() < seconds:
        plant.wait_until(plant.now() + 1.0)
        step = loop.step()
        # At rest under a load that stays as it is nothing will change any more.
        if step is not None and offered is None and step.decision.reason.startswith("stable"):
            break
        if step is not None and step.decision.changes:
            changes.append((step.observation.time, step.decision.reason))
            reverts += step.decision.reason.startswith("undone")
    return JokerOutcome(
        before, plant.steady.rate, dict(plant.configs), tuple(changes), reverts, np.array(watch.time),
        np.array(watch.throughput), np.array(watch.replicas), plant.threads,
    )  # fmt: skip
