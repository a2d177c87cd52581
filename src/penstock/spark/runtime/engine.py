"""Who carries out the stages of a batch: Spark jobs, or workers that live as long as the run.

A program hands an engine a list of stages, each a function over the Arrow batches of one task, and gets back what the
last stage gave out. Between two stages every row goes to the task of the next one that its column ``worker`` names.
Both engines do the same with the same functions, so a program does not know which one it has.
"""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from penstock.core.errors import PenstockError
from penstock.spark.runtime.channel import CONTROL, ROWS, Frame, PeerLostError
from penstock.spark.runtime.orders import DRIVER, ArrowFunction, Done, Failed, Work
from penstock.spark.runtime.workers import WorkerLostError, Workers

Reading = Callable[[], Iterator[pa.RecordBatch]]


@dataclass(frozen=True)
class Stage:
    """A function over the batches of one task, the columns it gives out, and how many tasks it has."""

    function: ArrowFunction
    schema: StructType
    tasks: int


@dataclass(frozen=True)
class Rows:
    """The rows of a batch: as a DataFrame, as tables (a task each), or as functions that workers call (a task each)."""

    frame: DataFrame | None = None
    tables: Sequence[pa.Table] = ()
    readings: Sequence[Reading] = ()


@dataclass(frozen=True)
class Effort:
    """What a job cost its workers: busy seconds by stage and worker, CPU seconds, bytes that crossed between workers."""

    busy: tuple[tuple[float, ...], ...] = ()
    cpu: float = 0.0
    sent: int = 0


class Engine(Protocol):
    """Carries out stages."""

    name: str

    def run(self, rows: Rows | None, stages: Sequence[Stage]) -> list[pa.RecordBatch]:
        """Run the stages on the rows (or on the numbers of the first stage's tasks) and give back what came out."""

    def resize(self, workers: int) -> None:
        """Use so many workers from the next job on."""

    def close(self) -> None:
        """The run has ended."""


@dataclass
class JobsEngine:
    """Every run of stages is a Spark job, and Spark's shuffle is the exchange."""

    spark: SparkSession
    name: str = "jobs"

    def run(self, rows: Rows | None, stages: Sequence[Stage]) -> list[pa.RecordBatch]:
        """One Spark job."""
        first, *others = stages
        frame = self._frame(rows, first.tasks).mapInArrow(first.function, first.schema)
        for stage in others:
            frame = frame.repartitionById(stage.tasks, "worker").mapInArrow(stage.function, stage.schema)
        batches: list[pa.RecordBatch] = frame.toArrow().to_batches()
        return batches

    def _frame(self, rows: Rows | None, tasks: int) -> DataFrame:
        if rows is None:
            return self.spark.range(0, tasks, 1, tasks)
        if rows.frame is not None:
            return rows.frame
        raise PenstockError("Engine jobs takes rows as a DataFrame.")

    def resize(self, workers: int) -> None:
        """Partitions are free; there is nothing to do."""

    def close(self) -> None:
        """Nothing stays behind."""


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
        self.efforts: list[Effort] = []
        workers.receiver(self._arrived, self._lost)
        workers.plan(count)

    def run(self, rows: Rows | None, stages: Sequence[Stage]) -> list[pa.RecordBatch]:
        """One job on all workers that are there."""
        tables = _tables(rows)
        members = self._gathered()
        number, running = self._begin(members, rows, tables, stages)
        try:
            running.over.wait()
        finally:
            del self._jobs[number]
        if running.failure is not None:
            self.workers.abort(number)
            raise running.failure
        done = [running.done[m] for m in members]
        self.efforts.append(
            Effort(tuple(d.busy for d in done), sum(d.cpu for d in done), sum(d.sent for d in done))
        )
        return running.results

    def resize(self, workers: int) -> None:
        """Want so many workers; those that are new take part once they have come."""
        self.workers.plan(workers)

    def close(self) -> None:
        """End all workers."""
        self.workers.close()

    def take_efforts(self) -> list[Effort]:
        """What the jobs since the last call cost."""
        taken, self.efforts = self.efforts, []
        return taken

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
        self, members: tuple[int, ...], rows: Rows | None, tables: Sequence[pa.Table], stages: Sequence[Stage]
    ) -> tuple[int, _Running]:
        readings = () if rows is None else rows.readings
        counts = [len(readings) or len(tables) or stages[0].tasks, *(s.tasks for s in stages[1:])]
        homes = tuple(tuple(members[t % len(members)] for t in range(n)) for n in counts)
        inputs: dict[int, Reading] = dict(enumerate(readings))
        if rows is None:
            inputs = {t: _Number(t) for t in range(counts[0])}
        running = _Running(members)
        with self._order:  # all workers see jobs in the same order, or two jobs could wait for each other
            number, self._next = self._next, self._next + 1
            self._jobs[number] = running
            work = Work(number, tuple(s.function for s in stages), homes, inputs, from_driver=bool(tables))
            try:
                hellos = self.workers.members()
                known = tuple((m, hellos[m].port) for m in members if m in hellos)
                if known != self._introduced:
                    self.workers.introduce(members)
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
class _Number:
    """The input of a task that only has a number."""

    number: int

    def __call__(self) -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"id": pa.array([self.number], pa.int64())})


def _tables(rows: Rows | None) -> Sequence[pa.Table]:
    if rows is None:
        return ()
    return [rows.frame.toArrow()] if rows.frame is not None else rows.tables


def with_retries(
    run: Callable[[], Any], tries: int = 5, notify: Callable[[str], None] | None = None
) -> Any:
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
