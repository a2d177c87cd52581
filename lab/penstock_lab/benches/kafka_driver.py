"""A driver of ``penstock bench kafka``: ``python -m penstock_lab.benches.kafka_driver SPEC.json``; figures as JSON on its last line."""

import json
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import penstock as ps
from penstock.dataflow import running_count
from penstock.spark import DeltaTable, KafkaTopic, session
from penstock_lab.benches.kafka_producer import DIMS

COLUMNS = [f"a{i}" for i in range(DIMS)]
SCHEMA = "at timestamp, " + ", ".join(f"{c} double" for c in COLUMNS)


def main(path: str) -> None:
    """Do what a specification says."""
    spec = json.loads(Path(path).read_text())
    spark = session("local[4]", app="penstock bench kafka", kafka=spec["kind"] == "by hand")
    figures = {"skyline": skyline, "count": count, "by hand": by_hand}[spec["kind"]](spark, spec)
    sys.stdout.write("\n" + json.dumps(figures) + "\n")
    sys.stdout.flush()
    spark.stop()


def skyline(spark: Any, spec: Mapping[str, Any]) -> dict[str, Any]:
    """The skyline of every second, to a topic."""
    query = ps.PreferenceQuery(
        ps.skyline_of(*map(ps.minimize, COLUMNS)),
        time="at",
        window="1 second",
        disorder=ps.FixedDelay("500 milliseconds"),
    )
    run = query.start(
        _source(spark, spec, SCHEMA),
        output=KafkaTopic(spec["servers"], spec["answers"]),
        checkpoint=f"{spec['work']}/ck",
        engine="resident",
        trigger="250 milliseconds",
        available_now=spec.get("drain", False),
    )
    return _watched(run, spec)


@ps.operator(keys="word", state={"n": "int64"}, output={"word": str, "n": "int64"})
def counted(rows: Any, state: Any, output: Any) -> None:
    """The count of a word each time it comes."""
    output.emit({"word": rows.column("word"), "n": running_count(rows.slots, state["n"])})


def count(spark: Any, spec: Mapping[str, Any]) -> dict[str, Any]:
    """Running counts of words, to a topic and to a Delta table."""
    flow = ps.Flow("words")
    words = flow.source("words", _source(spark, spec, "at timestamp, word string")).through(counted)
    words.sink("topic", KafkaTopic(spec["servers"], spec["answers"], key="word"))
    words.sink("table", DeltaTable(f"{spec['work']}/table"))
    run = flow.start(
        spark,
        checkpoint=f"{spec['work']}/ck",
        engine="resident",
        trigger="1 second",
        replicas={"counted": 2},
    )
    return _watched(run, spec)


def by_hand(spark: Any, spec: Mapping[str, Any]) -> dict[str, Any]:
    """What a Spark user writes today: Spark's Kafka source, windows of collected rows, paretoset over Arrow, Spark's Kafka sink."""
    from paretoset import paretoset

    def best(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for rows in batch.column("rows"):
                points = np.column_stack([rows.values.field(c).to_numpy() for c in COLUMNS])
                chosen = points[paretoset(points, distinct=False)]
                yield pa.RecordBatch.from_pydict({"value": [json.dumps(row) for row in chosen.tolist()]})

    options = {"kafka.bootstrap.servers": spec["servers"], "subscribe": spec["topic"]}
    raw = spark.readStream.format("kafka").options(**options, startingOffsets=spec["start"]).load()
    raw.createOrReplaceTempView("raw")
    spark.sql(f"SELECT j.* FROM (SELECT from_json(string(value), '{SCHEMA}') AS j FROM raw)").withWatermark(
        "at", "500 milliseconds"
    ).createOrReplaceTempView("rows")
    grouped = spark.sql(
        f"SELECT window, collect_list(struct({', '.join(COLUMNS)})) AS rows FROM rows GROUP BY window(at, '1 second')"
    )
    query = (
        grouped.mapInArrow(best, "value string")
        .writeStream.format("kafka")
        .options(**{"kafka.bootstrap.servers": spec["servers"], "topic": spec["answers"]})
        .option("checkpointLocation", f"{spec['work']}/ck")
        .trigger(processingTime="1 second")
        .start()
    )
    while not _taken(query) and query.isActive:
        time.sleep(0.5)
    query.awaitTermination(spec["warm_up"])
    before = _taken(query)
    query.awaitTermination(spec["seconds"])
    after = _taken(query)
    query.stop()
    return {"rows_per_second": (after - before) / spec["seconds"]}


def _taken(query: Any) -> int:
    return sum(json.loads(p.json)["numInputRows"] for p in query.recentProgress)


def _source(spark: Any, spec: Mapping[str, Any], schema: str) -> Any:
    options = {"kafka.bootstrap.servers": spec["servers"], "subscribe": spec["topic"]}
    most = str(spec.get("most", 0))
    reader = spark.readStream.format("penstock-kafka").schema(schema).options(**options)
    return reader.options(startingOffsets=spec["start"], maxOffsetsPerTrigger=most).load()


def _watched(run: Any, spec: Mapping[str, Any]) -> dict[str, Any]:
    """Rows a second and lags after the warm-up; or, to drain a topic, nothing but the end."""
    if spec.get("drain"):
        run.await_termination()
        return {}
    seen: list[tuple[float, int, float]] = []
    started, last = 0.0, -1
    while run.is_active and (not started or time.time() - started < spec["warm_up"] + spec["seconds"]):
        now = run.progress
        if now.get("batch", -1) != last:
            started, last = started or time.time(), now["batch"]
            seen.append((time.time() - started, int(now["rows"]), float(now.get("answer_lag", np.nan))))
        time.sleep(0.02)
    run.stop()
    steady = [s for s in seen if s[0] > spec["warm_up"]]
    lags = [lag for _, _, lag in steady if lag == lag]
    return {
        "rows_per_second": sum(rows for _, rows, _ in steady) / spec["seconds"],
        "batches": len(steady),
        "p50": float(np.percentile(lags, 50)) if lags else None,
        "p95": float(np.percentile(lags, 95)) if lags else None,
    }


if __name__ == "__main__":
    main(sys.argv[1])
