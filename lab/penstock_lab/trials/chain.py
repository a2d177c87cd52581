"""One run of MEAD's log analysis on a cluster under one policy, in a process of its own (see ``penstock bench mead``)."""

import json
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

import penstock.spark
from penstock.core.capacity import Knob
from penstock.core.controller import Controller
from penstock.core.guards import Guards
from penstock.core.journal import FileJournal
from penstock.core.policy import AnyPolicy
from penstock.policies import Mead, Static, Threshold
from penstock.policies.threshold import CPU_LEVELS
from penstock.spark.actuators.cpu_share import CpuShare
from penstock.spark.attach.query_listener import Watcher
from penstock.spark.cluster import LocalCluster
from penstock_lab.trials.chain_logs import operators
from penstock_lab.trials.chain_operators import branch, chain
from penstock_lab.trials.chain_plant import ChainPlant


@dataclass(frozen=True)
class Request:
    """What to run; ``method``: map, mg1, gig1, threshold or static."""

    master: str
    method: str
    arrivals: str  # .npy of arrival times in seconds
    lines: str  # text file of log lines, taken in turn
    folder: str
    target: float
    trigger: float = 1.0
    interval: float = 10.0  # MEAD's T_A
    patterns: int = 1500
    branched: bool = False  # parser to counter and matcher, as in MEAD's Fig. 3


def policy_of(request: Request) -> tuple[AnyPolicy, float]:
    """The policy and the seconds between its steps; the reactive one steps oftener, as in MEAD VII."""
    if request.method == "static":
        return Static(name="static maximum"), 2.0
    if request.method == "threshold":
        return Threshold(high=0.7, low=0.5, knob=Knob.CPU_SHARE, levels=CPU_LEVELS), max(
            2.0, request.interval / 3
        )
    mead = Mead(
        model=request.method,
        target=request.target,
        interval=request.interval,
        best=3,
        max_states=8,
        least=500,
    )
    return mead, 2.0


#: Lines of the first batch, which brings executors and Python workers up before the load begins.
FIRST = 200


def warm_up(
    source: Path, lines: Sequence[str], watchers: Sequence[Watcher], running: Callable[[], bool]
) -> None:
    """Wait for a first batch and let the watchers forget it: its rows are no load, and its cost no batch has again.

    Without it the rows that come while workers start are a backlog, which the run then works off instead of its load.
    """
    hidden = source / ".first"
    hidden.write_text("".join(lines[i % len(lines)] + "\n" for i in range(FIRST)))
    hidden.rename(source / "000000.log")
    came = dict.fromkeys(range(len(watchers)), 0)
    while min(came.values()) < FIRST and running():
        time.sleep(0.1)
        for number, watcher in enumerate(watchers):
            came[number] += sum(b.rows for watch in watcher.queries.values() for b in watch.take())


class ChainFeeder(threading.Thread):
    """Writes the lines that have arrived, four files a second."""

    def __init__(self, folder: Path, arrivals: Any, lines: list[str]) -> None:
        super().__init__(name="feeder", daemon=True)
        self._folder, self._arrivals, self._lines = folder, arrivals, lines
        self.began = 0.0

    def run(self) -> None:
        """Write in time with the arrivals."""
        self.began, before = time.time(), 0
        for number in range(1, int(self._arrivals[-1] * 4) + 2):
            time.sleep(max(0.0, self.began + number / 4 - time.time()))
            count = int(np.searchsorted(self._arrivals, number / 4, side="right"))
            if count > before:
                hidden = self._folder / f".{number}"
                hidden.write_text(
                    "".join(self._lines[i % len(self._lines)] + "\n" for i in range(before, count))
                )
                hidden.rename(self._folder / f"{number:06d}.log")
            before = count


def main() -> None:
    """Run the request and write ``result.npz`` beside it."""
    request = Request(**json.loads(Path(sys.argv[1]).read_text()))
    folder, arrivals = Path(request.folder), np.load(request.arrivals)
    (folder / "in").mkdir()
    lines = Path(request.lines).read_text().splitlines()
    options = {**LocalCluster().session_config(), "spark.sql.files.openCostInBytes": "134217728"}
    options |= {"spark.sql.files.minPartitionNum": "1", "spark.default.parallelism": "1"}
    options |= {
        "spark.sql.execution.arrow.maxRecordsPerBatch": "256"
    }  # operators overlap from the first rows on
    spark = penstock.spark.session(request.master, app=f"mead-{request.method}", config=options)
    chained = operators(request.patterns)
    with penstock.spark.running(spark), CpuShare() as shares:
        groups = {o.name: str(shares.group(o.name).path) for o in chained}
        uses = folder / "uses.txt"
        watcher = Watcher(spark, lambda id_, name: True).begin()
        seen = Watcher(spark, lambda id_, name: True).begin()
        lines_in = spark.readStream.text(str(folder / "in")).coalesce(1)
        if request.branched:
            writer = lines_in.writeStream.foreachBatch(lambda rows, _: branch(rows, chained, groups, uses))
        else:
            writer = chain(lines_in, chained, groups, uses).writeStream.format("noop")
        query = (
            writer.option("checkpointLocation", str(folder / "checkpoint"))
            .trigger(processingTime=f"{round(request.trigger * 1000)} milliseconds")
            .start()
        )
        warm_up(folder / "in", lines, (watcher, seen), lambda: query.isActive)
        uses.unlink(missing_ok=True)
        plant = ChainPlant(
            [o.name for o in chained], lambda: next(iter(watcher.queries.values()), None), shares, uses,
            request.trigger, branched=request.branched,
        )  # fmt: skip
        feeder = ChainFeeder(folder / "in", arrivals, lines)
        feeder.start()
        policy, period = policy_of(request)
        journal = FileJournal(folder / "journal.jsonl", {"target": request.target, "metric": "latency_mean"})
        controller = Controller(plant, policy, Guards(catch_up=None), journal, period=period).start()
        done: list[Any] = []
        give_up = time.time() + float(arrivals[-1]) + 60.0
        while sum(b.rows for b in done) < len(arrivals) and time.time() < give_up and query.isActive:
            time.sleep(0.5)
            for watch in seen.queries.values():
                done += watch.take()
        controller.stop()
        query.stop()
        np.savez(
            folder / "result.npz",
            began=feeder.began,
            loop_began=plant._start,
            rows=np.array([b.rows for b in done]),
            ends=np.array([b.end for b in done]),
        )
        journal.close()


def write(request: Request) -> Path:
    """Write the request down for its process."""
    folder = Path(request.folder)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "request.json"
    path.write_text(json.dumps(asdict(request)))
    return path


if __name__ == "__main__":
    main()
