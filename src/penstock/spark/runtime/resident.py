"""A resident worker: a Spark task that does not end, takes jobs from the driver and exchanges rows with its peers.

One thread works. Others only receive: one reads what the driver sends, one accepts peers, one a peer reads its rows
into the inbox. So a worker that computes still takes in what others send, and two that send to each other cannot
block one another.
"""

import contextlib
import os
import pickle
import queue
import threading
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from penstock.core.errors import PenstockError
from penstock.core.grouping import places_of
from penstock.spark.runtime.channel import (
    CONTROL,
    END,
    ROWS,
    Channel,
    Frame,
    PeerLostError,
    StrangerError,
)
from penstock.spark.runtime.door import Door
from penstock.spark.runtime.orders import (
    DRIVER,
    Abort,
    Done,
    Drop,
    Failed,
    Hello,
    Keep,
    Leave,
    Members,
    StageWork,
)
from penstock.spark.runtime.source_away import SourceAwayError
from penstock.spark.runtime.task import without_spark


class AbortedError(Exception):
    """The driver gave the job up."""


class Inbox:
    """Rows that came in, by job, stage and task, and who has ended which stage."""

    def __init__(self) -> None:
        self._rows: dict[tuple[int, int], dict[int, list[pa.RecordBatch]]] = {}
        self._ended: dict[tuple[int, int], set[int]] = {}
        #: Jobs up to this one are over here: a worker does its jobs in the order of their numbers.
        self._over = -1
        #: Later jobs that the driver gave up; those beside them, in other lanes, go on.
        self._given_up: set[int] = set()
        self._news = threading.Condition()

    def put(self, frame: Frame) -> None:
        """Take a frame of rows or an end."""
        with self._news:
            if self.is_forgotten(frame.job):
                return
            at = (frame.job, frame.stage)
            if frame.kind == ROWS:
                self._rows.setdefault(at, {}).setdefault(frame.number, []).extend(frame.body)
            else:
                self._ended.setdefault(at, set()).add(frame.number)
                self._news.notify_all()

    def add(self, job: int, stage: int, task: int, batch: pa.RecordBatch) -> None:
        """Keep rows that this worker made for itself."""
        with self._news:
            self._rows.setdefault((job, stage), {}).setdefault(task, []).append(batch)

    def take(self, job: int, stage: int, senders: frozenset[int]) -> dict[int, list[pa.RecordBatch]]:
        """All rows of a stage, once all senders have ended."""
        with self._news:
            while not senders <= self._ended.get((job, stage), set()):
                if self.is_forgotten(job):
                    raise AbortedError
                self._news.wait()
            if self.is_forgotten(job):
                raise AbortedError
            return self._rows.pop((job, stage), {})

    def forget(self, job: int) -> None:
        """Drop all of a job and of those before it, which are over here."""
        with self._news:
            self._over = max(self._over, job)
            self._given_up = {other for other in self._given_up if other > self._over}
            self._drop()

    def give_up(self, job: int) -> None:
        """Drop all of one job; whoever waits for it is told."""
        with self._news:
            self._given_up.add(job)
            self._drop()

    def is_forgotten(self, job: int) -> bool:
        """Whether the job is over, or the driver gave it up."""
        return job <= self._over or job in self._given_up

    def _drop(self) -> None:
        for kept in (self._rows, self._ended):
            for at in [at for at in kept if self.is_forgotten(at[0])]:
                del kept[at]
        self._news.notify_all()


class Peers:
    """Connections to the other workers, made when they are first needed."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret
        self._addresses: dict[int, tuple[str, int]] = {}
        self._open: dict[int, Channel] = {}

    def know(self, members: Members) -> None:
        """Take new addresses; a worker that came again has another one."""
        for worker, channel in list(self._open.items()):
            if members.addresses.get(worker) != self._addresses.get(worker):
                channel.close()
                del self._open[worker]
        self._addresses = dict(members.addresses)

    def to(self, worker: int) -> Channel:
        """The connection to a peer; one that broke is made anew, since the worker at its other end may be well."""
        if worker in self._open and self._open[worker].hung_up:
            self._open.pop(worker).close()
        if worker not in self._open:
            try:
                self._open[worker] = Channel.connect(self._addresses[worker], self._secret)
            except OSError as error:
                raise PeerLostError(f"worker {worker} cannot be reached ({error})") from None
        return self._open[worker]

    def close(self) -> None:
        """Hang up on all."""
        for channel in self._open.values():
            channel.close()


@dataclass(frozen=True)
class PickledWork:
    """A job's :class:`StageWork` as bytes: what cannot be unpickled here fails that job, and not the worker."""

    job: int
    data: bytes


class _Kept:
    """An object that later orders refer to, unpickled when the first of them does."""

    def __init__(self, data: bytes) -> None:
        self._data: bytes | None = data
        self._value: Any = None

    def read(self) -> Any:
        if self._data is not None:
            self._value, self._data = pickle.loads(self._data), None
        return self._value


class Resident:
    """The worker itself."""

    def __init__(self, number: int, driver: Channel, secret: bytes) -> None:
        self._number, self._driver, self._secret = number, driver, secret
        self._inbox, self._peers = Inbox(), Peers(secret)
        self._orders: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._door = Door(driver.local_host, secret, self._take_in)
        self._kept: dict[int, _Kept] = {}

    def run(self) -> None:
        """Serve until the driver says so or is gone."""
        threading.Thread(target=self._listen, name="penstock-driver", daemon=True).start()
        host, port = self._door.open().address
        try:
            self._driver.send(Hello(self._number, os.getpid(), host, port))
            while not isinstance(order := self._orders.get(), Leave):
                self._obey(order)
        except PeerLostError:
            pass  # the driver is gone, and so is the reason to be here
        finally:
            self._close()

    def _obey(self, order: Any) -> None:
        if isinstance(order, Members):
            self._peers.know(order)
        elif isinstance(order, PickledWork):
            self._work(order)
        elif isinstance(order, Keep):
            self._kept[order.key] = _Kept(order.value)
        elif isinstance(order, Drop):
            for key in order.keys:
                self._kept.pop(key, None)

    def _work(self, order: PickledWork) -> None:
        try:
            work = _unpickled(order, self._kept)
            done = _Job(work, self._number, self._inbox, self._peers, self._driver).run()
        except AbortedError:
            return
        except PeerLostError as error:
            self._driver.send(Failed(order.job, error, peer=self._number))
            return
        except BaseException as error:  # noqa: BLE001 - whatever a stage raises ends the job, not the worker: sys.exit() too
            self._driver.send(_failure(order.job, error))
            return
        self._inbox.forget(order.job)
        self._driver.send(done)

    def _listen(self) -> None:
        try:
            with contextlib.suppress(PeerLostError):
                while True:
                    frame = self._driver.receive()
                    if frame.kind != CONTROL:
                        self._inbox.put(frame)
                    elif isinstance(frame.body, Abort):
                        self._inbox.give_up(frame.body.job)
                    else:
                        self._orders.put(frame.body)
        finally:  # whatever ended it: a worker that hears nothing more would keep its driver waiting for ever
            self._inbox.forget(2**63)
            self._orders.put(Leave())

    def _take_in(self, channel: Channel) -> None:
        with contextlib.suppress(PeerLostError):
            try:
                while True:
                    self._inbox.put(channel.receive(orders=False))  # peers give no orders
            finally:
                channel.close()

    def _close(self) -> None:
        self._peers.close()
        self._driver.close()
        self._door.close()


class _Job:
    """One job at one worker: its stages in turn, rows sent on as they are made."""

    def __init__(self, work: StageWork, number: int, inbox: Inbox, peers: Peers, driver: Channel) -> None:
        self._work, self._number = work, number
        self._inbox, self._peers, self._driver = inbox, peers, driver
        self._sent = 0

    def run(self) -> Done:
        work = self._work
        cpu, waited, busy = time.thread_time(), 0.0, []
        for stage, function in enumerate(work.functions):
            mine = work.tasks(stage, self._number)
            if not mine:
                busy.append(0.0)
                continue
            began = time.perf_counter()
            rows = self._rows_for(stage)
            started = time.perf_counter()
            waited += started - began
            for task in mine:
                if self._inbox.is_forgotten(work.job):
                    raise AbortedError
                without_spark.partition, without_spark.attempt = task, uuid.uuid4().int >> 66
                given = work.inputs.get(task) if stage == 0 else None
                batches = given() if given is not None else iter(rows.get(task, ()))
                for made in function(batches):
                    self._pass_on(stage, made)
            self._end(stage)
            busy.append(time.perf_counter() - started)
        return Done(work.job, tuple(busy), time.thread_time() - cpu, waited, self._sent)

    def _rows_for(self, stage: int) -> dict[int, list[pa.RecordBatch]]:
        if stage > 0:
            return self._inbox.take(self._work.job, stage, self._work.senders(stage))
        if self._work.from_driver:
            return self._inbox.take(self._work.job, 0, frozenset((DRIVER,)))
        return {}

    def _pass_on(self, stage: int, batch: pa.RecordBatch) -> None:
        work = self._work
        if stage + 1 == len(work.functions):
            if batch.num_rows:
                self._driver.send_rows(work.job, stage, self._number, [batch])
            return
        homes = work.homes[stage + 1]
        for task, part in by_task(batch):
            home = homes[task % len(homes)]
            if home == self._number:
                self._inbox.add(work.job, stage + 1, task % len(homes), part)
            else:
                self._sent += self._peers.to(home).send_rows(work.job, stage + 1, task % len(homes), [part])

    def _end(self, stage: int) -> None:
        work = self._work
        if stage + 1 == len(work.functions):
            return
        for home in sorted(set(work.homes[stage + 1])):
            if home == self._number:
                self._inbox.put(Frame(END, work.job, stage + 1, self._number))
            else:
                self._peers.to(home).send_end(work.job, stage + 1, self._number)


def by_task(batch: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The rows of a batch of messages by the task of the next stage that each is for (column ``worker``)."""
    column = batch.column("worker")
    if batch.num_rows == 1:
        yield column[0].as_py(), batch
        return
    for task, rows in places_of(column.to_numpy()):
        whole = len(rows) == batch.num_rows
        yield task, batch if whole else batch.take(pa.array(rows))


class _Unpickler(pickle.Unpickler):
    """Reads work that refers to kept objects."""

    def __init__(self, data: bytes, kept: dict[int, _Kept]) -> None:
        import io

        super().__init__(io.BytesIO(data))
        self._kept = kept

    def persistent_load(self, key: Any) -> Any:
        """A kept object."""
        return self._kept[key].read()


def _unpickled(order: PickledWork, kept: dict[int, _Kept]) -> StageWork:
    try:
        work: StageWork = _Unpickler(order.data, kept).load()
    except ModuleNotFoundError as error:
        raise PenstockError(
            f"The workers cannot import the module '{error.name or error}' that the run's operators or source need; ship it to them with "
            "spark-submit --py-files or spark.addArtifacts(path, pyfile=True), or install it there."
        ) from None
    return work


def _failure(job: int, error: BaseException) -> Failed:
    """The failure as the driver can unpickle it: a user's own exception class may not be known there."""
    if isinstance(error, PenstockError):
        # The driver tries a batch again whose source may come back.
        known = SourceAwayError if isinstance(error, SourceAwayError) else PenstockError
        return Failed(job, known(str(error)))
    import traceback

    trace = "".join(traceback.format_exception(error)).rstrip()
    return Failed(job, RuntimeError(f"{type(error).__name__}: {error}\n\nIn a resident worker:\n{trace}"))


def serve(address: tuple[str, int], secret: bytes, number: int) -> None:
    """Be a resident worker until told to leave: what the Spark task runs."""
    try:
        channel = Channel.connect(address, secret, timeout=60.0)
    except (OSError, StrangerError):
        return  # the run has ended before this task began
    Resident(number, channel, secret).run()
