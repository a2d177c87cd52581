"""Data-flow graphs of regions, and what it costs to run them."""

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.core.errors import PenstockError

KINDS = ("source", "stateless", "stateful", "partitioned")


@dataclass(frozen=True)
class RegionOperator:
    """One operator: seconds of CPU a tuple, tuples out for each tuple in."""

    name: str
    cost: float
    selectivity: float = 1.0

    def __post_init__(self) -> None:
        if self.cost < 0 or self.selectivity < 0:
            raise PenstockError(f"The operator '{self.name}' needs a cost and a selectivity of 0 or more.")


@dataclass(frozen=True)
class SimulatedRegion:
    """A chain of operators that is replicated as a whole; only partitioned regions can have several replicas."""

    name: str
    operators: tuple[RegionOperator, ...]
    kind: str = "partitioned"
    downstream: tuple[str, ...] = ()
    rate: float = 1.0  # of a source: tuples it gives for each tuple of the whole input

    def __post_init__(self) -> None:
        if self.kind not in KINDS or not self.operators:
            raise PenstockError(f"The region '{self.name}' needs operators and a kind: {', '.join(KINDS)}.")


@dataclass(frozen=True)
class FlowCosts:
    """What runtime and machine take beside the operators; seconds of CPU.

    ``entry``: to take a tuple into a pipeline. ``transfer``: to hand a tuple on to the next pipeline of a region, and the
    same again to take it. ``replication``: of the sender, a tuple to a region with k > 1 replicas, times log2 k.
    ``skew``: how much more the fullest replica gets than an even share, beside what whole key groups make uneven.
    """

    cores: int = 12
    smt: float = 0.67  # what the second thread of a core adds
    entry: float = 0.15e-6
    transfer: float = 0.1e-6
    replication: float = 0.02e-6
    skew: float = 0.04
    polling: float = (
        0.0  # CPU that threads burn while they wait between tuples, times u (1 - u) at utilisation u
    )
    groups: int = 271
    pause: float = 0.05  # seconds that a change takes whatever it is
    move: float = 2e-3  # seconds to move one key group
    settling: float = 2.5  # seconds until a change shows in full

    def speed(self, busy: float) -> float:
        """Speed of each thread when ``busy`` threads want to run: 1 up to the cores, less on shared ones, then turns."""
        if busy <= self.cores:
            return 1.0
        most = 2 * self.cores
        whole = self.cores + self.smt * (min(busy, most) - self.cores)
        return whole / busy


@dataclass(frozen=True)
class RegionGraph:
    """Regions, sources first.

    >>> source = SimulatedRegion("in", (RegionOperator("read", 1e-7),), "source", ("r",))
    >>> flow = RegionGraph((source, SimulatedRegion("r", (RegionOperator("f", 1e-6, 0.5),))))
    >>> flow.volumes()
    {'in': 1.0, 'r': 1.0}
    """

    regions: tuple[SimulatedRegion, ...]

    def __post_init__(self) -> None:
        seen: set[str] = set()
        for region in reversed(self.regions):
            missing = [d for d in region.downstream if d not in seen]
            if missing:
                raise PenstockError(
                    f"'{region.name}' feeds {missing[0]}, which is not behind it; list sources first."
                )
            seen.add(region.name)

    def __iter__(self):  # type: ignore[no-untyped-def]
        return iter(self.regions)

    def volumes(self) -> dict[str, float]:
        """Tuples that enter each region for each tuple of the input."""
        volume = {r.name: r.rate if r.kind == "source" else 0.0 for r in self.regions}
        for region in self.regions:
            out = volume[region.name]
            for operator in region.operators:
                out *= operator.selectivity
            for name in region.downstream:
                volume[name] += out
        return volume


def chain(
    source: RegionOperator, regions: Sequence[tuple[RegionOperator, ...]], kind: str = "partitioned"
) -> RegionGraph:
    """A source and regions one behind the other, named r1, r2, ..."""
    names = [f"r{i + 1}" for i in range(len(regions))]
    made = [SimulatedRegion("source", (source,), "source", (names[0],))]
    for i, operators in enumerate(regions):
        made.append(SimulatedRegion(names[i], operators, kind, tuple(names[i + 1 : i + 2])))
    return RegionGraph(tuple(made))
