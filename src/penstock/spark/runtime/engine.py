"""Who carries out the stages of a batch: Spark jobs, or workers that live as long as the run.

A program hands an engine a list of stages, each a function over the Arrow batches of one task, and gets back what the
last stage gave out. Between two stages every row goes to the task of the next one that its column ``worker`` names.
Both engines do the same with the same functions, so a program does not know which one it has.
"""

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Protocol, TypeVar

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from penstock.spark.runtime.arrow_data import in_utc
from penstock.spark.runtime.channel import CONTROL, ROWS, Frame, PeerLostError
from penstock.spark.runtime.orders import DRIVER, ArrowFunction, Done, Failed, StageWork
from penstock.spark.runtime.workers import WorkerLostError, Workers
from penstock.spark.versions import to_workers

#: A batch that comes through the driver is cut into pieces of at least so many rows, and at most so many of them.
PIECE_ROWS = 4_096
MOST_PIECES = 16

#: What Spark says where the results of a job are more than the driver takes.
TOO_LARGE = "spark.driver.maxResultSize"

R = TypeVar("R")

Reading = Callable[[], Iterator[pa.RecordBatch]]


@dataclass(frozen=True)
class Stage:
    """A function over the batches of one task, the columns it gives out, and how many tasks it has.

    The first stage has a task for each partition of the rows, whatever ``tasks`` says.
    """

    function: ArrowFunction
    schema: StructType
    tasks: int = 0


@dataclass(frozen=True)
class BatchRows:
    """What the first stage works on, in one of three forms.

    ``frame``: a DataFrame. ``readings``: functions that tasks call, each giving the rows of a partition. ``numbers``: no
    rows but the numbers 0, 1, ... in a column ``id``, one for each piece of work, dealt to at most ``most`` tasks.
    """

    frame: DataFrame | None = None
    readings: Sequence[Reading] = ()
    numbers: int = 0
    most: int = 0
    schema: StructType | None = None
    #: Tells how many rows the source has beyond those of the batch, where the run reads it itself.
    left: Callable[[], float] | None = None
    #: Whether the source was told how many rows a batch may have, so that some may have been held back.
    limited: bool = False

    @property
    def tasks(self) -> int:
        """Tasks of the first stage, where the form tells."""
        return len(self.readings) or min(self.numbers, self.most or self.numbers)


@dataclass(frozen=True)
class Effort:
    """What jobs cost their workers: busy seconds by lane and worker, CPU seconds, bytes that crossed between workers.

    ``active`` is how long some job was with the workers; the rest of a batch no worker could have shortened.
    """

    lanes: Mapping[int, Mapping[int, float]] = field(default_factory=dict)
    cpu: float = 0.0
    sent: int = 0
    active: float = 0.0

    @property
    def busy(self) -> dict[int, float]:
        """Busy seconds by worker."""
        return _summed(self.lanes.values())

    def plus(self, other: "Effort", together: float) -> "Effort":
        """Both; ``together`` is the time for which they went on at the same time."""
        lanes = {
            lane: _summed([self.lanes.get(lane, {}), other.lanes.get(lane, {})])
            for lane in {*self.lanes, *other.lanes}
        }
        active = self.active + other.active - together
        return Effort(lanes, self.cpu + other.cpu, self.sent + other.sent, active)


def _summed(several: Iterable[Mapping[int, float]]) -> dict[int, float]:
    total: dict[int, float] = {}
    for one in several:
        for key, value in one.items():
            total[key] = total.get(key, 0.0) + value
    return total


@dataclass(frozen=True)
class Lane:
    """Workers of its own for a job that runs beside others: which of the lanes, and how many workers each wants."""

    number: int
    sizes: tuple[int, ...]

    def of(self, workers: Sequence[int]) -> tuple[int, ...]:
        """This lane's part of the workers; lanes share where there are fewer workers than lanes.

        >>> [Lane(i, (2, 1)).of([0, 1, 2]) for i in range(2)]
        [(0, 1), (2,)]
        >>> [Lane(i, (2, 2)).of([0, 1, 2]) for i in range(2)], [Lane(i, (5, 1)).of([0, 1]) for i in range(2)]
        ([(0, 1), (2,)], [(0,), (1,)])
        >>> [Lane(i, (1, 1, 1)).of([7, 8]) for i in range(3)]
        [(7,), (8,), (7,)]
        """
        lanes, there = len(self.sizes), len(workers)
        if there <= lanes:
            return (workers[self.number % there],)
        edges = [0]
        for lane in range(lanes):
            share = round(sum(self.sizes[: lane + 1]) / sum(self.sizes) * there)
            edges.append(min(max(share, edges[-1] + 1), there - (lanes - 1 - lane)))
        return tuple(workers[edges[self.number] : edges[self.number + 1]])


class Engine(Protocol):
    """Carries out stages."""

    @property
    def name(self) -> str:
        """``jobs`` or ``resident``."""

    def run(self, rows: BatchRows, stages: Sequence[Stage], lane: Lane | None = None) -> list[pa.RecordBatch]:
        """Run the stages on the rows, on all workers or those of a lane; what came out of the last stage."""


@dataclass
class JobsEngine:
    """Every run of stages is a Spark job, and Spark's shuffle is the exchange."""

    spark: SparkSession
    name: str = "jobs"

    def run(self, rows: BatchRows, stages: Sequence[Stage], lane: Lane | None = None) -> list[pa.RecordBatch]:
        """One Spark job; jobs that run beside each other share the slots."""
        first, *others = stages
        frame = self._frame(rows).mapInArrow(_InUtc(first.function), first.schema)
        for stage in others:
            frame = to_workers(frame, stage.tasks).mapInArrow(stage.function, stage.schema)
        batches: list[pa.RecordBatch] = frame.toArrow().to_batches()
        return batches

    def _frame(self, rows: BatchRows) -> DataFrame:
        if rows.frame is not None:
            return rows.frame
        if rows.numbers:
            return self.spark.range(0, rows.numbers, 1, rows.tasks)
        assert rows.schema is not None
        return self.spark.range(0, rows.tasks, 1, rows.tasks).mapInArrow(_ReadAll(rows.readings), rows.schema)


@dataclass
class _Running:
    """A job in work."""

    members: tuple[int, ...]
    results: list[pa.RecordBatch] = field(default_factory=list)
    done: dict[int, Done] = field(default_factory=dict)
    failure: BaseException | None = None
    over: threading.Event = field(default_factory=threading.Event)


class ResidentEngine:
    """Jobs go to resident workers, which exchange rows among themselves."""

    name = "resident"

    def __init__(self, workers: Workers, count: int, patience: float = 30.0) -> None:
        self.workers = workers
        self._patience = patience
        self._jobs: dict[int, _Running] = {}
        self._next = 0
        self._introduced: tuple[tuple[int, int], ...] = ()
        self._order = threading.Lock()
        self._effort, self._noted = Effort(), 0.0
        workers.receiver(self._arrived, self._lost)
        workers.plan(count)

    def run(self, rows: BatchRows, stages: Sequence[Stage], lane: Lane | None = None) -> list[pa.RecordBatch]:
        """One job on the workers that are there; rows that the driver cannot hold go through a Spark job instead."""
        try:
            tables = _tables(rows)
        except Exception as error:
            if rows.frame is None or TOO_LARGE not in str(error):
                raise
            self.workers.notify(
                "A batch is larger than spark.driver.maxResultSize; it runs as a Spark job. To keep to resident workers, "
                "limit what the source gives a batch (maxFilesPerTrigger, maxOffsetsPerTrigger) or raise that setting."
            )
            return JobsEngine(rows.frame.sparkSession).run(rows, stages)
        everyone = self._gathered()
        members = everyone if lane is None else lane.of(everyone)
        began = time.monotonic()
        number, running = self._begin(members, rows, tables, stages)
        try:
            running.over.wait()
        finally:
            del self._jobs[number]
        if running.failure is not None:
            self.workers.abort(number)
            raise running.failure
        done = {member: running.done[member] for member in members}
        self._note(0 if lane is None else lane.number, done, began)
        return running.results

    def resize(self, workers: int) -> None:
        """Want so many workers; those that are new take part once they have come."""
        self.workers.plan(workers)

    def close(self) -> None:
        """End all workers."""
        self.workers.close()

    def take_effort(self) -> Effort:
        """What the jobs since the last call cost."""
        with self._order:
            taken, self._effort = self._effort, Effort()
        return taken

    def _note(self, lane: int, done: Mapping[int, Done], began: float) -> None:
        effort = Effort(
            {lane: {member: sum(d.busy) for member, d in done.items()}},
            sum(d.cpu for d in done.values()),
            sum(d.sent for d in done.values()),
            time.monotonic() - began,
        )
        with self._order:
            together = max(0.0, self._noted - began)  # a job in another lane was going on beside it
            self._noted = max(self._noted, time.monotonic())
            self._effort = self._effort.plus(effort, min(together, effort.active))

    def _gathered(self) -> tuple[int, ...]:
        """The workers for a job: those that are there, and at least one."""
        members = tuple(self.workers.members())
        if not members:
            self.workers.wait_for(1, self._patience)
            members = tuple(self.workers.members())
        if not members:
            raise WorkerLostError(
                f"No resident worker came within {self._patience:.0f} s: the application has no free slots; "
                "give it more cores, or start with engine='jobs'."
            )
        return members

    def _begin(
        self, members: tuple[int, ...], rows: BatchRows, tables: Sequence[pa.Table], stages: Sequence[Stage]
    ) -> tuple[int, _Running]:
        counts = [rows.tasks or len(tables), *(s.tasks for s in stages[1:])]
        homes = tuple(tuple(members[t % len(members)] for t in range(n)) for n in counts)
        inputs: dict[int, Reading] = dict(enumerate(rows.readings))
        if rows.numbers:
            inputs = {t: _Numbers(t, rows.numbers, counts[0]) for t in range(counts[0])}
        running = _Running(members)
        with self._order:  # all workers see jobs in the same order, or two jobs could wait for each other
            number, self._next = self._next, self._next + 1
            self._jobs[number] = running
            work = StageWork(
                number, tuple(s.function for s in stages), homes, inputs, from_driver=bool(tables)
            )
            try:
                hellos = self.workers.members()
                known = tuple((number, hello.port) for number, hello in hellos.items())
                if known != self._introduced:
                    self.workers.introduce(tuple(hellos))
                    self._introduced = known
                self.workers.send_work(members, work)
                if tables:
                    self._deliver(number, homes[0], tables, members)
            except (PeerLostError, WorkerLostError) as error:
                self._fail(number, WorkerLostError(f"A worker was lost as a batch began ({error})."))
        return number, running

    def _deliver(
        self, job: int, homes: Sequence[int], tables: Sequence[pa.Table], members: Sequence[int]
    ) -> None:
        for task, table in enumerate(tables):
            batches = table.to_batches()
            if batches:
                self.workers.channel(homes[task]).send_rows(job, 0, task, batches)
        for member in members:
            self.workers.channel(member).send_end(job, 0, DRIVER)

    def _arrived(self, worker: int, frame: Frame) -> None:
        if frame.kind == ROWS:
            running = self._jobs.get(frame.job)
            if running is not None:
                running.results.extend(frame.body)
        elif frame.kind == CONTROL and isinstance(frame.body, Done):
            running = self._jobs.get(frame.body.job)
            if running is not None:
                running.done[worker] = frame.body
                if len(running.done) == len(running.members):
                    running.over.set()
        elif frame.kind == CONTROL and isinstance(frame.body, Failed):
            failed = frame.body
            error: BaseException = failed.error
            if failed.peer is not None:
                error = WorkerLostError(f"Workers could not reach each other ({failed.error}).")
            self._fail(failed.job, error)

    def _lost(self, worker: int) -> None:
        self._introduced = ()
        for number, running in list(self._jobs.items()):
            if worker in running.members and worker not in running.done:
                self._fail(number, WorkerLostError(f"Resident worker {worker} was lost during a batch."))

    def _fail(self, job: int, error: BaseException) -> None:
        running = self._jobs.get(job)
        if running is not None and running.failure is None:
            running.failure = error
            running.over.set()


@dataclass(frozen=True)
class InLane:
    """An engine for those who know nothing of lanes: all their jobs go to one."""

    engine: Engine
    lane: Lane

    @property
    def name(self) -> str:
        """The engine's."""
        return self.engine.name

    def run(self, rows: BatchRows, stages: Sequence[Stage], lane: Lane | None = None) -> list[pa.RecordBatch]:
        """A job in the lane."""
        return self.engine.run(rows, stages, lane or self.lane)


@dataclass(frozen=True)
class _InUtc:
    """A function over rows as Spark's tasks have them."""

    function: ArrowFunction

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return self.function(map(in_utc, batches))


@dataclass(frozen=True)
class _Numbers:
    """The pieces of work of one task: every so many-th number."""

    first: int
    count: int
    step: int

    def __call__(self) -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"id": pa.array(range(self.first, self.count, self.step), pa.int64())})


@dataclass(frozen=True)
class _ReadAll:
    """Read the partitions whose numbers come in: a source as Spark jobs have it."""

    readings: Sequence[Reading]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from self.readings[number]()


def _tables(rows: BatchRows) -> Sequence[pa.Table]:
    """The rows of a DataFrame, brought to the driver and cut into pieces.

    The cut follows from the number of rows alone, so that a batch that is run again is cut the same way.
    """
    if rows.frame is None:
        return ()
    table = in_utc(rows.frame.toArrow())
    pieces = min(MOST_PIECES, max(1, table.num_rows // PIECE_ROWS))
    cuts = [table.num_rows * i // pieces for i in range(pieces + 1)]
    return [table.slice(a, b - a) for a, b in pairwise(cuts)]


def with_retries(run: Callable[[], R], tries: int = 8, notify: Callable[[str], None] | None = None) -> R:
    """Run a batch; where a worker was lost, run it again from the committed state."""
    for attempt in range(tries):
        try:
            return run()
        except WorkerLostError as error:
            if attempt + 1 == tries:
                raise
            if notify is not None:
                notify(f"{error} The batch is run again.")
            time.sleep(0.05 * 2**attempt)
    raise AssertionError("unreachable")
