"""One life of a driver for ``penstock bench chaos``: ``python -m penstock_lab.benches.chaos_driver SPEC.json``.

It starts its query or flow again and again, does to it what the plan says, and tells each event on standard output.
Events at points of a batch kill this very process.
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
from penstock.testing.crashes import kill_at
from penstock_lab.benches.chaos_cases import Case, build

PATIENCE = 300.0


class Life:
    """One session, and the runs that are started in it."""

    def __init__(self, spec: dict[str, Any]) -> None:
        self.case, self.base = Case(**spec["case"]), Path(spec["base"])
        self.draw = random.Random(spec["seed"])
        self.cluster = LocalCluster(2, 2).start() if spec["cluster"] else None
        config = {"spark.sql.shuffle.partitions": "2", "spark.task.maxFailures": "8"}
        if self.cluster is not None:
            config |= self.cluster.session_config()
        master = "local[4]" if self.cluster is None else self.cluster.master
        self.spark = session(master, app="penstock bench chaos", config=config)
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
            self.run.rescale(self.draw.randint(1, 3), self.draw.randint(1, 3))
            return
        flow = ps.Flow("chaos")
        build(flow.source("rows", frame))
        self.run = flow.start(self.spark, **given)
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
        """Start, wait for a batch, and do what is to be done; False once the stream is used up."""
        self.start()
        before = self.committed
        if not self.wait(lambda: self.committed > before):
            return False
        if point:
            kill_at(f"{point}:{self.committed + 2}")
            self.wait(lambda: False)
            return False
        {"stop and start": self._stop, "worker": self._worker, "executor": self._executor}.get(
            kind, self._full
        )()
        return True

    def _stop(self) -> None:
        time.sleep(self.draw.uniform(0.0, 0.5))
        self.run.stop()

    def _worker(self) -> None:
        time.sleep(self.draw.uniform(0.0, 0.5))
        if not self.wait(lambda: bool(_kill(os.getpid(), _is_worker, self.draw))):
            return
        self._on()

    def _executor(self) -> None:
        time.sleep(self.draw.uniform(0.0, 0.5))
        self.wait(lambda: bool(_kill(os.getpid(), _is_executor, self.draw)))
        self._on()

    def _on(self) -> None:
        """Let the run go on for two batches; where Spark gave a task up it has ended, and the next start goes on."""
        before = self.committed
        self.wait(lambda: self.committed > before + 1)
        with contextlib.suppress(Exception):
            self.run.stop()

    def _full(self) -> None:
        at = self.draw.choice(["state-written", "before-commit", "outputs-gathered", "during-commit"])

        def full(name: str, _batch: int) -> None:
            if name == at:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        milestones.hooks.append(full)
        self.wait(lambda: not self.run.is_active)
        milestones.hooks.remove(full)
        with contextlib.suppress(Exception):
            self.run.await_termination()


def main(path: str) -> None:
    """Live through the plan."""
    spec = json.loads(Path(path).read_text())
    life = Life(spec)
    _tell("ready")
    for kind, point in spec["events"]:
        if point:
            _tell(kind)  # told before: nothing is said after it
        if not life.event(kind, point):
            break
        _tell(kind)
    if spec["finish"]:
        life.start(now=True)
        life.run.await_termination()
        _tell("finished")
    elif life.committed < life.case.batches - 1:
        life.start()
        _tell("driver, at any instant")
        life.wait(lambda: False)  # until it is killed
    life.spark.stop()


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
    main(sys.argv[1])
