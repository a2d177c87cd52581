"""Sinks that are functions: called on the driver as Spark's ``foreachBatch`` calls its function."""

import functools
from collections.abc import Callable, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from penstock.core.stores import StorePath
from penstock.spark.runtime.locations import location, read_parquet

#: Called with (rows, batch id), perhaps again with the same rows after a crash.
SinkFunction = Callable[[DataFrame, int], object]


def read_back(spark: SparkSession, files: Sequence[str], schema: pa.Schema) -> DataFrame:
    """The rows of some Parquet files as a DataFrame that is good until the function returns.

    The schema is given, since finding it out would be a job of its own in every batch. Files of an object store are read
    here: Spark may have no way there.
    """
    places = [location(file) for file in files]
    if any(isinstance(place, StorePath) for place in places):
        rows = pa.concat_tables([read_parquet(place) for place in places]).cast(schema)
        return spark.createDataFrame(rows, _spark_schema(schema))
    return spark.read.schema(_spark_schema(schema)).parquet(*files)


@functools.lru_cache(maxsize=64)
def _spark_schema(schema: pa.Schema) -> StructType:
    return from_arrow_schema(schema, prefer_timestamp_ntz=True)
