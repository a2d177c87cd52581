"""A burst that leaves a backlog in Kafka: the attached query scales up, works it off, and comes back."""

import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
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
from penstock_lab.benches.kafka_driver import SentMessages, end_offsets
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
    journal = setting.kept / "kafka-backlog.jsonl"
    journal.unlink(missing_ok=True)
    burst, waiting = _run(setting, journal)
    course = course_of(waiting, read(journal), burst)
    write_report(journal, setting.kept / "kafka-backlog.html")
    if not setting.quick:
        report.plots.append(_plot(setting.kept / "kafka-backlog.png", course))
    _judge(report, setting, course)


@dataclass(frozen=True)
class Course:
    """Seconds since the burst, rows waiting and executors there."""

    times: Floats
    waiting: Floats
    held: Floats

    @property
    def since(self) -> "Course":
        """From the burst on."""
        after = self.times >= 0
        return Course(self.times[after], self.waiting[after], self.held[after])


def course_of(waiting: Sequence[tuple[float, float]], seen: Tables, burst: float) -> Course:
    """Rows waiting as they were looked at, with the executors that the journal tells for those moments."""
    moments, rows = (np.array(column, dtype=float) for column in zip(*waiting, strict=True))
    known = seen.observations["time"] + float(seen.runs["started"][0])
    # An executor is there from one observation to the next; between two numbers there is no third.
    place = np.searchsorted(known, moments, side="right") - 1
    held = np.asarray(seen.observations["registered"], dtype=float)[np.maximum(place, 0)]
    return Course(moments - burst, rows, held)


class OffsetsWaiting(threading.Thread):
    """Looks twice a second at how many rows wait: the broker's end offsets without those that the last batch committed."""

    def __init__(self, query: Any, spec: dict[str, Any]) -> None:
        super().__init__(name="offsets", daemon=True)
        self._query, self._spec = query, spec
        self._closed = threading.Event()
        self.seen: list[tuple[float, float]] = []

    def run(self) -> None:
        """Look until closed; before the first batch nothing is committed, and nothing is known."""
        sent = SentMessages(self._spec)
        while not self._closed.wait(0.5):
            last = self._query.lastProgress
            if last is not None:
                taken = end_offsets(
                    json.loads(last.json)
                )  # first, so that no row counts as taken before it came
                self.seen.append((time.time(), float(sent.so_far() - taken)))

    def close(self) -> list[tuple[float, float]]:
        """What was seen: (time, rows waiting)."""
        self._closed.set()
        self.join()
        return self.seen


def _run(setting: Setting, journal: Path) -> tuple[float, list[tuple[float, float]]]:
    """The query under its usual load, then the burst; gives the time of the burst, and rows waiting over time."""
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
            waiting = OffsetsWaiting(query, spec)
            waiting.start()
            handle = ps.attach(
                query, executors=EXECUTORS, target_lag=LAG, period=2.0, journal=journal, name="orders"
            )
            _await(
                handle, _calm, time.time() + LONGEST
            )  # a standalone application begins with all it can get
            time.sleep(BEFORE)
            burst = time.time()
            announce(f"a burst of {sizes.backlog} rows")
            with producer(spec, "points", sizes.backlog / 5, 5) as bursting:
                bursting.wait()
            _await_return(handle, time.time() + LONGEST)
            looked = waiting.close()
            handle.stop()
            query.stop()
    return burst, looked


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


def _judge(report: ResultsPage, setting: Setting, course: Course) -> None:
    before, after = float(course.held[course.times < 0][-1]), course.since
    peak, most, left = float(after.waiting.max()), float(after.held.max()), float(after.waiting[-1])
    over = after.times[after.waiting > LAG]
    drained_after = float(over[-1]) if len(over) else 0.0
    back = after.times[(after.times > drained_after) & (after.held <= EXECUTORS[0])]
    row = (
        setting.sizes.backlog,
        peak,
        int(before),
        int(most),
        drained_after,
        setting.sizes.backlog / (1 / LOOK_UP - setting.sizes.base),
        float(back[0]) if len(back) else "-",
        int(after.held[-1]),
    )
    columns = (
        "rows of the burst",
        "most rows waiting",
        "executors before",
        "executors at most",
        f"s until at most {LAG:,} wait",
        "s with one executor (computed)",
        "s until one executor again",
        "executors at the end",
    )
    note = (
        f"A plain query from {PARTITIONS} partitions at {setting.sizes.base:,} rows/s, with a look-up of 0.1 ms for each row (a wait, so that "
        f"executors add up on two cores), attached with executors={EXECUTORS}, target_lag={LAG}, on a standalone cluster of real processes. "
        "Rows waiting are the broker's end offsets without the offsets up to which batches are committed, looked at twice a second; a batch being worked on is among them. "
        "Seconds count from the beginning of the burst, which lasts 5 s."
    )
    report.tables.append(Table("A backlog", columns, [row], note))
    least = 0.8 * setting.sizes.backlog
    report.claim("the burst leaves a backlog", f"at least {least:,.0f} rows", f"{peak:,.0f}", peak >= least)
    report.claim("the query scales up", "more executors", f"{before:.0f} to {most:.0f}", most > before)
    report.claim("the backlog is worked off", f"at most {LAG:,} rows wait", f"{left:,.0f}", left <= LAG)
    report.claim("it comes back", f"{EXECUTORS[0]} executor", f"{row[7]}", row[7] == EXECUTORS[0])


def _plot(path: Path, course: Course) -> Path:
    with picture(path, 2, 1, size=(9.0, 4.6), sharex=True) as (top, bottom):
        top.fill_between(course.times, course.waiting, color=BLUE, alpha=0.4, step="post")
        top.axhline(LAG, color=RED, ls="--", lw=1)
        top.set_ylabel("rows waiting")
        bottom.step(course.times, course.held, color=GREEN, where="post")
        bottom.set_ylabel("executors")
        bottom.set_ylim(0, max(EXECUTORS[1], float(course.held.max())) + 0.6)
        bottom.set_xlabel("seconds since the burst")
    return path
