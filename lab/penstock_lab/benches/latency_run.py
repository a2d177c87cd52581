"""One run of ``penstock bench latency`` in a process of its own: ``python -m ... SPEC`` prints its figures as JSON."""

import json
import multiprocessing
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import penstock as ps
from penstock.spark import session

#: Mean delay of the rows in seconds; exponential, so nearly none comes later than the slack.
DELAY = 0.02
#: Seconds of stream in a file.
FILE = 0.1


def main(text: str) -> None:
    """Run, measure, print."""
    spec = json.loads(text)
    folder = Path(spec["folder"])
    spark = session("local[4]", app="penstock bench latency", config={"spark.default.parallelism": "2"})
    seen: list[Mapping[str, Any]] = []
    writer = None
    if spec["way_in"] == "own source":
        stream = traffic(spark, spec)
    else:
        (folder / "in").mkdir()
        writer = multiprocessing.get_context("spawn").Process(
            target=write_files,
            args=(str(folder / "in"), spec["rate"], spec["dims"], spec["seconds"] + spec["warm_up"] + 60),
        )
        mark = os.environ.pop("PENSTOCK_BENCH")  # its CPU seconds are not the query's
        writer.start()
        os.environ["PENSTOCK_BENCH"] = mark
        while not list((folder / "in").glob("*.parquet")):
            time.sleep(0.1)
        schema = spark.read.parquet(str(folder / "in")).schema
        stream = spark.readStream.schema(schema).parquet(str(folder / "in"))
    run = question(spec).start(
        stream,
        output=folder / "out",
        checkpoint=folder / "ck",
        trigger=f"{spec['trigger_ms']} milliseconds",
        engine=spec["engine"],
    )
    run.listen(lambda figures: seen.append(dict(figures)))
    while not seen and run.is_active:
        time.sleep(0.1)
    time.sleep(spec["warm_up"])
    first, cpu, began = len(seen), cpu_seconds(spec["mark"]), time.time()
    time.sleep(spec["seconds"])
    last, cpu, took = len(seen), cpu_seconds(spec["mark"]) - cpu, time.time() - began
    run.stop()
    if writer is not None:
        writer.terminate()
    spark.stop()
    sys.stdout.write("\n" + json.dumps(figures_of(seen[first:last], took, cpu)) + "\n")


def figures_of(seen: list[Mapping[str, Any]], took: float, cpu: float) -> dict[str, Any]:
    """What the batches of the measured time come to; lags weigh by window, since a long batch answers many."""
    lags = np.array([f["answer_lag"] for f in seen for _ in range(f["windows"])], dtype=float)
    seconds = np.array([f["seconds"] for f in seen], dtype=float)
    return {
        "processed": sum(f["rows"] for f in seen) / took,
        "batches": len(seen) / took,
        "batch": percentiles(seconds),
        "lag": percentiles(lags[np.isfinite(lags)]),
        "fixed": percentiles(np.array([f["fixed"] for f in seen], dtype=float))[0],
        "cpu": cpu / took,
        "late": sum(f["late"] for f in seen),
        "answer": sum(f["results"] for f in seen) / max(sum(f["windows"] for f in seen), 1),
    }


def percentiles(values: Any) -> tuple[float, float]:
    """P50 and P95; nan where there is nothing."""
    return (
        (float(np.percentile(values, 50)), float(np.percentile(values, 95)))
        if len(values)
        else (np.nan, np.nan)
    )


def question(spec: Mapping[str, Any]) -> ps.PreferenceQuery:
    """The query of a cell: so many attributes, windows of a second in so many panes."""
    return ps.PreferenceQuery(
        ps.skyline_of(*[ps.minimize(f"a{i}") for i in range(spec["dims"])]),
        time="event_time",
        window="1 second",
        slide=f"{1000 // spec['panes']} milliseconds",
        disorder=ps.FixedDelay("300 milliseconds"),
        pane_workers=2,
        window_workers=2,
    )


def traffic(spark: Any, spec: Mapping[str, Any]) -> Any:
    """A generated stream in real time, read by the run itself with resident workers and by Spark with jobs."""
    options = {
        "model": "poisson",
        "rate": spec["rate"],
        "dims": spec["dims"],
        "delayMean": DELAY,
        "realtime": "true",
        "seconds": spec["seconds"] + spec["warm_up"] + 300,
        "seed": 1,
    }
    return (
        spark.readStream.format("penstock-traffic").options(**{k: str(v) for k, v in options.items()}).load()
    )


def write_files(folder: str, rate: int, dims: int, seconds: float) -> None:
    """Write the rows of each tenth of a second to a file, when it is over."""
    random = np.random.default_rng(1)
    began, number = time.time(), 0
    while number * FILE < seconds:
        number += 1
        time.sleep(max(0.0, began + number * FILE - time.time()))
        rows = int(rate * FILE)
        arrivals = began + (number - 1) * FILE + np.sort(random.random(rows)) * FILE
        times = arrivals - random.exponential(DELAY, rows)
        columns = {f"a{i}": random.random(rows) for i in range(dims)}
        stamps = pa.array((times * 1e6).astype(np.int64), pa.timestamp("us", "UTC"))
        path = Path(folder) / f"{number:06d}.parquet"
        pq.write_table(
            pa.table({"event_time": stamps, **columns}), path.with_suffix(".tmp"), compression="none"
        )
        path.with_suffix(".tmp").rename(path)


def cpu_seconds(mark: str) -> float:
    """CPU seconds so far of all processes that carry a mark in their environment."""
    ticks = 0
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            if mark.encode() not in (folder / "environ").read_bytes():
                continue
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has just ended
        ticks += sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main(sys.argv[1])
