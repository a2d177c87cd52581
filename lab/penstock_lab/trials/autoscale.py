"""One trial of a way to scale: a plain query under a recorded load on a cluster, run in a process of its own.

Started by ``penstock bench autoscale`` as ``python -m penstock_lab.trials.autoscale REQUEST.json``. Rows are files that
appear while the trial runs; for each row a Python function computes for ``row_cpu`` seconds and waits ``row_wait`` seconds,
as a lookup in another service would. The sink keeps nothing.
"""

import json
import sys
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pyspark.sql import SparkSession

import penstock.spark
from penstock.core.arrays import Floats
from penstock.policies import Static
from penstock.spark.attach.autoscaler import Autoscaler
from penstock.spark.attach.query_listener import Watcher
from penstock.spark.attach.settings import Settings
from penstock.spark.cluster import LocalCluster


@dataclass(frozen=True)
class AutoscaleTrial:
    """What to run; ``method`` is a policy's name, or ``dynamic`` for Spark's own dynamic allocation."""

    master: str
    method: str
    arrivals: str  # a .npy file of arrival times in seconds, ascending
    folder: str
    target: float = 6.0
    trigger: float = 2.0
    row_cpu: float = 1e-4
    row_wait: float = 1.2e-3
    executors: tuple[int, int] = (1, 4)
    share: float = 0.5
    period: float = 2.0
    tasks: int = 12
    idle: str = "60s"  # of dynamic allocation
    nexmark: str = (
        ""  # a query of Nexmark on the rows, as bids whose price is converted by the costly function
    )


def session_for(trial: AutoscaleTrial) -> SparkSession:
    """A session with small executors; Spark's own allocation only where that is the method."""
    options = {
        **LocalCluster().session_config(),
        "spark.default.parallelism": str(trial.tasks),
        "spark.sql.files.openCostInBytes": "1",
        "spark.sql.files.minPartitionNum": str(trial.tasks),
        "spark.sql.shuffle.partitions": "2",
    }
    if trial.method == "dynamic":
        least, most = map(str, trial.executors)
        options |= {
            "spark.dynamicAllocation.enabled": "true",
            "spark.dynamicAllocation.shuffleTracking.enabled": "true",
            "spark.dynamicAllocation.minExecutors": least,
            "spark.dynamicAllocation.initialExecutors": least,
            "spark.dynamicAllocation.maxExecutors": most,
            "spark.dynamicAllocation.executorIdleTimeout": trial.idle,
        }
    return penstock.spark.session(trial.master, app=f"trial-{trial.method}", config=options)


class Feeder(threading.Thread):
    """Writes the rows that have arrived into a new file, ``per_second`` times a second; ``lines`` are their text."""

    def __init__(self, folder: Path, arrivals: Floats, per_second: float, lines: list[str]) -> None:
        super().__init__(name="feeder", daemon=True)
        self._folder, self._arrivals, self._step = folder, arrivals, 1.0 / per_second
        self._lines = lines
        self.began = 0.0

    def run(self) -> None:
        """Write in time with the arrivals."""
        self.began = time.time()
        edges = np.arange(self._step, self._arrivals[-1] + 2 * self._step, self._step)
        counts = np.searchsorted(self._arrivals, edges, side="right")
        before = 0
        for number, (edge, count) in enumerate(zip(edges, counts, strict=True)):
            time.sleep(max(0.0, self.began + edge - time.time()))
            if count > before:
                hidden = self._folder / f".{number}"
                hidden.write_text("\n".join(self._lines[before:count]) + "\n")
                hidden.rename(self._folder / f"{number:06d}.csv")
            before = int(count)


def lines_of(trial: AutoscaleTrial, arrivals: Floats) -> list[str]:
    """The rows as text: their numbers, or bids at these times."""
    if not trial.nexmark:
        return [str(number) for number in range(len(arrivals))]
    from penstock_lab.nexmark.events import generate

    bids = generate(2 * len(arrivals), rate=1.0).bids.slice(0, len(arrivals))
    columns = [bids[name].to_pylist() for name in ("auction", "bidder", "price")]
    return [f"{a},{b},{p},{at:.6f}" for a, b, p, at in zip(*columns, arrivals, strict=True)]


def start_query(spark: SparkSession, trial: AutoscaleTrial, source: Path) -> Any:
    """Files in, a costly function of each row, nothing out."""
    from pyspark.sql.functions import udf

    computing, waiting = trial.row_cpu, trial.row_wait

    @udf("long", useArrow=False)
    def costly(value: int) -> int:
        end = time.thread_time() + computing
        while time.thread_time() < end:
            pass
        time.sleep(waiting)
        return 2 * value

    if trial.nexmark:
        from penstock_lab.nexmark.spark import QUERIES

        bids = spark.readStream.schema("auction long, bidder long, price long, at double").csv(str(source))
        # A condition on what the function gives: Spark leaves out columns that nobody asks for.
        frame = QUERIES[trial.nexmark][0](bids.withColumn("price", costly("price")).where("price >= 0"))
    else:
        frame = spark.readStream.schema("id long").csv(str(source)).select(costly("id").alias("twice"))
    writer = frame.writeStream.format("noop").queryName("trial")
    checkpoint = str(Path(trial.folder) / "checkpoint")
    return (
        writer.option("checkpointLocation", checkpoint)
        .trigger(processingTime=f"{round(trial.trigger * 1000)} milliseconds")
        .start()
    )


def scaler(spark: SparkSession, trial: AutoscaleTrial) -> Autoscaler:
    """The autoscaler of the method; Spark's own is only watched, under the same CPU quotas."""
    journal = Path(trial.folder) / "journal.jsonl"
    own = trial.method == "dynamic"
    settings = Settings(
        executors=None if own else trial.executors, cpu=trial.share, target=trial.target, period=trial.period
    )
    policy = Static(name="dynamic allocation") if own else trial.method
    return Autoscaler(spark, lambda id_, name: True, settings, policy, journal=journal)


def main() -> None:
    """Run the trial of the request and write ``result.npz`` beside it."""
    request = Path(sys.argv[1])
    asked = json.loads(request.read_text())
    trial = AutoscaleTrial(**{**asked, "executors": tuple(asked["executors"])})
    arrivals = np.load(trial.arrivals)
    folder = Path(trial.folder)
    source = folder / "in"
    source.mkdir()
    spark = session_for(trial)
    with penstock.spark.running(spark):
        batches = Watcher(spark, lambda id_, name: True).begin()
        query = start_query(spark, trial, source)
        handle = scaler(spark, trial).start()
        feeder = Feeder(source, arrivals, trial.tasks / trial.trigger, lines_of(trial, arrivals))
        feeder.start()
        done: list[Any] = []
        counted = 0
        give_up = time.time() + float(arrivals[-1]) + 90.0
        while counted < len(arrivals) and time.time() < give_up and query.isActive:
            time.sleep(0.5)
            for watch in batches.queries.values():
                fresh = watch.take()
                done += fresh
                counted += sum(b.rows for b in fresh)
        query.stop()
        handle.stop()
        np.savez(
            folder / "result.npz",
            began=feeder.began,
            rows=np.array([b.rows for b in done]),
            ends=np.array([b.end for b in done]),
            starts=np.array([b.start for b in done]),
            journal_began=handle._began,
            overhead=handle.overhead,
        )


def request(trial: AutoscaleTrial) -> Path:
    """Write the trial down for its process."""
    folder = Path(trial.folder)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "request.json"
    path.write_text(json.dumps(asdict(trial)))
    return path


if __name__ == "__main__":
    main()
