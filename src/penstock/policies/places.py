"""Where a policy scales: one place a stage, one a region of pipelines, or one for the executors that all stages share.

Places are found by the name of a stage or of its region.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, inf, isfinite, isnan, nan
from typing import TypeVar

from penstock.core.capacity import Capacity, Knob
from penstock.core.errors import PenstockError, unknown
from penstock.core.metrics import Metric
from penstock.core.observation import Observation, StageObservation
from penstock.policies.shared_executors import as_one_query

V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class Place:
    """Something to scale: where the change goes, the stage that decides about it, and how much there is now."""

    where: str
    stage: StageObservation
    capacity: Capacity
    slots: float  # tuples that one worker or executor processes at a time

    @property
    def planned(self) -> int:
        """How many there are or will be."""
        return int(self.capacity.planned)

    @property
    def true_rate(self) -> float:
        """Tuples a second that one worker would process if it never waited (DS2's true processing rate).

        A micro-batch query's service time is task time a tuple; without one, what was processed in the time spent on it.
        """
        stage = self.stage
        if stage.service_time > 0:
            return self.slots / stage.service_time
        if stage.busy_time > 0 and stage.tuples_in > 0:
            return self.slots * stage.tuples_in / stage.busy_time
        present = self.capacity.observed * stage.utilisation
        return stage.arrival_rate / present if present > 0 else nan

    def congestion(self, observation: Observation) -> float:
        """Share of the time in which input is held back: as told, or the share of arrivals that cannot be served."""
        measured = replace(observation, stages=(self.stage,)).measure(Metric.CONGESTION, self.stage.name)
        if not isnan(measured):
            return min(max(measured, 0.0), 1.0)
        load = self.stage.utilisation
        return max(0.0, 1.0 - 1.0 / load) if load > 0 else load


def stages_at(observation: Observation, *names: str) -> tuple[StageObservation, ...]:
    """The stages that have one of the names, or whose region has it; all of them where no name is given.

    Any other name is refused with the known ones; none is while the plant shows no stage, as before a query starts.

    >>> seen = Observation(0.0, 1.0, (StageObservation("match/0", Capacity.steady(1), region="match"),))
    >>> stages_at(seen, "match") == stages_at(seen, "match/0") == seen.stages
    True
    >>> stages_at(seen, "mach")
    Traceback (most recent call last):
        ...
    penstock.core.errors.PenstockError: Unknown stage or region 'mach'; did you mean 'match'?
    """
    stages, wanted = observation.stages, {name for name in names if name}
    if not wanted:
        return stages
    known = {s.name for s in stages} | {s.region for s in stages if s.region}
    for name in sorted(wanted - known if known else ()):
        raise unknown("stage or region", name, known)
    return tuple(s for s in stages if s.name in wanted or s.region in wanted)


def by_stage(observation: Observation, given: Mapping[str, V]) -> dict[str, V]:
    """What is given by stage or region, by stage: its own goes before its region's."""
    found = stages_at(observation, *given) if given else ()
    return {s.name: given[s.name if s.name in given else s.region] for s in found}


def busiest(stages: Sequence[StageObservation]) -> StageObservation:
    """The stage of the highest utilisation; one that is not known counts as the lowest."""
    return max(stages, key=lambda s: -inf if isnan(s.utilisation) else s.utilisation)


def places(observation: Observation, knob: Knob, where: str = "") -> list[Place]:
    """The places of a knob that counts workers or executors; regions go by their busiest stage, executors by all queries together."""
    stages = stages_at(observation, where)
    if knob is not Knob.EXECUTORS:
        return _of_workers(observation, knob, stages)
    capacity = observation.executors
    if capacity is None or not stages:
        return []
    slots = observation.slots
    each = slots / capacity.observed if capacity.observed > 0 and isfinite(slots) else 1.0
    return [Place("", busiest(as_one_query(observation, stages).stages), capacity, each or 1.0)]


def _of_workers(observation: Observation, knob: Knob, stages: Sequence[StageObservation]) -> list[Place]:
    """A place for each stage, and one for each region, whose pipelines have the same replicas; none where there can be but one."""
    together: dict[str, list[StageObservation]] = {}
    for stage in stages:
        replicated = bool(stage.region) and observation.capacity(knob, stage.region) is not None
        together.setdefault(stage.region if replicated else stage.name, []).append(stage)
    found = [(name, busiest(own), observation.capacity(knob, name)) for name, own in together.items()]
    return [Place(name, s, c, 1.0) for name, s, c in found if c is not None and c.limit > 1]


def within(count: float, limits: tuple[int, int]) -> int:
    """The whole number of workers, rounded up, that the limits allow; unbounded wishes are the most.

    >>> within(2.2, (1, 8)), within(inf, (1, 8)), within(0.0, (1, 8))
    (3, 8, 1)
    """
    return limits[1] if count >= limits[1] else max(limits[0], ceil(count - 1e-9))


def check_scaling(policy: str, knob: Knob, limits: tuple[int, int]) -> None:
    """Raise unless the knob counts something and the limits are in order."""
    if not knob.whole or not 0 < limits[0] <= limits[1]:
        raise PenstockError(
            f"{policy} needs limits of at least 1, the smaller first, and workers or executors as its knob."
        )
