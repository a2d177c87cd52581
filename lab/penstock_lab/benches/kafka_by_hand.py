"""What a Spark user writes today, for ``penstock bench kafka``: Spark's Kafka source and sink around Spark's own operators."""

import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa

from penstock_lab.benches.kafka_producer import DIMS

COLUMNS = [f"a{i}" for i in range(DIMS)]
SCHEMA = "at timestamp, " + ", ".join(f"{c} double" for c in COLUMNS)
WORDS = "at timestamp, word string"


def skyline(spark: Any, spec: Mapping[str, Any]) -> Any:
    """Windows of collected rows, paretoset over Arrow, to a topic."""

    def as_json(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for end, points in _best(batches):
            moment = end.isoformat()
            values = [json.dumps({"window_end": moment, "row": row}) for row in points.tolist()]
            yield pa.RecordBatch.from_pydict({"value": values})

    writer = _collected(spark, spec).mapInArrow(as_json, "value string").writeStream.format("kafka")
    topic = {"kafka.bootstrap.servers": spec["servers"], "topic": spec["answers"]}
    return _started(writer.options(**topic), spec)


def skyline_to_delta(spark: Any, spec: Mapping[str, Any]) -> Any:
    """The same, each batch written to a Delta table."""
    from deltalake import write_deltalake

    def as_rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for end, points in _best(batches):
            ends = pa.array([end] * len(points), pa.timestamp("us", "UTC"))
            yield pa.RecordBatch.from_arrays([ends, *map(pa.array, points.T)], ["window_end", *COLUMNS])

    def write(frame: Any, number: int) -> None:
        table = frame.toArrow()
        if table.num_rows:
            write_deltalake(f"{spec['work']}/table", table, mode="append")

    schema = "window_end timestamp, " + ", ".join(f"{c} double" for c in COLUMNS)
    rows = _collected(spark, spec).mapInArrow(as_rows, schema)
    return _started(rows.writeStream.foreachBatch(write), spec)


def words(spark: Any, spec: Mapping[str, Any]) -> Any:
    """Counts in update mode, each batch written to the topic and then to the Delta table."""
    from deltalake import write_deltalake

    def both(frame: Any, number: int) -> None:
        kept = frame.persist()
        to_topic = {"kafka.bootstrap.servers": spec["servers"], "topic": spec["answers"]}
        kept.selectExpr("word AS key", "to_json(struct(*)) AS value").write.format("kafka").options(
            **to_topic
        ).save()
        write_deltalake(f"{spec['work']}/table", kept.toArrow(), mode="append")
        kept.unpersist()

    _rows(spark, spec, WORDS).createOrReplaceTempView("rows")
    counts = spark.sql("SELECT word, count(*) AS n, max(at) AS at FROM rows GROUP BY word")
    return _started(counts.writeStream.outputMode("update").foreachBatch(both), spec)


def _collected(spark: Any, spec: Mapping[str, Any]) -> Any:
    """A row for each window, with all its rows."""
    _rows(spark, spec, SCHEMA).withWatermark("at", "500 milliseconds").createOrReplaceTempView("rows")
    rows = f"collect_list(struct({', '.join(COLUMNS)})) AS rows"
    return spark.sql(f"SELECT window.end AS window_end, {rows} FROM rows GROUP BY window(at, '1 second')")


def _best(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[datetime, Any]]:
    """The end and the skyline of each window."""
    from paretoset import paretoset

    for batch in batches:
        for end, rows in zip(batch.column("window_end"), batch.column("rows"), strict=True):
            points = np.column_stack([rows.values.field(c).to_numpy() for c in COLUMNS])
            yield end.as_py(), points[paretoset(points, distinct=False)]


def _rows(spark: Any, spec: Mapping[str, Any], schema: str) -> Any:
    options = {"kafka.bootstrap.servers": spec["servers"], "subscribe": spec["topic"]}
    options |= {"startingOffsets": spec["start"], "maxOffsetsPerTrigger": str(spec["most"])}
    raw = spark.readStream.format("kafka").options(**options).load()
    raw.createOrReplaceTempView("raw")
    return spark.sql(f"SELECT j.* FROM (SELECT from_json(string(value), '{schema}') AS j FROM raw)")


def _started(writer: Any, spec: Mapping[str, Any]) -> Any:
    placed = writer.option("checkpointLocation", f"{spec['work']}/ck")
    return placed.trigger(processingTime=spec["trigger"]).start()
