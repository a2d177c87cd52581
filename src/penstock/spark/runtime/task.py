"""Which task of Spark's this code runs in."""

import threading

from pyspark import TaskContext

#: The partition at hand where tasks run without Spark (see ``penstock.testing.frames``).
without_spark = threading.local()


def partition_id() -> int:
    """Which partition this task works on."""
    context = TaskContext.get()
    return int(getattr(without_spark, "partition", 0)) if context is None else context.partitionId()


def attempt_id() -> int:
    """A number that no other attempt at any task of this application has; 0 without Spark."""
    context = TaskContext.get()
    return 0 if context is None else context.taskAttemptId()
