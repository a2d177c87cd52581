"""Room for workers: the slots of the application, and on a cluster the executors that are asked for where they are too few.

Executors that the application had before are never given back: they are its owner's. Those that came on request go when
the workers have no need of them any more and they are idle.
"""

import os
import time
from collections.abc import Callable, Mapping
from functools import partial
from math import ceil, inf, isfinite

from pyspark.sql import SparkSession

from penstock.core.capacity import Knob
from penstock.core.errors import PenstockError
from penstock.core.guards import Guards
from penstock.spark.actuators.executor_status import task_slots
from penstock.spark.actuators.executors import Executors
from penstock.spark.runtime.engine_choice import RESERVED, EngineChoice

#: Seconds for which executors are kept after the last moment they were needed.
KEEP = 10.0
#: Seconds between two looks at the executors.
LOOK = 0.5
#: The most workers that a policy by name may want in front of a cluster that says nothing of its size.
MOST = 64


class Room:
    """The slots that there are; nobody is asked for more.

    >>> room = Room(lambda: 4.0, "executors cannot be added in local mode")
    >>> room.refresh()
    >>> room.limit, room.limited_by
    (4.0, 'the 4 slots of the application; executors cannot be added in local mode')
    """

    def __init__(self, slots: Callable[[], float] = lambda: inf, why: str = "") -> None:
        self._count, self._why = slots, why
        self.slots = inf
        #: Slots that workers must leave to others.
        self.taken = 0.0

    def refresh(self) -> None:
        """Look how many tasks the application can run at the same time."""
        self.slots = self._count()

    @property
    def holds(self) -> float:
        """Workers that may start now; as many as anybody likes where nobody else is asked: they take turns."""
        return inf

    @property
    def requested(self) -> float:
        """Workers that may, once the executors that were asked for have come."""
        return inf

    @property
    def limit(self) -> float:
        """The most workers of a stage that make sense."""
        return max(1.0, self.slots - self.taken)

    @property
    def limited_by(self) -> str:
        """What the limit is, in words."""
        left = f", {self.taken:g} of them left to other tasks" if self.taken else ""
        return "; ".join(filter(None, [f"the {self.slots:g} slots of the application{left}", self._why]))

    @property
    def figures(self) -> Mapping[str, float]:
        """Executors planned, requested and observed, where they are asked for."""
        return {}

    def engine(self, choice: EngineChoice) -> None:
        """Resident workers leave the slots that others had taken, and one more."""
        self.refresh()
        if choice.resident:
            self.taken = max(RESERVED, self.slots - choice.most_workers) if isfinite(self.slots) else RESERVED

    def leave(self, slots: float) -> None:
        """Resident workers leave so many slots to others from now on."""
        self.taken = slots

    def want(self, workers: int) -> None:
        """Have room for so many workers, where that is possible."""


class ClusterRoom(Room):
    """Slots of executors that come and go with the workers that are wanted."""

    def __init__(
        self,
        executors: Executors,
        notify: Callable[[str], None] = lambda text: None,
        *,
        keep: float = KEEP,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__()
        self._executors, self._notify, self._keep, self._clock = executors, notify, keep, clock
        self._own = 1  # executors of the application's owner
        self._asked = False
        self._needed = self._looked = -inf
        self._given_up = ""
        self._see()

    def refresh(self) -> None:
        """The slots are looked at as workers are wanted."""

    @property
    def holds(self) -> float:
        """Workers that find a slot now."""
        return max(1.0, self.slots - self.taken)

    @property
    def requested(self) -> float:
        """Workers that will, once the executors that were asked for have come."""
        return max(1.0, self._executors.requested * self._cores - self.taken)

    @property
    def limit(self) -> float:
        """The most workers that the cluster seems to have executors for."""
        return max(1.0, self._executors.limit * self._cores - self.taken)

    @property
    def limited_by(self) -> str:
        """What the limit is, in words."""
        return f"the {self._executors.limit:g} executor(s) that the cluster has to give ({self._given_up})"

    @property
    def figures(self) -> Mapping[str, float]:
        """Executors planned, requested and observed."""
        actuator = self._executors
        return {
            "executors_planned": actuator.planned,
            "executors_requested": actuator.requested,
            "executors_observed": actuator.observed,
        }

    def want(self, workers: int) -> None:
        """Ask for executors for so many workers; give back those that are idle and were not needed for a while."""
        now, actuator = self._clock(), self._executors
        target = max(self._own, ceil((workers + self.taken) / self._cores))
        target = int(min(target, max(actuator.limit, self._own)))
        if target <= actuator.planned and now - self._looked < LOOK:
            return
        self._looked = now
        if target >= actuator.planned:
            self._needed = now
        if target > actuator.planned:
            self._asked = True
            said = actuator.set_target(target, now)
        elif self._asked and (fewer := self._dispensable(target, now)) < actuator.planned:
            said = actuator.set_target(fewer, now)
        else:
            said = actuator.advance(now)
        if said.startswith("gave up"):
            self._given_up = said
            self._notify(f"{said[0].upper()}{said[1:]}; workers stay within the slots that there are.")
        self._see()

    def _dispensable(self, target: int, now: float) -> int:
        """How many executors are left without those that are idle; what is still on its way is taken back at once."""
        self._executors.refresh()
        there = self._executors.seen
        fewer = max(target, min(self._executors.planned, len(there)))
        if now - self._needed < self._keep:
            return fewer
        return max(target, len(there) - sum(e.active_tasks == 0 for e in there))

    def _see(self) -> None:
        there = self._executors.seen
        if not self._asked:
            self._own = max(1, len(there))
        self._cores = sum(e.cores for e in there) / len(there) if there else 1.0
        self.slots = float(sum(e.cores for e in there)) or inf


def room_for_run(spark: SparkSession, asks: bool, notify: Callable[[str], None]) -> Room:
    """The room of a run; one that ``asks`` has a policy that may want more than there is."""
    slots = partial(task_slots, spark)
    if not asks:
        return Room(slots)
    try:
        # A worker that still has a task is never taken away by force.
        executors = Executors(spark, grace=inf, warm=())
    except PenstockError as error:
        why = str(error).partition(":")[0]
        return Room(slots, why[0].lower() + why[1:] if why.startswith("Executors") else why)
    return ClusterRoom(executors, notify)


def most_workers(spark: SparkSession, guards: Guards | None) -> int:
    """The most workers that a policy by name may want: what the guards or ``spark.cores.max`` say; in local mode the slots that find a core."""
    told = [b.high for b in (guards.bounds if guards else ()) if b.knob is Knob.WORKERS and isfinite(b.high)]
    if told:
        return max(1, int(max(told)))
    if str(spark.sparkContext.master).startswith("local"):
        return int(max(1, min(os.cpu_count() or 1, task_slots(spark))))
    return int(spark.sparkContext.getConf().get("spark.cores.max") or MOST)
