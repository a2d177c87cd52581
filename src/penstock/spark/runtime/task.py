"""Which task this thread is: one of Spark's, one of a resident worker, or one of a test without either."""

import threading

from pyspark import TaskContext

#: The task at hand where it is not one of Spark's: its number within its stage, and a number no other attempt has.
without_spark = threading.local()


def partition_id() -> int:
    """The number of this task within its stage."""
    number = getattr(without_spark, "partition", None)
    if number is not None:
        return int(number)
    context = TaskContext.get()
    return 0 if context is None else context.partitionId()


def attempt_id() -> int:
    """A number that no other attempt at any task of this application has; 0 without Spark."""
    number = getattr(without_spark, "attempt", None)
    if number is not None:
        return int(number)
    context = TaskContext.get()
    return 0 if context is None else context.taskAttemptId()
