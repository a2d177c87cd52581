"""The resident workers of one run, from the driver's side: started and ended one by one, replaced when they die.

A worker is one Spark job with one task that does not end. Three numbers are told apart:

    planned     how many the run wants now
    requested   how many Spark was asked for and has not yet given: their jobs are submitted, no worker is connected
    observed    how many are connected and take part in batches

A worker that dies (killed, its executor lost) shows at once as the end of its connection. Spark runs the task again by
itself on a cluster; where the job failed for good it is submitted anew. Whoever connects with the secret and a number
that is wanted is taken in.
"""

import contextlib
import io
import pickle
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakSet

from pyspark import InheritableThread, cloudpickle
from pyspark.sql import SparkSession

from penstock.core.errors import PenstockError
from penstock.spark.runtime.channel import Channel, Frame, PeerLostError, pickled
from penstock.spark.runtime.door import Door
from penstock.spark.runtime.orders import Abort, Drop, Hello, Keep, Leave, Members, StageWork
from penstock.spark.runtime.resident import PickledWork, serve

#: Objects that workers keep between jobs (readers, wirings), at most.
KEPT_OBJECTS = 32
#: Seconds after which a worker that failed is asked for again; doubled with each failure in a row.
RETRY = 0.1
LONGEST_RETRY = 10.0


class WorkerLostError(PenstockError):
    """A worker died during a job; the batch can be run again from the committed state."""


@dataclass
class Connected:
    """A worker that takes part."""

    hello: Hello
    channel: Channel


#: The workers of all runs of this process, which share the slots of one Spark application.
_ON_SPARK: WeakSet["Workers"] = WeakSet()
_LISTED = threading.Lock()

#: Runs the task of a worker somewhere and returns when it has ended; raises where it was killed.
WorkerLaunch = Callable[["WorkerTask"], None]


class Workers:
    """See the module's text. ``changed`` is notified when a worker comes or goes."""

    def __init__(
        self,
        launch: WorkerLaunch,
        host: str = "127.0.0.1",
        bind: str | None = None,
        notify: Callable[[str], None] | None = None,
        thread: type[threading.Thread] = threading.Thread,
    ) -> None:
        self._launch, self._thread = launch, thread
        self.notify = notify or (lambda text: None)
        self._secret = secrets.token_bytes(32)
        self._door = Door(bind or host, self._secret, self._serve, self.notify)
        self._address = (host, self._door.address[1])
        self.changed = threading.Condition()
        self._planned: set[int] = set()
        self._submitted: set[int] = set()
        self._connected: dict[int, Connected] = {}
        self._closed = False
        self._sink: Callable[[int, Frame], None] = lambda worker, frame: None
        self._lost: Callable[[int], None] = lambda worker: None
        self._keeping = _Keeping()
        self._suppliers: dict[int, threading.Thread] = {}
        self._door.open()

    @property
    def planned(self) -> int:
        """Workers wanted."""
        return len(self._planned)

    @property
    def observed(self) -> int:
        """Workers connected and wanted."""
        return len(self.members())

    @property
    def launched(self) -> int:
        """Workers whose task has been submitted and has not ended: those that have a slot or wait for one."""
        with self.changed:
            return len(self._submitted)

    @property
    def requested(self) -> int:
        """Workers asked for that have not come yet."""
        with self.changed:
            return len(self._planned - set(self._connected))

    def members(self) -> dict[int, Hello]:
        """The workers that take part now."""
        with self.changed:
            return {n: c.hello for n, c in sorted(self._connected.items()) if n in self._planned}

    def receiver(self, sink: Callable[[int, Frame], None], lost: Callable[[int], None]) -> None:
        """Say who takes what workers send, and who is told when one is lost."""
        self._sink, self._lost = sink, lost

    def plan(self, count: int) -> None:
        """Want so many workers: more are asked for, surplus ones leave (the last ones first) between two jobs."""
        if count < 1:
            raise PenstockError(f"A run needs at least one worker, not {count}.")
        with self.changed:
            if self._closed:
                return
            before, self._planned = self._planned, set(range(count))
            # Those that leave take part in nothing more from now on, though their connection ends a little later.
            gone = [self._connected.pop(n) for n in before - self._planned if n in self._connected]
            new = sorted(self._planned - self._submitted)
            self._submitted |= set(new)
        for connected in gone:
            with contextlib.suppress(PeerLostError):
                connected.channel.send(Leave())
        for number in new:
            self._submit(number)

    def wait_for(self, count: int, seconds: float) -> int:
        """Wait until so many take part, or for so long; how many there are."""
        until = time.monotonic() + seconds
        with self.changed:
            while len(self._connected) < count and not self._closed:
                left = until - time.monotonic()
                if left <= 0:
                    break
                self.changed.wait(left)
        return self.observed

    def keep(self, value: object) -> object:
        """Have workers keep an object, so that jobs which refer to it carry its key instead."""
        return self._keeping.add(value)

    def send_work(self, members: Sequence[int], work: StageWork) -> None:
        """Send a job to several workers; kept objects go before it where a worker lacks them."""
        data = pickled(PickledWork(work.job, self._keeping.dumps(work)))
        for number in members:
            channel = self.channel(number)
            for order in self._keeping.missing(number):
                channel.send(order)
            channel.send_pickled(data)

    def channel(self, number: int) -> Channel:
        """The connection to a worker."""
        with self.changed:
            if number not in self._connected:
                raise WorkerLostError(f"Worker {number} is gone.")
            return self._connected[number].channel

    def abort(self, job: int) -> None:
        """Have all workers forget a job."""
        with self.changed:
            channels = [c.channel for c in self._connected.values()]
        for channel in channels:
            with contextlib.suppress(PeerLostError):
                channel.send(Abort(job))

    def close(self) -> None:
        """End all workers and wait until their connections are gone."""
        with self.changed:
            self._closed = True
            self._planned = set()
            channels = [c.channel for c in self._connected.values()]
            self.changed.notify_all()
        for channel in channels:
            with contextlib.suppress(PeerLostError):
                channel.send(Leave())
        until = time.monotonic() + 10.0
        with self.changed:
            while self._connected and time.monotonic() < until:
                self.changed.wait(0.5)
        for supplier in list(self._suppliers.values()):  # whoever starts next finds their slots free
            supplier.join(max(0.0, until - time.monotonic()))
        self._door.close()

    def _submit(self, number: int) -> None:
        thread = self._thread(
            target=self._supply, args=(number,), name=f"penstock-worker-{number}", daemon=True
        )
        self._suppliers[number] = thread
        thread.start()

    def _supply(self, number: int) -> None:
        """Launch a worker, again and again while it is wanted."""
        task = WorkerTask(self._address, self._secret, number)
        pause = RETRY
        while True:
            started, failure = time.monotonic(), ""
            try:
                self._launch(task)
            except Exception as error:  # noqa: BLE001 - killed, or refused by Spark; the worker is asked for again
                failure = _first_line(error)
            with self.changed:
                if self._closed or number not in self._planned:
                    self._submitted.discard(number)
                    return
            if failure:
                self.notify(f"Resident worker {number} ended ({failure}) and is asked for again.")
            pause = RETRY if time.monotonic() - started > 60.0 else min(2 * pause, LONGEST_RETRY)
            time.sleep(pause)

    def _serve(self, channel: Channel) -> None:
        try:
            hello = channel.receive().body
        except PeerLostError:
            return
        number = hello.worker
        with self.changed:
            welcome = not self._closed and number in self._planned and number not in self._connected
            if welcome:
                self._connected[number] = Connected(hello, channel)
                self._keeping.joined(number)
                self.changed.notify_all()
        if not welcome:  # a second copy, or one that is no longer wanted
            with contextlib.suppress(PeerLostError):
                channel.send(Leave())
            channel.close()
            return
        try:
            with contextlib.suppress(PeerLostError):
                while True:
                    self._sink(number, channel.receive())
        finally:  # whatever ended it: a job would wait for ever for a worker that nobody listens to
            with self.changed:
                here = self._connected.get(number)
                if here is not None and here.channel is channel:
                    del self._connected[number]
                self.changed.notify_all()
            channel.close()
            self._lost(number)

    def introduce(self, members: Sequence[int]) -> None:
        """Tell members where the others are."""
        with self.changed:
            hellos = {n: self._connected[n].hello for n in members if n in self._connected}
        order = Members({n: (h.host, h.port) for n, h in hellos.items()})
        for number in members:
            self.channel(number).send(order)


@dataclass(frozen=True)
class WorkerTask:
    """What a worker's task runs; may be pickled, and does not show its secret."""

    address: tuple[str, int]
    secret: bytes = field(repr=False)
    number: int

    def __call__(self, _rows: Any = None) -> None:
        """Be the worker until told to leave."""
        serve(self.address, self.secret, self.number)


def spark_workers(spark: SparkSession, name: str, notify: Callable[[str], None] | None = None) -> Workers:
    """Workers in tasks of Spark's: one job with one task for each."""
    context = spark.sparkContext

    def launch(task: WorkerTask) -> None:
        if getattr(context, "_jsc", None) is None:
            return  # the session has been stopped
        context.setJobGroup(f"penstock-workers-{name}", f"resident worker {task.number} of {name}")
        context.parallelize([task.number], 1).foreachPartition(task)

    conf = context.getConf()
    host = conf.get("spark.driver.host") or "127.0.0.1"
    workers = Workers(launch, host, conf.get("spark.driver.bindAddress"), notify, InheritableThread)
    with _LISTED:
        _ON_SPARK.add(workers)
    return workers


def launched_on_spark() -> int:
    """Workers of all runs that have a slot or wait for one: Spark's status may tell of a new task seconds later."""
    with _LISTED:
        everyone = list(_ON_SPARK)
    return sum(workers.launched for workers in everyone)


class _Keeping:
    """Objects that workers keep: pickled once for each worker, referred to by key afterwards."""

    def __init__(self) -> None:
        self._keys: OrderedDict[int, tuple[int, object]] = OrderedDict()
        self._next = 0
        self._has: dict[int, set[int]] = {}
        self._dropped: dict[int, list[int]] = {}

    def add(self, value: object) -> object:
        found = self._keys.get(id(value))
        if found is None:
            self._keys[id(value)] = (self._next, value)
            self._next += 1
            if len(self._keys) > KEPT_OBJECTS:
                _, (key, _) = self._keys.popitem(last=False)
                for worker, keys in self._has.items():
                    if key in keys:
                        keys.discard(key)
                        self._dropped.setdefault(worker, []).append(key)
        else:
            self._keys.move_to_end(id(value))
        return value

    def joined(self, worker: int) -> None:
        self._has[worker] = set()
        self._dropped.pop(worker, None)

    def missing(self, worker: int) -> list[object]:
        has = self._has.setdefault(worker, set())
        orders: list[object] = []
        if dropped := self._dropped.pop(worker, None):
            orders.append(Drop(tuple(dropped)))
        for key, value in self._keys.values():
            if key not in has:
                orders.append(Keep(key, pickled(value)))
                has.add(key)
        return orders

    def dumps(self, order: object) -> bytes:
        keys = {at: key for at, (key, _) in self._keys.items()}
        sink = io.BytesIO()
        pickler = _KeepingPickler(sink, keys)
        pickler.dump(order)  # type: ignore[no-untyped-call]
        return sink.getvalue()


class _KeepingPickler(cloudpickle.Pickler):
    def __init__(self, sink: io.BytesIO, keys: dict[int, int]) -> None:
        super().__init__(sink, protocol=pickle.HIGHEST_PROTOCOL)  # type: ignore[no-untyped-call]
        self._kept_keys = keys

    def persistent_id(self, value: object) -> int | None:
        return self._kept_keys.get(id(value))


def _first_line(error: Exception) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    return lines[0][:200] if lines else type(error).__name__
