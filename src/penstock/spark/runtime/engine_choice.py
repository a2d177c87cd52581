"""Which engine a run gets, and why: resident workers where there is room for them on one host, Spark jobs elsewhere."""

import sys
import time
from dataclasses import dataclass
from math import inf

from pyspark.sql import SparkSession

from penstock.core.errors import unknown
from penstock.spark.actuators.executor_status import registered, task_slots
from penstock.spark.runtime.workers import launched_on_spark

AUTO, JOBS, RESIDENT = "auto", "jobs", "resident"
ENGINES = (AUTO, JOBS, RESIDENT)

#: Slots that resident workers leave free: for the source's tasks, for sinks that are functions, for whatever else the
#: application runs. A job that finds no slot waits for ever without a word.
RESERVED = 1
#: Seconds to wait for the slots of tasks that are just ending.
SETTLE = 1.0


@dataclass(frozen=True)
class EngineChoice:
    """The engine of a run, the most resident workers it may have, and the reason in words."""

    engine: str
    most_workers: int
    reason: str

    @property
    def resident(self) -> bool:
        """Whether the run has workers of its own."""
        return self.engine == RESIDENT


def check_engine(name: str) -> None:
    """Refuse an engine that is none."""
    if name not in ENGINES:
        raise unknown("engine", name, ENGINES)


def chosen_engine(asked: str, workers: int, spark: SparkSession) -> EngineChoice:
    """The engine for a run that wants so many workers."""
    if asked == JOBS:
        return EngineChoice(JOBS, 0, "asked for")
    hosts = {executor.host for executor in registered(spark) if executor.id != "driver"}
    local = str(spark.sparkContext.master).startswith("local")
    if asked == AUTO and not local and len(hosts) != 1:
        where = f"on {len(hosts)} hosts" if hosts else "not there yet"
        return EngineChoice(
            JOBS, 0, f"the executors are {where}, and resident workers are chosen on one host only"
        )
    room = _settled_room(spark, workers)
    if room < 1:
        slots = task_slots(spark)
        return EngineChoice(
            JOBS,
            0,
            f"there are no free slots for resident workers ({slots:.0f} in all, {RESERVED} of them is kept for other "
            "tasks)",
        )
    reason = "asked for" if asked == RESIDENT else f"{room} slots are free on one host"
    return EngineChoice(RESIDENT, room, reason)


def room_for_workers(spark: SparkSession) -> int:
    """How many resident workers the application has free slots for."""
    slots = task_slots(spark)
    return sys.maxsize if slots == inf else int(slots - taken_slots(spark))


def taken_slots(spark: SparkSession, own: int = 0) -> int:
    """Slots that resident workers must leave: those of tasks other than their ``own``, and one for what may come."""
    busy = max(sum(executor.active_tasks for executor in registered(spark)), launched_on_spark())
    return max(0, busy - own) + RESERVED


def _settled_room(spark: SparkSession, wanted: int) -> int:
    """The room, once tasks that are just ending have ended or some time has passed."""
    until = time.monotonic() + SETTLE
    while (room := room_for_workers(spark)) < wanted and time.monotonic() < until:
        if task_slots(spark) - RESERVED < wanted and room > 0:
            break  # it will never have more
        time.sleep(0.05)
    return room
