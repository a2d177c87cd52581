"""Live rescaling: what a change costs a running flow, against stopping, repartitioning and restarting a query.

Both sides have 100,000 keys and work through the same files, one a micro-batch. The *pause* of a change is the same on
both: the time from the end of the last batch before it to the end of the first batch after it, less a usual batch (the
median time from end to end of the batches that follow, which run under the new layout). A flow is changed between two
batches of one run: replicas 2 -> 4 -> 3 -> 1 -> 2, pipelines split and merged. The opponent is Spark's own aggregation
with RocksDB: the query is stopped when its batch is done, its state is repartitioned by Spark's checkpoint manager, and
the query is started again.
"""

import os
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from penstock.spark import session
from penstock_lab.benches.flow_operators import finish, keep
from penstock_lab.benches.flow_runs import FlowBench
from penstock_lab.judging import judged
from penstock_lab.results import ResultsPage, Table

KEYS, ROWS, EVERY, WARM = 100_000, 100_000, 5, 7
Step = tuple[str, dict[str, Any]]
STEPS: tuple[Step, ...] = (
    ("2 -> 4 replicas", {"replicas": {"keep": 4}}),
    ("4 -> 3 replicas", {"replicas": {"keep": 3}}),
    ("3 -> 1 replicas", {"replicas": {"keep": 1}}),
    ("split into two pipelines", {"pipelines": {"keep": (0, 1)}}),
    ("merge the pipelines", {"pipelines": {"keep": (0,)}}),
    ("1 -> 2 replicas", {"replicas": {"keep": 2}}),
)
#: Partitions of the opponent, which starts with two.
SIZES = (4, 3, 1, 2)
#: What cannot be told from zero: batches of one plan differ by as much.
LEAST = 0.05


def run(quick: bool, folder: Path) -> ResultsPage:
    """Both sides; a quick look has two changes and one restart."""
    report = ResultsPage(
        "Live rescaling", "penstock bench rescale" + (" --quick" if quick else ""), quick=quick
    )
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as scratch:
        spark = session("local[2]", app="penstock bench rescale")
        spark.conf.set("spark.sql.shuffle.partitions", "2")
        bench = FlowBench(spark, Path(scratch))
        rng = np.random.default_rng(3)
        tables = [
            pa.table({"key": rng.integers(0, KEYS, ROWS), "value": rng.random(ROWS)}) for _ in range(12)
        ]
        pauses = _ours(bench, report, tables, STEPS[:2] if quick else STEPS, 1 if quick else 3)
        restarts = _restarts(bench, report, tables, SIZES[:1] if quick else SIZES * 2)
        spark.stop()
    every, shortest = [p for found in pauses.values() for p in found], min(map(min, restarts.values()))
    _claim(
        report, "The longest pause of all live changes, against the shortest restart", max(every), shortest
    )
    for name, found in pauses.items():
        ours = name.removesuffix(" replicas")
        if ours in restarts:
            _claim(
                report,
                f"{ours}: median pause, against the median restart",
                *map(_median, (found, restarts[ours])),
            )
    all_restarts = [p for found in restarts.values() for p in found]
    _claim(
        report, "The median pause of all, against the median restart", _median(every), _median(all_restarts)
    )
    return report


def _claim(report: ResultsPage, text: str, pause: float, restart: float) -> None:
    ratio = restart / max(pause, LEAST)
    measured = f"{pause:.2f} s against {restart:.2f} s: {ratio:.1f} times"
    bound = f"at least 10 times, a pause below {LEAST:g} s taken for {LEAST:g} s"
    report.claim(
        text,
        ">= 10 times shorter",
        measured + (" or more" * (pause < LEAST)),
        judged(ratio >= 10, bound),
        full=True,
    )


def _median(pauses: list[float]) -> float:
    return float(np.median(pauses))


def _ours(
    bench: FlowBench, report: ResultsPage, tables: list[pa.Table], steps: tuple[Step, ...], rounds: int
) -> dict[str, list[float]]:
    """The pauses of each kind of change, one a round."""
    from penstock.spark.flow.flow import Flow

    changes = dict(zip(range(WARM, 10_000, EVERY), steps * rounds, strict=False))
    batches = max(changes) + EVERY
    stream = bench.files("rescale", [tables[i % len(tables)] for i in range(batches)])
    flow = Flow("rescale")
    flow.source("rows", stream).through(keep).through(finish).sink("out")
    folder = bench.folder()
    profiles: list[Any] = []
    run = flow.start(
        bench.spark,
        checkpoint=folder + "/checkpoint",
        output=folder + "/out",
        available_now=True,
        replicas={"keep": 2},
    )

    def watch(profile: Any) -> None:
        profiles.append(profile)
        if profile.batch + 1 in changes:
            run.rescale(**changes[profile.batch + 1][1])

    run.listen(watch)
    run.await_termination()
    rows = _pauses(profiles, changes)
    columns = (
        "change",
        "pause s",
        "of it in the driver s",
        "usual batch s",
        "groups moved",
        "tuples of moved groups",
        "their state kB",
    )
    note = (
        f"{KEYS:,} keys, {ROWS:,} rows a batch, each change {rounds} times. A pause below zero is a first batch that was "
        "quicker than those after it. Tuples of moved groups are those that were processed elsewhere than the batch before."
    )
    report.tables.append(Table("A running flow", columns, rows, note))
    by_name: dict[str, list[float]] = {}
    for row in rows:
        by_name.setdefault(row[0], []).append(row[1])
    return by_name


def _pauses(profiles: list[Any], changes: dict[int, Step]) -> list[tuple[Any, ...]]:
    ends = {p.batch: p.started + p.seconds for p in profiles}
    taken = {b: ends[b] - ends[b - 1] for b in ends if b - 1 in ends}
    rows = []
    for batch, (name, _) in changes.items():
        usual = float(np.median([taken[b] for b in range(batch + 1, batch + EVERY)]))
        change = next(p.change for p in profiles if p.batch == batch)
        groups = sum(len(g) for g in change.moved.values())
        rows.append(
            (
                name,
                taken[batch] - usual,
                change.pause,
                usual,
                groups,
                change.delayed,
                change.bytes / 1024,
            )
        )
    return rows


class _Feed:
    """A folder that files are put into, all at once, while a query watches it."""

    def __init__(self, bench: FlowBench, tables: list[pa.Table]) -> None:
        self.folder, self._waiting = bench.scratch / "restart", bench.scratch / "waiting"
        self.folder.mkdir()
        self._waiting.mkdir()
        self._tables, self._given = tables, 0

    def give(self, files: int) -> None:
        """Let the query have more files."""
        for number in range(self._given, self._given + files):
            waiting = self._waiting / f"{number:06d}.parquet"
            pq.write_table(self._tables[number % len(self._tables)], waiting)
            os.utime(waiting, (1_000_000_000 + number, 1_000_000_000 + number))
            os.replace(waiting, self.folder / waiting.name)
        self._given += files


def _restarts(
    bench: FlowBench, report: ResultsPage, tables: list[pa.Table], sizes: tuple[int, ...]
) -> dict[str, list[float]]:
    """Stop, repartition and start again, for each number of partitions; the pauses of each kind."""
    from penstock_lab.baselines import native

    checkpoint, feed, each = bench.folder(), _Feed(bench, tables), 4
    schema = "key long, value double"

    def start() -> Any:
        stream = bench.spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
        frame = stream.parquet(str(feed.folder))
        return native(frame, ["key"], ["count(*) AS n", "sum(value) AS s"], checkpoint, available_now=False)

    feed.give(each)
    query = start()
    _batches_done(query, each)
    rows: list[tuple[Any, ...]] = []
    found: dict[str, list[float]] = {}
    partitions = 2
    for wanted in sizes:
        began = time.perf_counter()
        query.stop()
        stopped = time.perf_counter()
        bench.spark._streamingCheckpointManager.repartition(checkpoint, wanted)
        moved = time.perf_counter()
        feed.give(each)
        given = time.perf_counter()
        query = start()
        _batches_done(query, 1)
        ended = time.perf_counter()
        _batches_done(query, each)
        usual = [
            p["durationMs"]["triggerExecution"] / 1000 for p in query.recentProgress if p["numInputRows"]
        ]
        pause = ended - given + moved - began - float(np.median(usual[1:]))
        name = f"{partitions} -> {wanted}"
        rows.append(
            (name, pause, stopped - began, moved - stopped, ended - given, float(np.median(usual[1:])))
        )
        found.setdefault(name, []).append(pause)
        partitions = wanted
    query.stop()
    columns = ("partitions", "pause s", "stop s", "repartition s", "start to first batch s", "usual batch s")
    note = "The query had nothing to do when it was stopped. Putting the next files in place is not counted."
    report.tables.append(Table("Structured Streaming: stop, repartition, start", columns, rows, note))
    return found


def _batches_done(query: Any, wanted: int) -> None:
    """Wait until the query has finished so many batches with rows."""
    until = time.monotonic() + 120
    pause = threading.Event()
    while sum(p["numInputRows"] > 0 for p in query.recentProgress) < wanted and time.monotonic() < until:
        if query.exception() is not None:
            raise RuntimeError(f"The opponent's query ended: {query.exception()}")
        pause.wait(0.02)
