"""What a Spark user writes today, for ``penstock bench kafka``: Spark's Kafka source and sink around Spark's own operators."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from penstock_lab.benches.kafka_producer import DIMS

COLUMNS = [f"a{i}" for i in range(DIMS)]
SCHEMA = "at timestamp, " + ", ".join(f"{c} double" for c in COLUMNS)
WORDS = "at timestamp, word string"


def skyline(spark: Any, spec: Mapping[str, Any]) -> Any:
    """Windows of collected rows, paretoset over Arrow, to a topic."""
    from paretoset import paretoset

    def best(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for end, rows in zip(batch.column("window_end"), batch.column("rows"), strict=True):
                points = np.column_stack([rows.values.field(c).to_numpy() for c in COLUMNS])
                moment = end.as_py().isoformat()
                chosen = points[paretoset(points, distinct=False)].tolist()
                values = [json.dumps({"window_end": moment, "row": row}) for row in chosen]
                yield pa.RecordBatch.from_pydict({"value": values})

    _rows(spark, spec, SCHEMA).withWatermark("at", "500 milliseconds").createOrReplaceTempView("rows")
    collected = f"collect_list(struct({', '.join(COLUMNS)})) AS rows"
    grouped = spark.sql(
        f"SELECT window.end AS window_end, {collected} FROM rows GROUP BY window(at, '1 second')"
    )
    writer = grouped.mapInArrow(best, "value string").writeStream.format("kafka")
    return _started(
        writer.options(**{"kafka.bootstrap.servers": spec["servers"], "topic": spec["answers"]}), spec
    )


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


def _rows(spark: Any, spec: Mapping[str, Any], schema: str) -> Any:
    options = {"kafka.bootstrap.servers": spec["servers"], "subscribe": spec["topic"]}
    raw = spark.readStream.format("kafka").options(**options, startingOffsets=spec["start"]).load()
    raw.createOrReplaceTempView("raw")
    return spark.sql(f"SELECT j.* FROM (SELECT from_json(string(value), '{schema}') AS j FROM raw)")


def _started(writer: Any, spec: Mapping[str, Any]) -> Any:
    placed = writer.option("checkpointLocation", f"{spec['work']}/ck")
    return placed.trigger(processingTime="1 second").start()
