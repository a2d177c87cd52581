"""Executors as Spark's own status shows them."""

from dataclasses import dataclass
from math import inf
from typing import Any

from pyspark.sql import SparkSession


@dataclass(frozen=True)
class RegisteredExecutor:
    """One executor as Spark's status shows it."""

    id: str
    host: str
    cores: int
    active_tasks: int
    #: Task time of finished tasks so far, in seconds.
    busy: float
    #: Cached blocks it holds.
    blocks: int
    #: When it registered, seconds since the epoch.
    added: float


def registered(spark: SparkSession) -> list[RegisteredExecutor]:
    """All executors that Spark's status shows as active, oldest first; in local mode the driver is the only one."""
    context: Any = spark.sparkContext
    listed = context._jsc.sc().statusStore().executorList(True)
    return sorted((_executor(listed.apply(i)) for i in range(listed.size())), key=lambda e: e.added)


def highest_number(spark: SparkSession) -> int:
    """The highest number of any executor so far, gone ones included; -1 where there was none."""
    context: Any = spark.sparkContext
    listed = context._jsc.sc().statusStore().executorList(False)
    names = [listed.apply(i).id() for i in range(listed.size())]
    return max((int(name) for name in names if name.isdigit()), default=-1)


def task_slots(spark: SparkSession) -> float:
    """Tasks that the application can run at the same time now; infinite where it has no executor yet."""
    everyone = registered(spark)
    workers = [e for e in everyone if e.id != "driver"]
    if not workers and not str(spark.sparkContext.master).startswith("local"):
        return inf
    return float(sum(e.cores for e in workers or everyone)) or inf


def _executor(summary: Any) -> RegisteredExecutor:
    return RegisteredExecutor(
        id=summary.id(),
        host=summary.hostPort().rpartition(":")[0],
        cores=summary.totalCores(),
        active_tasks=summary.activeTasks(),
        busy=summary.totalDuration() / 1e3,
        blocks=summary.rddBlocks(),
        added=summary.addTime().getTime() / 1e3,
    )
