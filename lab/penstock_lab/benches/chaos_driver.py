"""One life of a driver for ``penstock bench chaos``: ``python -m penstock_lab.benches.chaos_driver [cluster]``.

It starts its session, waits on standard input for the file of its plan, does what the plan says to a query or flow,
and tells each event on standard output. Events at points of a batch kill this very process.
"""

import contextlib
import errno
import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import penstock as ps
from penstock.spark import LocalCluster, session
from penstock.spark.runtime import milestones
from penstock_lab.benches.chaos_cases import Case, build

PATIENCE = 300.0


class Life:
    """The runs that are started in one session."""

    def __init__(self, spark: Any, spec: dict[str, Any]) -> None:
        self.spark = spark
        self.case, self.base = Case(**spec["case"]), Path(spec["base"])
        self.draw = random.Random(spec["seed"])
        self.run: Any = None

    def start(self, now: bool = False) -> None:
        """Start the run from its checkpoint, with other numbers of workers than before."""
        schema = self.spark.read.parquet(str(self.base / "in")).schema
        # To finish, large steps will do; what is compared does not depend on the batches.
        stream = self.spark.readStream.schema(schema).option("maxFilesPerTrigger", 20 if now else 1)
        frame = stream.parquet(str(self.base / "in"))
        given: dict[str, Any] = {
            "output": self.base / "out",
            "checkpoint": self.base / "checkpoint",
            "trigger": "50 milliseconds",
            "available_now": now,
            "engine": self.case.engine,
            "gather": "1 second" if self.case.gather else None,
        }
        if self.case.kind == "query":
            self.run = self.case.query().start(frame, **given)
        else:
            flow = ps.Flow("chaos")
            build(flow.source("rows", frame))
            self.run = flow.start(self.spark, **given)
        self.rescale()

    def rescale(self) -> None:
        """Other numbers of workers."""
        if self.case.kind == "query":
            self.run.rescale(self.draw.randint(1, 3), self.draw.randint(1, 3))
            return
        replicas = {"count": self.draw.randint(1, 3), "total": self.draw.randint(1, 2)}
        self.run.rescale(replicas=replicas, overlap={"total": self.draw.random() < 0.5})

    @property
    def committed(self) -> int:
        """The last batch that is committed."""
        done = (self.base / "checkpoint" / "penstock" / "commits").glob("*.json")
        return max((int(p.stem) for p in done), default=-1)

    def wait(self, done: Callable[[], bool]) -> bool:
        """Wait for something; False if the run ended, or the stream did, before it came."""
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            if done():
                return True
            if not self.run.is_active or self.committed >= self.case.batches - 1:
                return done()
            time.sleep(0.01)
        raise TimeoutError("nothing happened for five minutes")

    def event(self, kind: str, point: str) -> bool:
        """See a batch committed and do what is to be done; False once the stream is used up."""
        if self.run is None or not self.run.is_active:
            self.start()
        else:
            self.rescale()
        before = self.committed
        if not self.wait(lambda: self.committed > before):
            return False
        if point:
            _tell(kind)  # nothing is said after it
            _hook(point, self.committed + 2, lambda: os.kill(os.getpid(), signal.SIGKILL))
            return self.wait(lambda: False)
        time.sleep(self.draw.uniform(0.0, 0.5))
        if kind == "stop and start":
            self.run.stop()
            return True
        if kind == "disk full and freed":
            return self._full()
        return self._killed(_is_worker if kind == "worker" else _is_executor)

    def _killed(self, which: Callable[[bytes, bytes], bool]) -> bool:
        """Kill a process below this one, and let the run go on for two batches.

        Where Spark gave the task up the run has ended, and the next start goes on.
        """
        if not self.wait(lambda: bool(_kill(os.getpid(), which, self.draw))):
            return False
        before = self.committed
        self.wait(lambda: self.committed > before + 1)
        return True

    def _full(self) -> bool:
        points = ["state-written", "before-commit", "during-commit"]
        at = self.draw.choice(points + (["outputs-gathered"] if self.case.gather else []))
        hook = _hook(at, 0, _no_space)
        ended = self.wait(lambda: not self.run.is_active)
        milestones.hooks.remove(hook)
        if ended:
            with contextlib.suppress(Exception):
                self.run.await_termination()
        return ended


def _hook(point: str, least: int, act: Callable[[], None]) -> Callable[[str, int], None]:
    """Act at a point of a batch, in the first one from a number on that comes to it."""

    def reached(name: str, batch: int) -> None:
        if name == point and batch >= least:
            act()

    milestones.hooks.append(reached)
    return reached


def _no_space() -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def main(cluster: bool) -> None:
    """Be ready, and live through the plan that is named."""
    config = {"spark.sql.shuffle.partitions": "2", "spark.task.maxFailures": "8"}
    master = "local[4]"
    if cluster:
        local = LocalCluster(2, 2).start()
        config |= local.session_config()
        master = local.master
    spark = session(master, app="penstock bench chaos", config=config)
    named = sys.stdin.readline().strip()
    if not named:
        return  # not needed: the stream was used up before
    spec = json.loads(Path(named).read_text())
    life = Life(spark, spec)
    for kind, point in spec["events"]:
        if not life.event(kind, point):
            break
        _tell(kind)
    if spec["finish"]:
        if life.run is not None:
            life.run.stop()
        life.start(now=True)
        life.run.await_termination()
        _tell("finished")
    elif life.committed < life.case.batches - 1:
        life.start()
        _tell("driver, at any instant")
        life.wait(lambda: False)  # until it is killed
    spark.stop()


def _tell(word: str) -> None:
    print(word, flush=True)  # noqa: T201 - read by the parent


def _kill(root: int, wanted: Callable[[bytes, bytes], bool], draw: random.Random) -> int:
    """SIGKILL to one process below this one; its number, 0 where there is none."""
    found = [pid for pid, command, above in _below(root) if wanted(command, above)]
    if not found:
        return 0
    pid = draw.choice(found)
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    return pid


def _is_worker(command: bytes, above: bytes) -> bool:
    return b".daemon" in command and b".daemon" in above


def _is_executor(command: bytes, _above: bytes) -> bool:
    return b"CoarseGrainedExecutorBackend" in command


def _below(root: int) -> list[tuple[int, bytes, bytes]]:
    parents: dict[int, int] = {}
    commands: dict[int, bytes] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError, IndexError):
                commands[int(entry.name)] = (entry / "cmdline").read_bytes()
                parents[int(entry.name)] = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
    found, grown = {root}, True
    while grown:
        more = {pid for pid, parent in parents.items() if parent in found} - found
        found |= more
        grown = bool(more)
    return [(p, commands[p], commands.get(parents[p], b"")) for p in sorted(found - {root}) if p in parents]


if __name__ == "__main__":
    main("cluster" in sys.argv[1:])
