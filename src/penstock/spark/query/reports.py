"""Stages that do numbered pieces of work and tell the driver about each in one small report."""

import json
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


def run_stage(spark: SparkSession, stage: Stage, tasks: int, most: int | None = None) -> list[dict[str, Any]]:
    """Run a stage over the numbers 0 .. tasks - 1, a number a task (or dealt to at most ``most``); gather the reports."""
    partitions = min(tasks, most) if most else tasks
    frame = spark.range(0, tasks, 1, partitions).mapInArrow(stage, _SCHEMA)
    return [json.loads(row.report) for row in frame.collect()]
