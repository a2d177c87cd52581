"""Spark's dynamic allocation as a policy, to see in the simulator what it does to a streaming query.

Its rules (Spark: Job Scheduling, Dynamic Resource Allocation), with the names of the properties:

- Tasks that wait for a slot for ``backlog`` seconds [schedulerBacklogTimeout, 1 s] make it ask for one executor, and
  again every ``sustained`` seconds while tasks wait, each time for twice as many: 1, 2, 4, 8, ... The queue that empties
  at the end of a batch starts the row anew. It never asks for more than all ``tasks`` need.
- An executor that ran no task for ``idle`` seconds [executorIdleTimeout, 60 s] is given back.

A batch of ``tasks`` tasks (a query's shuffle partitions, 200 by default) keeps some waiting until its last wave, and gives
every executor something to do, so executors come as long as batches take more than a second and go only in silences:
the reason why Spark's own guide does not advise it for streams.
"""

from dataclasses import dataclass
from math import floor, isfinite

from penstock.core.capacity import Knob
from penstock.core.decision import Change, Decision
from penstock.core.errors import PenstockError
from penstock.core.observation import Observation
from penstock.policies.places import Place, check_scaling, places, within


@dataclass(frozen=True, slots=True)
class DynamicAllocation:
    """Executors for waiting tasks, in doubling steps; away with those that had nothing to do for a minute.

    The state is the time since which no batch has run, or None.
    """

    backlog: float = 1.0
    sustained: float = 1.0
    idle: float = 60.0
    tasks: int = 200
    limits: tuple[int, int] = (1, 64)
    name: str = "DynamicAllocation"

    def __post_init__(self) -> None:
        check_scaling("DynamicAllocation", Knob.EXECUTORS, self.limits)
        if min(self.backlog, self.sustained, self.idle) <= 0 or self.tasks < 1:
            raise PenstockError("DynamicAllocation needs times above 0 and at least one task a batch.")

    def start(self) -> float | None:
        """No silence yet."""
        return None

    def step(self, state: float | None, observation: Observation) -> tuple[float | None, Decision]:
        """Ask for executors while tasks wait, give back idle ones."""
        here = places(observation, Knob.EXECUTORS)
        if not here:
            return state, Decision.keep("executors unknown")
        place = here[0]
        ran = _batch_seconds(place, observation)
        if ran <= 0:
            since = observation.time - observation.period if state is None else state
            quiet = observation.time - since
            if quiet >= self.idle - 1e-9 and place.planned > self.limits[0]:
                return since, Decision(
                    (Change(Knob.EXECUTORS, "", self.limits[0]),), f"executors idle for {quiet:.0f} s"
                )
            return since, Decision.keep(f"no task for {quiet:.0f} s")
        slots = max(1.0, place.capacity.observed * place.slots)
        waited = ran * max(0.0, 1.0 - slots / self.tasks)
        rounds = 0 if waited < self.backlog else 1 + floor((waited - self.backlog) / self.sustained)
        # What a batch asks for comes while it runs; the observation sees them all together.
        wanted = within(
            min(place.planned + 2.0 ** min(rounds, 30) - 1, max(place.planned, self.tasks / place.slots)),
            self.limits,
        )
        why = f"tasks waited {waited:.2g} s in a batch of {ran:.2g} s"
        if wanted <= place.planned:
            return None, Decision.keep(why)
        return None, Decision((Change(Knob.EXECUTORS, "", wanted),), f"{why}: {wanted - place.planned} more")


def _batch_seconds(place: Place, observation: Observation) -> float:
    """How long the last batch took; 0 where none ran."""
    measured = place.stage.batch_duration
    if isfinite(measured):
        return measured
    busy = place.stage.busy_time / max(place.capacity.observed, 1.0)
    return min(busy, observation.period) if busy > 0 else 0.0
