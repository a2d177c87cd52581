"""Pipelines and replicas from a throughput model, at once (the solution Joker 5.5 is compared with).

For a region whose operators have work w_o (seconds a source tuple: service time times the selectivities before it),
cut into pipelines and replicated k times, the busiest thread spends on a source tuple

    cost = (max over pipelines of sum w_o + v switching) / k  +  v replication log2(k)

with v the tuples entering the region for each source tuple: every pipeline costs a thread switch, and k replicas cost
a splitter whose work grows with log2 k. A data-flow graph runs at the pace of its most costly region. Within a limit
of threads the least such cost is found exactly: for each region the least cost for every number of threads, then the
smallest bound that all regions meet together.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, isnan, log2

from penstock.core.capacity import Knob
from penstock.core.decision import Change, Decision
from penstock.core.errors import PenstockError
from penstock.core.metrics import Metric
from penstock.core.observation import Observation, RegionObservation
from penstock.policies.pipelines import partition
from penstock.policies.profile import Config


@dataclass(frozen=True, slots=True)
class RegionWork:
    """Work of a region: seconds a source tuple by operator, tuples entering it a source tuple, whether it replicates."""

    name: str
    work: tuple[float, ...]
    volume: float
    replicable: bool


@dataclass(frozen=True, slots=True)
class FissionPlan:
    """A configuration by region, and the cost of the slowest one (seconds a source tuple)."""

    configs: tuple[tuple[str, Config], ...]
    cost: float


def configurations(
    region: RegionWork, threads: int, max_replicas: int, switching: float, replication: float
) -> list[tuple[float, int, Config]]:
    """(cost, threads, configuration) of everything that fits."""
    options = []
    for parts in range(1, len(region.work) + 1):
        heaviest, starts = partition(region.work, parts, region.volume * switching)
        for k in range(1, (max_replicas if region.replicable else 1) + 1):
            if len(starts) * k <= threads:
                cost = heaviest / k + (region.volume * replication * log2(k) if k > 1 else 0.0)
                options.append((cost, len(starts) * k, (starts, k)))
    return options


def plan(
    regions: Sequence[RegionWork],
    threads: int,
    max_replicas: int = 16,
    switching: float = 0.0,
    replication: float = 0.0,
) -> FissionPlan:
    """The configuration with the least cost of the slowest region; among equals the one with the fewest threads.

    >>> one = RegionWork("r", (1.0, 1.0), 1.0, replicable=False)
    >>> plan([one], threads=2).configs
    (('r', ((0, 1), 1)),)
    """
    options = [configurations(r, threads, max_replicas, switching, replication) for r in regions]
    for bound in sorted({cost for region in options for cost, _, _ in region}):
        chosen = [
            min((o for o in region if o[0] <= bound), key=lambda o: (o[1], o[0]), default=None)
            for region in options
        ]
        found = [c for c in chosen if c is not None]
        if len(found) == len(regions) and sum(c[1] for c in found) <= threads:
            return FissionPlan(tuple((r.name, c[2]) for r, c in zip(regions, found, strict=True)), bound)
    single = tuple((r.name, ((0,), 1)) for r in regions)
    return FissionPlan(single, inf)


@dataclass(frozen=True, slots=True)
class FissionState:
    """Work of the regions when the present plan was made."""

    planned: tuple[RegionWork, ...] = ()


@dataclass(frozen=True, slots=True)
class PipelinedFission:
    """Set the plan of the model once operator costs and selectivities are known; again when they moved a lot.

    threads: how many there are for all regions. switching: seconds a thread switch costs a tuple. replication: cost
    factor of the splitter in seconds a tuple, times log2 of the replicas. Both are properties of the engine and are
    measured once for it.
    """

    threads: int = 8
    max_replicas: int = 16
    switching: float = 1e-6
    replication: float = 1e-6
    load_change: float = 0.2
    name: str = "PipelinedFission"

    def __post_init__(self) -> None:
        if self.threads < 1 or self.max_replicas < 1 or self.switching < 0 or self.replication < 0:
            raise PenstockError(
                "PipelinedFission needs threads and max_replicas of at least 1 and costs of at least 0."
            )

    def start(self) -> FissionState:
        """No plan."""
        return FissionState()

    def step(self, state: FissionState, observation: Observation) -> tuple[FissionState, Decision]:
        """The plan, where the work is known and has changed."""
        work = regions_of(observation)
        if (
            not work
            or any(isnan(w) or w < 0 for r in work for w in r.work)
            or any(isnan(r.volume) for r in work)
        ):
            return state, Decision.keep("the costs or selectivities of the operators are not known")
        if not self._moved(state.planned, work):
            return state, Decision.keep("operator costs are as they were planned for")
        if len(work) > self.threads:
            return state, Decision(
                (), f"{len(work)} regions need more than {self.threads} threads", feasible=False
            )
        made = plan(work, self.threads, self.max_replicas, self.switching, self.replication)
        changes = []
        for name, (starts, replicas) in made.configs:
            region = observation.region(name)
            if region.pipelines != starts:
                changes.append(Change(Knob.PIPELINES, name, starts))
            if int(region.replicas.planned) != replicas:
                changes.append(Change(Knob.WORKERS, name, replicas))
        shown = ", ".join(f"{n} {len(s)} x {k}" for n, (s, k) in made.configs)
        rate = 1.0 / made.cost if made.cost > 0 else inf
        return FissionState(work), Decision(
            tuple(changes),
            f"planned pipelines x replicas: {shown}; {rate:.4g} tuples/s by the model",
            {Metric.THROUGHPUT: rate},
        )

    def _moved(self, old: tuple[RegionWork, ...], new: tuple[RegionWork, ...]) -> bool:
        if [r.name for r in old] != [r.name for r in new]:
            return True
        pairs = [(a, b) for x, y in zip(old, new, strict=True) for a, b in zip(x.work, y.work, strict=True)]
        return any(abs(b - a) > self.load_change * max(a, 1e-12) for a, b in pairs)


def regions_of(observation: Observation) -> tuple[RegionWork, ...]:
    """Work of every region that is no source, per tuple of the sources."""
    volume = {r.name: 1.0 if r.kind == "source" else 0.0 for r in observation.regions}
    fed = {d for r in observation.regions for d in r.downstream}
    volume |= {r.name: 1.0 for r in observation.regions if r.name not in fed}
    found = []
    for region in observation.regions:  # in topological order, so what feeds a region is known
        work, passed = _chain(observation, region, volume[region.name])
        for name in region.downstream:
            volume[name] = volume.get(name, 0.0) + passed
        if region.kind != "source" and work:
            found.append(RegionWork(region.name, work, volume[region.name], region.kind == "partitioned"))
    return tuple(found)


def _chain(
    observation: Observation, region: RegionObservation, volume: float
) -> tuple[tuple[float, ...], float]:
    work = []
    for stage in observation.pipelines(region.name):
        for operator in stage.operators:
            work.append(volume * operator.service_time)
            volume *= operator.selectivity
    return tuple(work), volume
