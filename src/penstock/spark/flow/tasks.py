"""What the tasks of a flow do: take rows from a source or messages for a replica, run operators, pass on the rest."""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.dataflow.calls import DeadRows
from penstock.dataflow.invoke import Executor
from penstock.dataflow.keys import group_of
from penstock.dataflow.layout import Pipeline
from penstock.dataflow.plan import Plan
from penstock.dataflow.rows import Chunk, event_times, joined
from penstock.dataflow.slices import EVERY, Slicing
from penstock.dataflow.wiring import Wiring
from penstock.spark.actuators.cpu_share import join
from penstock.spark.flow.cpu import FREE
from penstock.spark.flow.lifecycle import ready
from penstock.spark.flow.messenger import Messenger
from penstock.spark.flow.state_store import OperatorState, TaskStore
from penstock.spark.flow.task_output import (
    ARROW,
    FlowOutputs,
    Message,
    Writer,
    addressed,
    batches_of,
    messages_of,
    report_message,
    unpack,
)
from penstock.spark.flow.task_report import TaskInput, TaskReport
from penstock.spark.runtime.arrow_data import gathered, read_segments, write_segments
from penstock.spark.runtime.task import partition_id

#: Rows gathered before they are routed: large enough for few messages, small enough that routing keeps pace with Spark's
#: reading, which goes on meanwhile.
CHUNK_ROWS = 65_536
#: Bits of a position for the row number within an input partition.
ROW_BITS = 40


@dataclass(frozen=True)
class SegmentWork:
    """All that the tasks of one segment of one batch need to know."""

    wiring: Wiring
    plan: Plan
    segment: int
    folder: str
    prefix: str
    outputs: FlowOutputs
    states: Mapping[str, OperatorState]
    ttl: Mapping[str, float]
    #: The routing of the batch before, to tell which groups arrive where.
    before: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    run: str = ""
    batch: int = 0
    #: Control groups of the tasks: pipeline -> folder, and that of tasks without a quota; empty where there are none.
    cpu: Mapping[str, str] = field(default_factory=dict)
    #: The driver's time where the batch began, in microseconds.
    now: int = 0
    #: Operator -> up to which event time tuples are believed.
    beliefs: Mapping[str, int | None] = field(default_factory=dict)
    #: Whether what the keys cost is measured.
    weighs: bool = False

    @property
    def levels(self) -> int:
        """Stages after the input."""
        return self.wiring.layout.levels(self.segment)


class Worker:
    """One task at work: an executor, the messages it makes, what it has to tell."""

    def __init__(
        self,
        job: SegmentWork,
        level: int,
        origin: int,
        pipeline: Pipeline | None,
        replica: int,
        inside: dict[int, list[Message]] | None = None,
    ) -> None:
        if job.cpu:
            join(job.cpu.get(pipeline.name if pipeline else FREE, job.cpu[FREE]))
        self.job, self.level, self.origin = job, level, origin
        self.dead: list[DeadRows] = []
        self.messenger = Messenger(
            job.wiring.layout, job.plan, job.segment, level, origin, replica, inside or {}, self.dead
        )
        self.writer = Writer(job.outputs, job.prefix, job.batch, origin)
        self.started, self.cpu = time.perf_counter(), time.process_time()
        owned, arrived = self._groups(pipeline, replica)
        self.store = TaskStore(
            job.folder,
            job.prefix,
            job.plan.groups,
            owned,
            job.states,
            job.ttl,
            job.beliefs,
            arrived=arrived,
            tasks=job.wiring.tasks,
            batch=job.batch,
        )
        self.executor = Executor(
            ready(job.run, job.wiring),
            self.store,
            self.messenger.send,
            self.writer.take,
            job.now,
            self._slicing(pipeline),
            dead=self.dead,
        )

    def _slicing(self, pipeline: Pipeline | None) -> Slicing | None:
        """Whether the keys of this task are called in slices, to tell what each group costs."""
        if not self.job.weighs or pipeline is None or pipeline.replicas < 2 or self.job.batch % EVERY:
            return None
        return Slicing(self.job.plan.groups, self.job.batch)

    def _groups(self, pipeline: Pipeline | None, replica: int) -> tuple[tuple[int, ...], frozenset[int]]:
        if pipeline is None or not pipeline.keys:
            return (0,), frozenset()
        routing = np.asarray(self.job.plan.regions[pipeline.region].routing)
        owned = np.flatnonzero(routing == replica)
        before = np.asarray(self.job.before.get(pipeline.region, tuple(routing.tolist())))
        return tuple(owned.tolist()), frozenset(owned[before[owned] != replica].tolist())

    def finish(self, given: TaskInput) -> Iterator[pa.RecordBatch]:
        """Write what is to be written and report to the driver."""
        sent, layout = self.messenger, self.job.wiring.layout
        outputs = self.writer.close(self.dead)
        inbox = None
        if sent.later:
            inbox = write_segments(
                self.job.folder,
                f"{self.job.prefix}-inbox-{self.origin}",
                ARROW,
                (pa.Table.from_batches([batch]) for batch in batches_of(sent.later)),
            )
        report = TaskReport(
            input=given,
            segment=self.job.segment,
            outputs=outputs,
            operators=self.executor.figures,
            groups={region: counts.tolist() for region, counts in sent.counts.items()},
            written=tuple(self.store.written),
            inbox=inbox,
            later=tuple(sorted({layout.pipelines[m.pipeline].segment for m in sent.later})),
            cpu=time.process_time() - self.cpu,
            seconds=time.perf_counter() - self.started,
        )
        message = addressed(layout, self.job.segment, self.level + 1, report_message(report, self.origin))
        yield from batches_of([*sent.messages, message])


@dataclass(frozen=True)
class SourceTask:
    """The first stage: rows of one input partition, through what is fused with the sources, to the replicas."""

    job: SegmentWork
    #: Sources in the order of the union: name, columns (side by side after the source's number where there are several).
    sources: tuple[tuple[str, pa.Schema, str | None], ...]
    timed: bool

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Route one input partition."""
        partition = partition_id()
        worker = Worker(self.job, 0, partition, None, 0)
        number = 0
        by_source: dict[str, int] = {}
        for batch in gathered(batches, CHUNK_ROWS):
            for name, table, time_column in self._tables(batch):
                positions: NDArray[np.int64] = np.arange(number, number + table.num_rows) + (
                    partition << ROW_BITS
                )
                number += table.num_rows
                by_source[name] = by_source.get(name, 0) + table.num_rows
                if self.timed:
                    stamps = (
                        event_times(table.column(time_column))
                        if time_column
                        else np.zeros(table.num_rows, np.int64)
                    )
                    positions = np.column_stack([stamps, positions])
                worker.executor.hand_on(name, "out", Chunk(table, positions))
        if number:
            yield from worker.finish(TaskInput(0, number, by_source))

    def _tables(self, batch: pa.RecordBatch) -> Iterator[tuple[str, pa.Table, str | None]]:
        if len(self.sources) == 1:
            name, schema, time_column = self.sources[0]
            yield name, pa.Table.from_batches([batch]).cast(schema), time_column
            return
        ports = batch.column(0).to_numpy(zero_copy_only=False)
        first = 1
        for at, (name, schema, time_column) in enumerate(self.sources):
            rows = np.flatnonzero(ports == at)
            if len(rows):
                own = pa.Table.from_arrays(batch.columns[first : first + len(schema)], names=schema.names)
                table = own if len(rows) == batch.num_rows else own.take(pa.array(rows))
                yield name, table.cast(schema), time_column
            first += len(schema)


@dataclass(frozen=True)
class LevelTask:
    """A later stage: the messages of one replica."""

    job: SegmentWork
    level: int
    #: Files that hold the messages, where the segment's input waited in files.
    inbox: tuple[str, ...] | None = None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run the pipelines of one or more replicas on their messages."""
        number = partition_id()
        by_worker: dict[int, list[Message]] = {}
        for message in self._messages(batches, number):
            by_worker.setdefault(message.worker if self.inbox is None else number, []).append(message)
        layout = self.job.wiring.layout
        if number < layout.workers(self.job.segment, self.level):
            by_worker.setdefault(number, [])  # keys may have to be called for though no tuples came
        for worker, messages in sorted(by_worker.items()):
            host, replica = layout.hosted(self.job.segment, self.level, worker)
            inside = [host, *layout.colocated(host)]
            mine: dict[int, list[Message]] = {p.number: [] for p in inside}
            passed: list[Message] = []
            for message in messages:
                own = message.pipeline in mine and message.replica == replica
                (mine[message.pipeline] if own else passed).append(message)
            if passed:
                yield from batches_of(
                    [addressed(self.job.wiring.layout, self.job.segment, self.level + 1, m) for m in passed]
                )
            for pipeline in inside:
                if mine[pipeline.number] or self._watches(pipeline):
                    yield from self._run(pipeline, replica, mine, worker)

    def _watches(self, pipeline: Pipeline) -> bool:
        return any(self.job.wiring.tasks[name].spec.watches for name in pipeline.operators)

    def _messages(self, batches: Iterator[pa.RecordBatch], number: int) -> Iterator[Message]:
        if self.inbox is None:
            yield from messages_of(batches)
            return
        for _ in batches:
            pass
        layout = self.job.wiring.layout
        for file in self.inbox:
            waiting = read_segments(self.job.folder, file)
            for message in messages_of(batch for table in waiting for batch in table.to_batches()):
                pipeline = layout.pipelines[message.pipeline]
                if pipeline.segment != self.job.segment:
                    continue
                direct = pipeline.level == self.level
                if (layout.worker(pipeline, message.replica) if direct else 0) == number:
                    yield message

    def _run(
        self, pipeline: Pipeline, replica: int, inside: dict[int, list[Message]], number: int
    ) -> Iterator[pa.RecordBatch]:
        """Run one pipeline on its messages; those for pipelines of the same task are put with theirs."""
        # Producers further on come later among equal positions; partitions of sources are below all of them.
        origin = ((pipeline.number + 1) << 24) + number
        worker = Worker(self.job, self.level, origin, pipeline, replica, inside)
        ports: dict[str, list[Chunk]] = {}
        for message in sorted(inside[pipeline.number], key=lambda m: m.order):
            chunk = message.payload if isinstance(message.payload, Chunk) else unpack(message.payload)
            ports.setdefault(message.port, []).append(chunk)
        arrived = {port: joined(chunks) for port, chunks in ports.items()}
        moved = worker.store.arrived
        delayed = 0
        if moved:
            flags = np.zeros(self.job.plan.groups, dtype=bool)
            flags[list(moved)] = True
            delayed = sum(
                int(flags[group_of(c.hashes, self.job.plan.groups)].sum())
                for c in arrived.values()
                if c.hashes is not None
            )
        if arrived:
            worker.executor.run(pipeline.operators[0], arrived)
        worker.executor.tick(pipeline.operators)
        yield from worker.finish(
            TaskInput(
                stage=self.level,
                rows=sum(c.rows for c in arrived.values()),
                pipeline=pipeline.name,
                replica=replica,
                moved=tuple(sorted(moved)),
                delayed=delayed,
            )
        )
