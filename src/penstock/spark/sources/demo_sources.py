"""Streams to try flows on: numbers at a rate, or tables played back file by file."""

import os
import time
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema


def numbers(spark: SparkSession, rate: int, partitions: int = 2) -> DataFrame:
    """The numbers 0, 1, 2, ... in a column ``value``, so many a second: operators make rows of them."""
    stream = spark.readStream.format("rate").option("rowsPerSecond", rate).option("numPartitions", partitions)
    return stream.load().select("value")


def played(
    spark: SparkSession, tables: Iterable[pa.Table], folder: str | Path, files_a_batch: int = 1
) -> DataFrame:
    """A stream of the tables in order: each becomes a Parquet file in ``folder``, so many files a micro-batch."""
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    schema, began = None, int(time.time()) - 100_000
    for number, table in enumerate(tables):
        schema = table.schema
        path = target / f"{number:06d}.parquet"
        pq.write_table(table, path)
        # Spark takes files in the order of their times, which may be equal for files written quickly.
        os.utime(path, (began + number, began + number))
    stream = spark.readStream.schema(from_arrow_schema(schema)).option("maxFilesPerTrigger", files_a_batch)
    return stream.parquet(str(target))
