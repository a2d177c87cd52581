"""One process with one Spark session that runs preference queries and what a Spark user writes instead.

``python -m penstock_lab.benches.query_runs SPEC.json`` prints the results as JSON on its last line. Both sides are timed
alike: by Spark's own account of each micro-batch, without the first ones, in which everything is compiled.
"""

import json
import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import penstock as ps
from penstock.spark import session

#: Micro-batches that only warm up; their rows and seconds do not count.
WARM_UP = 2


def main(path: str) -> None:
    """Do all the runs of a specification."""
    spec = json.loads(Path(path).read_text())
    os.sched_setaffinity(0, range(spec["cores"]))  # inherited by the JVM and all workers
    # As many slots again as cores: resident workers keep theirs.
    slots = {
        "spark.default.parallelism": str(spec["cores"]),
        "spark.sql.shuffle.partitions": str(spec["cores"]),
    }
    spark = session(f"local[{2 * spec['cores']}]", app="penstock bench query", config=slots)
    results = [RUNS[run["kind"]](spark, run) for run in spec["runs"]]
    spark.stop()
    sys.stdout.write("\n" + json.dumps(results) + "\n")


def ours(spark: Any, run: Mapping[str, Any]) -> dict[str, Any]:
    """A preference query over the files of a folder."""
    work = _fresh(run)
    started = _query(run).start(
        _stream(spark, run), output=work / "out", checkpoint=work / "ck", available_now=True
    )
    started.await_termination()
    seen = started.journal.tables().observations
    steady = slice(WARM_UP, None)
    overhead = float(np.sum(seen["overhead_time"][steady]) / np.sum(seen["batch_seconds"][steady]))
    figures = {
        "overhead_share": overhead,
        "rows_held": float(np.mean(seen["rows_held"][steady])),
        "dropped_share": float(seen["dropped_share"][-1]),
        "event_lag": float(np.nanmean(seen["event_lag"][steady])),
        "slack": float(seen["slack"][-1]),
    }
    return _timed(started.query, run) | figures | {"output": str(work / "out")}


def by_hand(spark: Any, run: Mapping[str, Any]) -> dict[str, Any]:
    """What a Spark user writes today: collect the rows of each sliding window, then paretoset over Arrow."""
    work = _fresh(run)
    columns = [f"a{i}" for i in range(run["dims"])]
    _stream(spark, run).withWatermark("event_time", run["delay"]).createOrReplaceTempView("stream")
    grouped = spark.sql(
        f"SELECT window, collect_list(struct(row, {', '.join(columns)})) AS rows FROM stream "
        f"GROUP BY window(event_time, '{run['window']}', '{run['slide']}')"
    )

    def best(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from paretoset import paretoset

        for batch in batches:
            for bounds, rows in zip(batch.column("window"), batch.column("rows"), strict=True):
                values = rows.values
                points = np.column_stack([values.field(c).to_numpy() for c in columns])
                kept = pa.array(np.flatnonzero(paretoset(points, distinct=False)))
                chosen = values.take(kept)
                start = pa.array([bounds["start"].as_py()] * len(kept), pa.timestamp("us", "UTC"))
                yield pa.RecordBatch.from_arrays(
                    [start, chosen.field("row"), *(chosen.field(c) for c in columns)],
                    names=["window_start", "row", *columns],
                )

    schema = "window_start timestamp, row long, " + ", ".join(f"{c} double" for c in columns)
    writer = grouped.mapInArrow(best, schema).writeStream.format("parquet").outputMode("append")
    query = (
        writer.option("checkpointLocation", str(work / "ck"))
        .trigger(availableNow=True)
        .start(str(work / "out"))
    )
    query.awaitTermination()
    return _timed(query, run) | {"output": str(work / "out")}


def live(spark: Any, run: Mapping[str, Any]) -> dict[str, Any]:
    """A query over a generated stream in real time: latencies on the clock."""
    work = _fresh(run)
    options = {"model": "map2", "realtime": "true", **{k: str(v) for k, v in run["traffic"].items()}}
    frame = spark.readStream.format("penstock-traffic").options(**options).load()
    started = _query(run).start(
        frame, output=work / "out", checkpoint=work / "ck", trigger="500 milliseconds"
    )
    started.await_termination(timeout=run["seconds"])
    started.stop()
    if run.get("warm_up"):
        return {}
    tables = started.journal.tables()
    panes, seen = tables.stage("panes"), tables.observations
    late = seen["time"] > 8.0  # the first seconds are Spark's warming up
    return {
        "pane_latency": float(np.nanmean(panes["latency_mean"][late])),
        "closing_lag": float(np.nanmean(panes["closing_lag"][late])),
        "window_latency": float(np.nanmean(seen["latency_mean"][late])),
        "rows_held": float(np.nanmean(panes["tuples_out"][late])),
        "batch_seconds": float(np.nanmean(seen["batch_seconds"][late])),
        "dropped_share": float(seen["dropped_share"][-1]),
    }


def _query(run: Mapping[str, Any]) -> ps.PreferenceQuery:
    return ps.PreferenceQuery(
        ps.skyline_of(*(ps.minimize(f"a{i}") for i in range(run["dims"]))),
        time="event_time",
        window=run["window"],
        slide=run["slide"],
        disorder=_disorder(run),
        window_strategy=run.get("windows", "SHARED"),
        splitting=run.get("splitting", "AS_PID"),
        pane_workers=run.get("workers", 2),
        window_workers=run.get("workers", 2),
    )


def _disorder(run: Mapping[str, Any]) -> Any:
    if "drop" in run:
        return ps.AdaptiveSlack(drop=run["drop"])
    slack = ps.FixedDelay(run["delay"]) if run.get("delay") else ps.KSlack()
    return ps.InOrder(slack) if run.get("in_order") else slack


def _stream(spark: Any, run: Mapping[str, Any]) -> Any:
    schema = spark.read.parquet(run["folder"]).schema
    files = run.get("files_per_batch", 1)
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", files).parquet(run["folder"])


def _fresh(run: Mapping[str, Any]) -> Path:
    work = Path(run["work"])
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    return work


def _timed(query: Any, run: Mapping[str, Any]) -> dict[str, Any]:
    """Rows and seconds of all micro-batches with rows after the warm-up, as Spark counts them."""
    batches = [json.loads(p.json) for p in query.recentProgress]
    filled = [b for b in batches if b["numInputRows"] > 0][WARM_UP:]
    numbers = {b["batchId"] for b in filled}
    last = max(numbers, default=-1)
    # Batches without rows after the first counted one only give out windows; their time counts too.
    timed = [b for b in batches if b["batchId"] in numbers or (b["batchId"] > last and not b["numInputRows"])]
    seconds = sum(b["durationMs"]["triggerExecution"] for b in timed) / 1e3
    stream = len(filled) * run.get("files_per_batch", 1)
    rows = sum(b["numInputRows"] for b in filled)
    return {
        "rows": rows,
        "seconds": seconds,
        "stream_seconds": stream,
        "load": seconds / stream if stream else float("nan"),
        "rows_per_second": rows / seconds if seconds else float("nan"),
    }


RUNS = {"ours": ours, "by_hand": by_hand, "live": live}

if __name__ == "__main__":
    os.environ.setdefault("NUMBA_NUM_THREADS", "1")
    main(sys.argv[1])
