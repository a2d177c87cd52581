"""Stages that do numbered pieces of work and tell the driver about each in one small report."""

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.types import StringType, StructType

Stage = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]

_SCHEMA = StructType().add("report", StringType())


def report(told: dict[str, Any]) -> pa.RecordBatch:
    """What a task tells the driver."""
    return pa.RecordBatch.from_arrays([pa.array([json.dumps(told)])], names=["report"])


class NumberedStage(ABC):
    """A stage that does the pieces of work whose numbers come in, and tells about each."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Do the pieces, one after another."""
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield report(self.piece(number))

    @abstractmethod
    def piece(self, number: int) -> dict[str, Any]:
        """Do one piece; what it gives is told to the driver."""


def run_stage(spark: SparkSession, stage: Stage, tasks: int, most: int | None = None) -> list[dict[str, Any]]:
    """Run a stage over the numbers 0 .. tasks - 1, a number a task (or dealt to at most ``most``); gather the reports."""
    partitions = min(tasks, most) if most else tasks
    frame = spark.range(0, tasks, 1, partitions).mapInArrow(stage, _SCHEMA)
    return [json.loads(row.report) for row in frame.collect()]
