"""Kills of the runtime without Spark: every life of a run is a process of its own, which is killed or ends."""

import contextlib
import ctypes
import errno
import multiprocessing
import os
import pickle
import random
import select
import signal
import socket
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from penstock.spark.runtime import checkpoint, durable, milestones
from penstock.spark.runtime.engine import ResidentEngine
from penstock.spark.runtime.workers import Workers, WorkerTask
from penstock.testing.crashes import kill_at
from penstock.testing.flow_run import start_in_process
from penstock.testing.query_run import start_query_in_process
from penstock_lab.benches.chaos_cases import QUERY_SCHEMA, Case

#: Kind of kill -> points at which it comes; those without points come at any instant.
POINTS = {
    "driver, in a batch": ("panes-folded", "windows-written", "state-written"),
    "driver, at any instant": (),
    "during commit": ("before-commit", "during-commit", "after-commit"),
    "during compaction": ("outputs-gathered",),
    "during clean-up": ("after-publish", "during-clean-up"),
    "during recovery": ("during-recovery",),
    "disk full and freed": (),
    "stop and start": (),
    "worker": (),
}
#: Codes by which a life ends that was not killed.
DONE, STOPPED, FULL = 0, 3, 4
#: A life that takes longer hangs.
PATIENCE = 120.0

FORK = multiprocessing.get_context("fork")


@dataclass(frozen=True)
class Kill:
    """What is to happen in one life."""

    kind: str = ""
    point: str = ""
    batch: int = -1
    after: float = 0.0
    writes: int = 0


def choose(case: Case, draw: random.Random, batch: int) -> Kill:
    """A kill for a life that begins with this batch."""
    kinds = [k for k in POINTS if (k != "worker" or case.engine == "resident")]
    if not case.gather:
        kinds.remove("during compaction")
    if batch == 0:
        kinds.remove("during recovery")
    kind = draw.choice(kinds)
    points = POINTS[kind]
    if kind == "during clean-up" and batch < 2:
        points = ("after-publish",)
    if case.kind == "flow" and kind == "driver, in a batch":
        points = ("state-written",)
    point = draw.choice(points) if points else ""
    at = batch - 1 if kind == "during recovery" else batch + draw.randint(0, 1)
    return Kill(kind, point, at, draw.uniform(0.0, 0.25), draw.randint(1, 12))


@dataclass
class Outcome:
    """What became of a case: kills by kind, and what went wrong."""

    case: Case
    kills: dict[str, int]
    problems: list[str]


def run_case(case: Case, folder: Path, kills: int) -> Outcome:
    """Kill a run so often, let it finish, compare its output."""
    draw = random.Random(case.seed)
    outcome = Outcome(case, {}, [])
    while sum(outcome.kills.values()) < kills:
        batch = _next_batch(folder)
        kill = choose(case, draw, batch)
        code = _live(case, folder, kill)
        if code == DONE:
            break  # the stream was used up
        expected = {"stop and start": STOPPED, "disk full and freed": FULL, "worker": STOPPED}
        if code != expected.get(kill.kind, -signal.SIGKILL):
            outcome.problems.append(f"after a kill {kill} a life ended with {code}: {_said(folder)}")
            break
        outcome.kills[kill.kind] = outcome.kills.get(kill.kind, 0) + 1
    code = _live(case, folder, Kill())
    if code != DONE:
        outcome.problems.append(f"the last life ended with {code}: {_said(folder)}")
    outcome.problems += case.problems(folder)
    return outcome


def _next_batch(folder: Path) -> int:
    done = [int(p.stem) for p in (folder / "checkpoint" / "penstock" / "commits").glob("*.json")]
    return max(done, default=-1) + 1


def _said(folder: Path) -> str:
    path = folder / "error.txt"
    return path.read_text().strip().splitlines()[-1] if path.exists() else "nothing was said"


def _live(case: Case, folder: Path, kill: Kill) -> int:
    """One life; the code by which its process ended."""
    process = FORK.Process(target=_life, args=(case, folder, kill))
    process.start()
    if kill.kind == "driver, at any instant":
        process.join(kill.after)
    else:
        process.join(PATIENCE)
    if process.is_alive():
        process.kill()
        process.join()
    return process.exitcode or 0


def _life(case: Case, folder: Path, kill: Kill) -> None:
    _die_with_parent()
    try:
        code = _lived(case, folder, kill)
    except OSError as error:
        code = FULL if error.errno == errno.ENOSPC and kill.kind == "disk full and freed" else _failed(folder)
    except BaseException:  # noqa: BLE001 - told to the parent
        code = _failed(folder)
    os._exit(code)


def _failed(folder: Path) -> int:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "error.txt").write_text(traceback.format_exc())
    return 1


def _lived(case: Case, folder: Path, kill: Kill) -> int:
    zygote = Zygote() if case.engine == "resident" else None
    if kill.point:
        kill_at(f"{kill.point}:{kill.batch}")
    if kill.kind == "disk full and freed":
        fill_disk(kill.writes)
    run, begin, feed = _started(case, folder)
    if zygote is not None:
        engine = ResidentEngine(Workers(zygote), 2, patience=PATIENCE)
        run.use(engine)
        engine.workers.wait_for(2, PATIENCE)
        if kill.kind == "worker":
            threading.Thread(target=_kill_workers, args=(engine, kill.after), daemon=True).start()
    draw = random.Random(case.seed * 1000 + begin)
    for number in range(begin, case.batches):
        if kill.kind in ("stop and start", "worker") and number > kill.batch + (kill.kind == "worker"):
            run.finish()
            return STOPPED
        feed(number)
        _rescale(case, run, draw)
    run.finish()
    return DONE


def _started(case: Case, folder: Path) -> tuple[Any, int, Callable[[int], None]]:
    gather = "50 milliseconds" if case.gather else None
    if case.kind == "query":
        query = start_query_in_process(case.query(), QUERY_SCHEMA, folder, gather=gather)
        return query, query.next_batch, lambda number: query.feed(case.batch(number))
    flow = start_in_process(case.graph(), folder, gather=gather)
    flow._next = flow.next_batch
    return flow, flow.next_batch, lambda number: flow.feed({"rows": case.batch(number)})


def _rescale(case: Case, run: Any, draw: random.Random) -> None:
    if case.kind == "query":
        run.rescale(draw.randint(1, 4), draw.randint(1, 4))
        return
    replicas = {"count": draw.randint(1, 4), "total": draw.randint(1, 3)}
    run.rescale(replicas=replicas, overlap={"total": draw.random() < 0.5})


def fill_disk(writes: int) -> None:
    """Let the disk be full from the so many-th write of this process on."""
    left = [writes]
    lock = threading.Lock()

    def full() -> None:
        with lock:
            left[0] -= 1
            if left[0] < 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    write, write_table, write_text = (
        durable.ChecksummedFile.write,
        pq.write_table,
        durable.write_text,
    )

    def checked_write(self: Any, data: Any) -> int:
        full()
        return write(self, data)

    def checked_table(table: Any, path: Any, **options: Any) -> None:
        full()
        write_table(table, path, **options)

    def checked_text(path: Path, text: str) -> None:
        try:
            full()
        except OSError:
            path.write_text(text[: len(text) // 2])  # what still had room
            raise
        write_text(path, text)

    durable.ChecksummedFile.write = checked_write  # type: ignore[method-assign]
    pq.write_table = checked_table
    checkpoint.write_text = checked_text  # type: ignore[attr-defined]


class Zygote:
    """A process without threads that forks resident workers: a fork of the life itself could inherit held locks."""

    def __init__(self) -> None:
        self._socket, there = socket.socketpair()
        self._lock = threading.Lock()
        if os.fork() == 0:
            self._socket.close()
            _die_with_parent()
            _fork_on_request(there)
        there.close()

    def __call__(self, task: WorkerTask) -> None:
        """Run a worker until it has ended."""
        with self._lock:
            self._socket.sendall(pickle.dumps(task))
            handle = os.pidfd_open(int(self._socket.recv(32)))
        try:
            select.select([handle], [], [])
        finally:
            os.close(handle)
        raise RuntimeError("the worker has ended")


def _fork_on_request(there: socket.socket) -> None:
    milestones.hooks.clear()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while request := there.recv(65536):
        pid = os.fork()
        if pid == 0:
            _die_with_parent()
            with contextlib.suppress(BaseException):
                pickle.loads(request)()
            os._exit(0)
        there.sendall(str(pid).encode())
    os._exit(0)


def _die_with_parent() -> None:
    """Have this process killed when the one that forked it is gone."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def _kill_workers(engine: ResidentEngine, after: float) -> None:
    draw = random.Random(after)
    for _ in range(3):
        time.sleep(after / 3)
        members = list(engine.workers.members().values())
        if members:
            with contextlib.suppress(ProcessLookupError):
                os.kill(draw.choice(members).pid, signal.SIGKILL)
