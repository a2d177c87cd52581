"""Live rescaling: what a change costs a running flow, against stopping, repartitioning and restarting a query.

A flow with 100,000 keys works through files, one a micro-batch, as fast as it can; between batches replicas go
2 -> 4 -> 3 -> 1 and pipelines are split and merged. The pause of a change is how much longer its batch took than the
median of the batches after it, which run under the same plan. The opponent is Spark's own aggregation with RocksDB: when the query has
ended, its state is repartitioned by Spark's checkpoint manager and the query is started again; its pause runs from
there to the end of the first batch, without a batch's usual duration.
"""

import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.bench.flow import Bench
from penstock.bench.flow_operators import finish, keep
from penstock.bench.report import Report, Table
from penstock.spark import session

KEYS, ROWS, EVERY = 100_000, 100_000, 5
STEPS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("2 -> 4 replicas", {"replicas": {"keep": 4}}),
    ("4 -> 3 replicas", {"replicas": {"keep": 3}}),
    ("3 -> 1 replicas", {"replicas": {"keep": 1}}),
    ("split into two pipelines", {"pipelines": {"keep": (0, 1)}}),
    ("merge the pipelines", {"pipelines": {"keep": (0,)}}),
)


def run(quick: bool, folder: Path) -> Report:
    """Both sides."""
    report = Report("Live rescaling", "penstock bench rescale" + (" --quick" if quick else ""))
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as scratch:
        spark = session("local[2]", app="penstock bench rescale")
        spark.conf.set("spark.sql.shuffle.partitions", "2")
        bench = Bench(spark, Path(scratch))
        rng = np.random.default_rng(3)
        batches = EVERY * (len(STEPS) + 1) + 4
        tables = [
            pa.table({"key": rng.integers(0, KEYS, ROWS), "value": rng.random(ROWS)}) for _ in range(batches)
        ]
        pauses = _ours(bench, report, tables)
        restarts = _restarts(bench, report, tables, (4, 1) if quick else (4, 3, 1))
        spark.stop()
    ratio = min(restarts) / max(max(pauses), 0.05)
    report.claim(
        "Longest pause of a live change against the shortest restart",
        ">= 10 times shorter",
        f"{max(pauses):.2f} s against {min(restarts):.1f} s: {ratio:.1f} times",
        ratio >= 10,
    )
    alike = restarts[0] / max(pauses[0], 0.05)
    report.claim("2 -> 4 against 2 -> 4", ">= 10 times shorter", f"{alike:.1f} times", alike >= 10)
    middle = float(np.median(restarts) / max(float(np.median(pauses)), 0.05))
    report.claim(
        "Median pause against the median restart", ">= 10 times shorter", f"{middle:.1f} times", middle >= 10
    )
    return report


def _ours(bench: Bench, report: Report, tables: list[pa.Table]) -> list[float]:
    from penstock.spark.flow.flow import Flow

    flow = Flow("rescale")
    flow.source("rows", bench.files("rescale", tables)).through(keep).through(finish).sink("out")
    folder = bench.folder()
    profiles: list[Any] = []
    run = flow.start(
        bench.spark,
        checkpoint=folder + "/checkpoint",
        output=folder + "/out",
        available_now=True,
        replicas={"keep": 2},
    )
    changes = dict(zip(range(EVERY + 2, 10_000, EVERY), STEPS, strict=False))

    def watch(profile: Any) -> None:
        profiles.append(profile)
        step = changes.get(profile.batch + 1)
        if step is not None:
            run.reconfigure(**step[1])

    run.listen(watch)
    run.await_termination()
    seconds = {p.batch: p.seconds for p in profiles}
    rows, pauses = [], []
    for batch, (name, _) in changes.items():
        if batch not in seconds:
            continue
        near = [seconds[b] for b in range(batch + 1, batch + EVERY) if b in seconds]
        change = next(p.change for p in profiles if p.batch == batch)
        pause = max(0.0, seconds[batch] - float(np.median(near)))
        pauses.append(pause)
        groups = sum(len(g) for g in change.moved.values())
        rows.append((name, pause, change.pause, groups, change.delayed, change.bytes / 1024))
    columns = (
        "change",
        "pause s",
        "held up by the driver s",
        "groups moved",
        "tuples of moved groups",
        "their state kB",
    )
    note = f"{KEYS:,} keys, {ROWS:,} rows a batch; the median batch took {np.median(list(seconds.values())):.2f} s."
    report.tables.append(Table("A running flow", columns, rows, note))
    return pauses


def _restarts(bench: Bench, report: Report, tables: list[pa.Table], sizes: tuple[int, ...]) -> list[float]:
    """Repartition and start again, for each number of partitions, from a query that has ended cleanly."""
    from penstock.spark.flow.rivals import native

    folder = bench.folder()
    played, step = 4, 3

    def start() -> Any:
        stream = bench.files("restart", tables[:played])
        return native(stream, ["key"], ["count(*) AS n", "sum(value) AS s"], folder)

    query = start()
    query.awaitTermination()
    rows, pauses, partitions = [], [], 2
    for wanted in sizes:
        usual = (
            float(np.median([p["durationMs"]["triggerExecution"] for p in query.recentProgress[-3:]])) / 1000
        )
        played += step
        began = time.perf_counter()
        bench.spark._streamingCheckpointManager.repartition(folder, wanted)
        moved = time.perf_counter()
        query = start()
        _first_batch(query)
        ended = time.perf_counter()
        query.awaitTermination()
        pauses.append(ended - began - usual)
        rows.append((f"{partitions} -> {wanted} partitions", pauses[-1], moved - began, ended - moved, usual))
        partitions = wanted
    columns = ("change", "pause s", "repartition s", "start to first batch s", "usual batch s")
    note = (
        "The time to stop is not counted: the query had ended by itself, as Spark's repartitioning asks for."
    )
    report.tables.append(Table("Structured Streaming: repartition and restart", columns, rows, note))
    return pauses


def _first_batch(query: Any) -> None:
    """Wait until the query has finished a batch with rows."""
    until = time.monotonic() + 120
    pause = threading.Event()
    while not any(p["numInputRows"] > 0 for p in query.recentProgress) and time.monotonic() < until:
        if query.exception() is not None:
            raise RuntimeError(f"The opponent's query ended: {query.exception()}")
        pause.wait(0.02)
