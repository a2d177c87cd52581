"""Steady flow through regions: who is busy how much, and how much gets through.

For each input tuple a thread of a pipeline works

    w = sum over its operators of tuples in x cost + tuples taken in + tuples handed on,

divided among the replicas as evenly as the key groups allow. Bounded queues make everything run at the pace of the
slowest thread: x = min(offered, min over threads of speed / w), and the speed of a thread falls when more threads
want to run than there are cores.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil, inf, log2

from penstock.sim.plants.regions.region_graph import FlowCosts, RegionGraph, SimulatedRegion

#: First operators of the pipelines, and replicas, of a region.
Config = tuple[tuple[int, ...], int]


@dataclass(frozen=True)
class Pipe:
    """One pipeline of a region: CPU seconds an input tuple of one replica thread (the fullest one), and of what."""

    region: str
    index: int
    replicas: int
    operators: tuple[tuple[str, float], ...]  # name and CPU seconds an input tuple, over all replicas
    overhead: float
    volume: float  # tuples entering the pipeline for each input tuple
    fullest: float  # load of the fullest replica over the mean

    @property
    def total(self) -> float:
        """CPU seconds an input tuple, over all replicas."""
        return self.overhead + sum(cost for _, cost in self.operators)

    @property
    def thread(self) -> float:
        """CPU seconds an input tuple of the fullest replica's thread."""
        return self.total / self.replicas * self.fullest


@dataclass(frozen=True)
class FlowRates:
    """Input tuples a second that get through, the threads' speed, and the pipelines."""

    rate: float
    speed: float
    pipes: tuple[Pipe, ...]

    def busy(self, pipe: Pipe) -> float:
        """Share of the time that the fullest thread of a pipeline works."""
        return self.rate * pipe.thread / self.speed if self.speed > 0 else 1.0


def pipes_of(graph: RegionGraph, configs: Mapping[str, Config], costs: FlowCosts) -> tuple[Pipe, ...]:
    """All pipelines under a configuration."""
    volumes = graph.volumes()
    found: list[Pipe] = []
    for region in graph:
        found += _region_pipes(region, configs, volumes[region.name], costs)
    return tuple(found)


def _region_pipes(
    region: SimulatedRegion, configs: Mapping[str, Config], volume: float, costs: FlowCosts
) -> list[Pipe]:
    starts, replicas = configs[region.name]
    ends = (*starts[1:], len(region.operators))
    pipes = []
    for index, (first, last) in enumerate(zip(starts, ends, strict=True)):
        entering, work = volume, []
        for operator in region.operators[first:last]:
            work.append((operator.name, volume * operator.cost))
            volume *= operator.selectivity
        # A source takes its tuples from nobody.
        take = costs.transfer if index else 0.0 if region.kind == "source" else costs.entry
        overhead = entering * take
        if last < len(region.operators):
            overhead += volume * costs.transfer
        else:
            for name in region.downstream:
                k = configs[name][1]
                overhead += volume * costs.replication * log2(k) if k > 1 else 0.0
        pipes.append(
            Pipe(region.name, index, replicas, tuple(work), overhead, entering, fullest(replicas, costs))
        )
    return pipes


def fullest(replicas: int, costs: FlowCosts) -> float:
    """Load of the fullest replica over the mean: key groups are whole, and keys are not alike."""
    if replicas == 1:
        return 1.0
    return ceil(costs.groups / replicas) * replicas / costs.groups * (1.0 + costs.skew)


def flow(
    graph: RegionGraph, configs: Mapping[str, Config], costs: FlowCosts, offered: float = inf
) -> FlowRates:
    """The steady state; the speed and the number of busy threads depend on each other, so it is approached in steps."""
    pipes = pipes_of(graph, configs, costs)
    slowest = max(p.thread for p in pipes)
    speed = 1.0
    for _ in range(60):
        rate = min(offered, speed / slowest) if slowest > 0 else offered
        wanted = sum(rate * p.total / speed for p in pipes)
        speed = 0.5 * speed + 0.5 * costs.speed(wanted)
    rate = min(offered, speed / slowest) if slowest > 0 else offered
    return FlowRates(rate, speed, pipes)
