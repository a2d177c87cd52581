"""A burst that leaves a backlog in Kafka: the attached query scales up, works it off, and comes back."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import penstock as ps
from penstock.core.arrays import Floats
from penstock.core.journal import read
from penstock.core.tables import Tables
from penstock.page.document import write_report
from penstock.picture import BLUE, GREEN, RED, picture
from penstock.spark.cluster import LocalCluster
from penstock_lab.benches.kafka_runs import Setting, producer
from penstock_lab.results import ResultsPage, Table, announce

PARTITIONS = 6
EXECUTORS = (1, 3)
#: Seconds that a row waits for the answer of another service: an executor takes 10,000 rows/s, whatever the cores do.
LOOK_UP = 1e-4
#: Rows that one batch may take.
MOST = 60_000
#: Rows that may wait.
LAG = 50_000
#: Seconds of the usual load before the burst, and the longest that draining and coming back may take.
BEFORE, LONGEST = 10.0, 120.0


def drained(report: ResultsPage, setting: Setting) -> None:
    """Run it and tell the lag over time."""
    journal = setting.folder / "kafka-backlog.jsonl"
    journal.unlink(missing_ok=True)
    burst = _run(setting, journal)
    seen = read(journal)
    write_report(journal, setting.folder / "kafka-backlog.html")
    report.plots.append(_plot(setting.folder / "kafka-backlog.png", seen))
    _judge(report, setting, seen, burst)


def _run(setting: Setting, journal: Path) -> float:
    """The query under its usual load, then the burst; gives the journal's time of the burst."""
    broker, sizes = setting.broker, setting.sizes
    spec = {
        "servers": broker.servers,
        "topic": broker.create("orders", PARTITIONS),
        "partitions": PARTITIONS,
    }
    with LocalCluster(workers=2, cores=2, memory="2g") as cluster:
        config = cluster.session_config()
        spark = ps.spark.session(cluster.master, app="penstock bench kafka", config=config, kafka=True)
        with ps.spark.running(spark), producer(spec, "points", sizes.base):
            query = _query(spark, spec, setting.scratch / "ck")
            handle = ps.attach(
                query, executors=EXECUTORS, target_lag=LAG, period=2.0, journal=journal, name="orders"
            )
            _await(
                handle, _calm, time.time() + LONGEST
            )  # a standalone application begins with all it can get
            time.sleep(BEFORE)
            burst = float(handle.progress["time"])
            announce(f"a burst of {sizes.backlog} rows")
            with producer(spec, "points", sizes.backlog / 5, 5) as bursting:
                bursting.wait()
            _await_return(handle, time.time() + LONGEST)
            handle.stop()
            query.stop()
    return burst


def _query(spark: Any, spec: dict[str, Any], checkpoint: Path) -> Any:
    """A plain query as anybody may have it: a topic, a look-up for each row, somewhere to."""

    def looked_up(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            time.sleep(LOOK_UP * batch.num_rows)
            yield batch

    options = {"kafka.bootstrap.servers": spec["servers"], "subscribe": spec["topic"]}
    raw = spark.readStream.format("kafka").options(**options, maxOffsetsPerTrigger=MOST).load()
    rows = raw.selectExpr("string(value) AS value").mapInArrow(looked_up, "value string")
    writer = rows.writeStream.format("noop").option("checkpointLocation", str(checkpoint)).queryName("orders")
    return writer.trigger(processingTime="2 seconds").start()


def _await_return(handle: Any, give_up: float) -> None:
    """Wait until the backlog was there, is gone, and the executors are as few as before."""
    _await(handle, lambda seen: _waiting(seen) > LAG and seen["executors"] > EXECUTORS[0], give_up)
    _await(handle, _calm, give_up)
    time.sleep(10.0)  # the picture shows that it stays so


def _await(handle: Any, condition: Callable[[dict[str, Any]], bool], give_up: float) -> None:
    while time.time() < give_up and not condition(handle.progress):
        time.sleep(0.5)


def _calm(seen: dict[str, Any]) -> bool:
    """Whether little waits and executors are as few as may be."""
    return bool(seen.get("queries")) and _waiting(seen) <= LAG and seen["executors"] == EXECUTORS[0]


def _waiting(seen: dict[str, Any]) -> float:
    return float(sum(query["backlog"] for query in seen["queries"].values()))


def _judge(report: ResultsPage, setting: Setting, seen: Tables, burst: float) -> None:
    times, waiting, held = _course(seen)
    above = times[waiting > LAG]
    peak, most = float(waiting[times >= burst].max()), int(held.max())
    over = above[above >= burst]
    drained_after = float(over[-1] - burst) if len(over) else 0.0
    back = times[(times > burst + drained_after) & (held <= EXECUTORS[0])]
    row = (
        setting.sizes.backlog,
        peak,
        int(held[times < burst][-1]),
        most,
        drained_after,
        setting.sizes.backlog / (1 / LOOK_UP - setting.sizes.base),
        float(back[0] - burst) if len(back) else "-",
        int(held[-1]),
    )
    columns = (
        "rows of the burst",
        "most rows waiting",
        "executors before",
        "executors at most",
        "s until at most 50,000 wait",
        "s with one executor (computed)",
        "s until one executor again",
        "executors at the end",
    )
    note = (
        f"A plain query from {PARTITIONS} partitions at {setting.sizes.base:,} rows/s, with a look-up of 0.1 ms for each row (a wait, so that "
        f"executors add up on two cores), attached with executors={EXECUTORS}, target_lag={LAG}, on a standalone cluster of real processes. "
        "Rows waiting are those that the last batch left, by Kafka's offsets, and those reckoned to have come since, in a long batch right after the burst at the burst's rate: too many there."
    )
    report.tables.append(Table("A backlog", columns, [row], note))
    report.claim(
        "the burst leaves a backlog",
        f"at least {0.8 * setting.sizes.backlog:,.0f} rows",
        f"{peak:,.0f}",
        peak >= 0.8 * setting.sizes.backlog,
    )
    report.claim("the query scales up", "more executors", f"{row[2]} to {most}", most > row[2])
    gone = waiting[-1] <= LAG
    report.claim("the backlog is worked off", f"at most {LAG:,} rows wait", f"{waiting[-1]:,.0f}", bool(gone))
    report.claim("it comes back", f"{EXECUTORS[0]} executor", f"{row[7]}", row[7] == EXECUTORS[0])


def _course(seen: Tables) -> tuple[Floats, Floats, Floats]:
    """Times, rows waiting and executors, from the first batch on."""
    rows = seen.stage("orders")
    waiting = np.nan_to_num(np.asarray(rows["backlog"], dtype=float))
    held = np.interp(rows["time"], seen.observations["time"], seen.observations["registered"])
    return np.asarray(rows["time"], dtype=float), waiting, held


def _plot(path: Path, seen: Tables) -> Path:
    times, waiting, held = _course(seen)
    with picture(path, 2, 1, size=(9.0, 4.6), sharex=True) as (top, bottom):
        top.fill_between(times, waiting, color=BLUE, alpha=0.4, step="post")
        top.axhline(LAG, color=RED, ls="--", lw=1)
        top.set_ylabel("rows waiting")
        bottom.step(times, held, color=GREEN, where="post")
        bottom.set_ylabel("executors")
        bottom.set_ylim(0, EXECUTORS[1] + 0.6)
        bottom.set_xlabel("seconds")
    return path
