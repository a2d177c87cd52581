"""What a plant tells about one period: load, work, waiting, resources, per stage and per region.

A *stage* is a group of like workers that take tuples from one place: the pane stage, the windows stage, a
partitioned operator with its replicas, one operator of a network, one pipeline of a region, the executors of a
query. A *region* is a chain of operators that is replicated as a whole (Joker 3.2); its pipelines are stages
that carry its name. What a plant does not measure stays ``nan``, and policies must live with that.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf, isnan, nan
from typing import Any

from penstock.core.arrays import Floats
from penstock.core.capacity import Capacity, Knob, KnobValue
from penstock.core.errors import PenstockError, unknown
from penstock.core.metrics import Metric

FloatArray = Floats


@dataclass(frozen=True, slots=True)
class Latency:
    """Response times of one period in seconds; ``nan`` where unknown."""

    mean: float = nan
    p50: float = nan
    p95: float = nan
    p99: float = nan
    maximum: float = nan


UNKNOWN = Latency()


@dataclass(frozen=True, slots=True)
class LastChange:
    """How long ago the last change took effect and what it cost."""

    age: float = inf  # seconds since it took effect
    pause: float = 0.0  # seconds for which tuples were held back
    delayed: float = 0.0  # tuples that had to wait for it
    moved: float = 0.0  # bytes of state moved


@dataclass(frozen=True, slots=True)
class OperatorObservation:
    """One operator inside a stage."""

    name: str
    cost: float = (
        nan  # share of the worker's CPU time spent in it, 0..1; the rest of 1 is the pipeline's overhead
    )
    service_time: float = nan  # seconds a tuple on one worker
    selectivity: float = 1.0  # tuples out for each tuple in
    state: str = "stateless"  # stateless, stateful or partitioned


@dataclass(frozen=True, slots=True)
class KeyLoad:
    """Key groups of a stage: how often each comes, what it costs, which worker has it."""

    frequencies: tuple[float, ...]  # share of the tuples, by key group; adds up to 1
    costs: tuple[float, ...] = ()  # seconds a tuple, by key group; empty: the same for all
    routing: tuple[int, ...] = ()  # worker (0, 1, ...) of every key group; empty: the plant routes by itself

    def __post_init__(self) -> None:
        groups = len(self.frequencies)
        if len(self.costs) not in (0, groups) or len(self.routing) not in (0, groups):
            raise PenstockError(
                "Key frequencies, costs and routing differ in length; give one entry per key group."
            )


@dataclass(frozen=True, slots=True)
class StageObservation:
    """One stage during one period; units stand in :class:`penstock.core.metrics.Metric`."""

    name: str
    workers: Capacity
    region: str = ""  # the region whose pipeline this is
    pool: str = ""  # stages that name the same one have their workers in common and work in turn
    downstream: tuple[str, ...] = ()  # stages that get a copy of every tuple given out
    arrival_rate: float = nan
    arrival_scv: float = nan
    arrival_dispersion: float = nan
    interarrivals: FloatArray | None = field(default=None, repr=False, compare=False)  # the most recent ones
    interarrival_rows: float = 1.0  # tuples that each of them stands for, where a fast stream was thinned
    busy_time: float = nan
    tuples_in: float = nan
    tuples_out: float = nan
    backlog: float = nan
    latency: Latency = UNKNOWN
    waiting_time: float = nan
    service_time: float = nan
    service_scv: float = nan
    utilisation: float = nan
    worker_utilisation: tuple[float, ...] = ()  # share of the period each worker was busy
    splitting: float = nan
    operators: tuple[OperatorObservation, ...] = ()
    keys: KeyLoad | None = None
    cpu_share: Capacity | None = None
    frequency: Capacity | None = None
    shedding: float = 0.0  # the share to drop that is set now
    # Stages that work in micro-batches tell how a batch is made up.
    trigger: float = nan  # seconds between two batches; 0 where they follow each other at once
    level: float = nan  # place among the stages that work on a batch one after another, from 0
    visits: float = 1.0  # tuples of this stage for each tuple of the batch
    overhead_time: float = nan
    batch_duration: float = nan  # seconds that the last batch took
    fixed_time: float = nan  # the part of the overhead that is the same for any number of workers
    congestion: float = nan
    last_change: LastChange = field(default_factory=LastChange)
    extra: Mapping[str, float] = field(default_factory=dict)  # further metrics by name

    @property
    def selectivity(self) -> float:
        """Tuples out for each tuple in; ``nan`` when nothing came in."""
        return self.tuples_out / self.tuples_in if self.tuples_in > 0 else nan


@dataclass(frozen=True, slots=True)
class RegionObservation:
    """A chain of operators that is replicated as a whole; its pipelines are the stages that name it."""

    name: str
    replicas: Capacity
    operators: tuple[str, ...] = ()  # in order
    pipelines: tuple[int, ...] = (0,)  # index of the first operator of each pipeline
    kind: str = "partitioned"  # source, stateless, stateful or partitioned; only the last can have replicas
    throughput: float = nan
    downstream: tuple[str, ...] = ()
    keys: KeyLoad | None = None
    last_change: LastChange = field(default_factory=LastChange)


@dataclass(frozen=True, slots=True)
class Observation:
    """Everything a plant tells about the period that ended at ``time``.

    >>> o = Observation(10.0, 1.0, (StageObservation("op", Capacity.steady(2), arrival_rate=500.0),))
    >>> o.stage("op").arrival_rate, o.capacity(Knob.WORKERS, "op").observed
    (500.0, 2)
    """

    time: float  # seconds on the plant's clock
    period: float  # seconds covered
    stages: tuple[StageObservation, ...] = ()
    regions: tuple[RegionObservation, ...] = ()  # in topological order, sources first
    executors: Capacity | None = None
    slots: float = nan  # tasks that can run at the same time
    latency: Latency = UNKNOWN  # end to end
    power: float = nan
    extra: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        names = [s.name for s in self.stages] + [r.name for r in self.regions]
        if len(set(names)) < len(names):
            raise PenstockError(
                "Two stages or regions of an observation have the same name; names must differ."
            )

    def stage(self, name: str = "") -> StageObservation:
        """The stage of that name; without a name the first one."""
        for stage in self.stages:
            if stage.name == name or not name:
                return stage
        raise unknown("stage", name, [s.name for s in self.stages])

    def region(self, name: str) -> RegionObservation:
        """The region of that name."""
        for region in self.regions:
            if region.name == name:
                return region
        raise unknown("region", name, [r.name for r in self.regions])

    def pipelines(self, region: str) -> tuple[StageObservation, ...]:
        """The stages that are pipelines of that region, in order."""
        return tuple(s for s in self.stages if s.region == region)

    def place(self, where: str) -> StageObservation | RegionObservation | None:
        """The stage or region of that name, or None."""
        for stage in self.stages:
            if stage.name == where:
                return stage
        return next((r for r in self.regions if r.name == where), None)

    def capacity(self, knob: Knob, where: str = "") -> Capacity | None:
        """How much of a resource knob is planned, requested and observed at a place; None where it has no such knob."""
        if knob is Knob.EXECUTORS:
            return self.executors
        place = self.place(where)
        if isinstance(place, RegionObservation):
            return place.replicas if knob is Knob.WORKERS else None
        if place is None or not knob.resource:
            return None
        return {
            Knob.WORKERS: place.workers,
            Knob.CPU_SHARE: place.cpu_share,
            Knob.FREQUENCY: place.frequency,
        }[knob]

    def value(self, knob: Knob, where: str = "") -> KnobValue | None:
        """What a knob is set to now: the planned value of a resource, the present pipelines, routing or shedding."""
        if knob.resource:
            capacity = self.capacity(knob, where)
            return None if capacity is None else capacity.planned
        place = self.place(where)
        if knob is Knob.PIPELINES:
            return place.pipelines if isinstance(place, RegionObservation) else None
        if knob is Knob.ROUTING:
            return place.keys.routing if place is not None and place.keys is not None else None
        return place.shedding if isinstance(place, StageObservation) else None

    def measure(self, metric: Metric, where: str = "") -> float:
        """A metric of one stage, or of the whole application when no place is given; ``nan`` where unknown.

        For the application: latencies are end to end (the sum over stages where the plant gives no end-to-end
        figure), arrivals are those of the first stage, throughput that of the last one, utilisation and load
        balance the worst stage's, and everything else the sum over the stages.
        """
        if where:
            place = self.place(where)
            if isinstance(place, RegionObservation):
                return place.throughput if metric is Metric.THROUGHPUT else nan
            return _of_stage(self.stage(where), metric, self.period)
        return _of_all(self, metric)


_LATENCY = {
    Metric.LATENCY_MEAN: "mean",
    Metric.LATENCY_P50: "p50",
    Metric.LATENCY_P95: "p95",
    Metric.LATENCY_P99: "p99",
    Metric.LATENCY_MAX: "maximum",
}
_FIRST = (
    Metric.ARRIVAL_RATE,
    Metric.ARRIVAL_SCV,
    Metric.ARRIVAL_DISPERSION,
    Metric.TUPLES_IN,
    Metric.SHED_SHARE,
)
_LAST = (Metric.THROUGHPUT, Metric.TUPLES_OUT)
_WORST = (
    Metric.UTILISATION,
    Metric.CONGESTION,
    Metric.LOAD_BALANCE,
    Metric.CHANGE_PAUSE,
    Metric.FREQUENCY,
    Metric.CPU_SHARE,
)


def _of_stage(stage: StageObservation, metric: Metric, period: float) -> float:
    if metric in _LATENCY:
        return float(getattr(stage.latency, _LATENCY[metric]))
    if metric is Metric.THROUGHPUT:
        return stage.tuples_out / period if period > 0 else nan
    if metric is Metric.SHED_SHARE:
        return stage.shedding
    if metric is Metric.CHANGE_PAUSE:
        return stage.last_change.pause
    value: Any = stage.extra.get(metric.value, getattr(stage, metric.value, nan))
    if isinstance(value, Capacity):
        return float(value.observed)
    return nan if value is None else float(value)


def _of_all(observation: Observation, metric: Metric) -> float:
    known = observation.extra.get(metric.value)
    if known is not None:
        return float(known)
    if metric in _LATENCY and not isnan(value := float(getattr(observation.latency, _LATENCY[metric]))):
        return value
    if metric is Metric.EXECUTORS:
        return nan if observation.executors is None else float(observation.executors.observed)
    if metric is Metric.POWER:
        return observation.power
    values = [_of_stage(s, metric, observation.period) for s in observation.stages]
    if not values:
        return nan
    if metric in _FIRST or metric in _LAST:
        return values[0 if metric in _FIRST else -1]
    present = [v for v in values if not isnan(v)]
    if not present:
        return nan
    return max(present) if metric in _WORST else sum(present)
