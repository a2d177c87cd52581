"""What the tasks of a flow do: take rows from a source or messages for a replica, run operators, pass on the rest."""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.dataflow.calls import DeadRows
from penstock.dataflow.execute import Executor
from penstock.dataflow.invoke import event_times
from penstock.dataflow.keys import group_of, hash_keys, missing_keys
from penstock.dataflow.layout import Pipeline
from penstock.dataflow.plan import Plan
from penstock.dataflow.rows import Chunk, joined
from penstock.dataflow.wiring import Send, Wiring
from penstock.spark.flow.lifecycle import partition_id, ready
from penstock.spark.flow.messages import REPORT, Message, batch_of, messages_of, pack, report, unpack
from penstock.spark.flow.state_store import OperatorState, TaskStore
from penstock.spark.flow.writing import Folders, Writer
from penstock.spark.segments import read_segment, write_segments

#: Rows gathered before they are routed: large enough for few messages, small enough for a bounded memory.
CHUNK_ROWS = 262_144
#: Bits of a position for the row number within an input partition.
ROW_BITS = 40


@dataclass(frozen=True)
class Job:
    """All that the tasks of one segment of one batch need to know."""

    wiring: Wiring
    plan: Plan
    segment: int
    folder: str
    prefix: str
    folders: Folders
    states: Mapping[str, OperatorState]
    ttl: Mapping[str, float]
    #: The routing of the batch before, to tell which groups arrive where.
    before: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    run: str = ""
    batch: int = 0

    @property
    def levels(self) -> int:
        """Stages after the input."""
        return self.wiring.layout.levels(self.segment)


class _Worker:
    """One task at work: an executor, the messages it makes, what it has to tell."""

    def __init__(self, job: Job, level: int, origin: int, pipeline: Pipeline | None, replica: int) -> None:
        self.job, self.level, self.origin = job, level, origin
        self.messages: list[Message] = []
        self.later: list[Message] = []
        self.number = 0
        self.counts: dict[str, NDArray[np.int64]] = {}
        self.writer = Writer(job.folders, job.prefix, job.batch, origin)
        self.started, self.cpu = time.perf_counter(), time.process_time()
        self.load = 0.0
        self.rows = 0
        owned, arrived = self._groups(pipeline, replica)
        self.store = TaskStore(
            job.folder, job.prefix, job.plan.groups, owned, job.states, job.ttl, arrived=arrived
        )
        mask = np.zeros(job.plan.groups, dtype=bool)
        mask[list(owned)] = True
        owns = (
            None
            if pipeline is None or not pipeline.keys
            else lambda h: bool(mask[group_of(h, job.plan.groups)].all())
        )
        self.executor = Executor(ready(job.run, job.wiring), self.store, self._send, self.writer.take, owns)

    def _groups(self, pipeline: Pipeline | None, replica: int) -> tuple[tuple[int, ...], frozenset[int]]:
        if pipeline is None or not pipeline.keys:
            return (0,), frozenset()
        routing = np.asarray(self.job.plan.regions[pipeline.region].routing)
        owned = np.flatnonzero(routing == replica)
        before = np.asarray(self.job.before.get(pipeline.region, tuple(routing.tolist())))
        return tuple(owned.tolist()), frozenset(owned[before[owned] != replica].tolist())

    def _send(self, target: Send, chunk: Chunk) -> None:
        pipeline = self.job.wiring.layout.pipelines[target.pipeline]
        if not pipeline.keys:
            self._post(pipeline, 0, target.port, chunk)
            return
        chunk = self._with_keys(target, pipeline, chunk)
        groups = group_of(chunk.hashes, self.job.plan.groups)  # type: ignore[arg-type]  # set just above
        seen = np.bincount(groups, minlength=self.job.plan.groups)
        self.counts[pipeline.region] = self.counts.get(pipeline.region, 0) + seen
        if pipeline.replicas == 1:
            self._post(pipeline, 0, target.port, chunk)
            return
        replicas = np.asarray(self.job.plan.regions[pipeline.region].routing, dtype=np.int16)[groups]
        order = np.argsort(replicas, kind="stable")
        moved = chunk.take(order)
        edges = np.searchsorted(replicas[order], np.arange(pipeline.replicas + 1))
        for replica in range(pipeline.replicas):
            begin, end = int(edges[replica]), int(edges[replica + 1])
            self._post(pipeline, replica, target.port, moved.part(begin, end))

    def _with_keys(self, target: Send, pipeline: Pipeline, chunk: Chunk) -> Chunk:
        bad = missing_keys(chunk.table, pipeline.keys)
        if bad is not None:
            reason = f"no value in one of {', '.join(pipeline.keys)}"
            self.executor.dead.append(DeadRows(target.operator, chunk.table.filter(pa.array(bad)), reason))
            chunk = chunk.take(np.flatnonzero(~bad))
        return Chunk(chunk.table, chunk.positions, hash_keys(chunk.table, pipeline.keys))

    def _post(self, pipeline: Pipeline, replica: int, port: str, chunk: Chunk) -> None:
        if not chunk.rows:
            return
        message = Message(pipeline.number, replica, port, self.origin, self.number, pack(chunk))
        self.number += 1
        self.forward(message)

    def forward(self, message: Message) -> None:
        """Put a message on its way: to the next stage, or into a file for a later segment."""
        pipeline = self.job.wiring.layout.pipelines[message.pipeline]
        if pipeline.segment != self.job.segment:
            self.later.append(message)
            return
        self.messages.append(addressed(self.job, self.level + 1, message))

    def finish(self, told: dict[str, Any]) -> Iterator[pa.RecordBatch]:
        """Write what is to be written and tell the driver."""
        outputs = self.writer.close(self.executor.dead)
        inbox = None
        if self.later:
            batch = batch_of(self.later)
            inbox = write_segments(
                self.job.folder,
                f"{self.job.prefix}-inbox-{self.origin}",
                batch.schema,
                [pa.Table.from_batches([batch])],
            )
        told |= {
            "segment": self.job.segment,
            "operators": {name: vars(figures) for name, figures in self.executor.figures.items()},
            "groups": {region: counts.tolist() for region, counts in self.counts.items()},
            "written": self.store.written,
            "inbox": inbox,
            "later": sorted({self.job.wiring.layout.pipelines[m.pipeline].segment for m in self.later}),
            "cpu": time.process_time() - self.cpu,
            "seconds": time.perf_counter() - self.started,
            "rows": self.rows,
            **outputs,
        }
        message = addressed(self.job, self.level + 1, report(told, self.origin))
        yield batch_of([*self.messages, message])


def addressed(job: Job, level: int, message: Message) -> Message:
    """The message with the number of the task that has it next: its own, or any on the way there."""
    layout = job.wiring.layout
    workers = max(1, layout.workers(job.segment, level))
    worker = message.origin % workers
    if message.pipeline != REPORT:
        pipeline = layout.pipelines[message.pipeline]
        if pipeline.level == level:
            worker = layout.worker(pipeline, message.replica)
    return Message(
        message.pipeline,
        message.replica,
        message.port,
        message.origin,
        message.number,
        message.payload,
        int(worker),
    )


@dataclass(frozen=True)
class SourceTask:
    """The first stage: rows of one input partition, through what rides with the sources, to the replicas."""

    job: Job
    #: Sources in the order of the union: name, columns as they are in the frame (a struct each where there are several).
    sources: tuple[tuple[str, pa.Schema, str | None], ...]
    timed: bool

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Route one input partition."""
        partition = partition_id()
        worker = _Worker(self.job, 0, partition, None, 0)
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
            worker.rows = number
            yield from worker.finish({"stage": 0, "sources": by_source})

    def _tables(self, batch: pa.RecordBatch) -> Iterator[tuple[str, pa.Table, str | None]]:
        if len(self.sources) == 1:
            name, schema, time_column = self.sources[0]
            yield name, pa.Table.from_batches([batch]).cast(schema), time_column
            return
        ports = batch.column(0).to_numpy(zero_copy_only=False)
        for at, (name, schema, time_column) in enumerate(self.sources):
            rows = np.flatnonzero(ports == at)
            if len(rows):
                whole = batch if len(rows) == batch.num_rows else batch.take(pa.array(rows))
                struct = whole.column(at + 1)
                table = pa.Table.from_arrays(struct.flatten(), names=[f.name for f in struct.type])
                yield name, table.cast(schema), time_column


@dataclass(frozen=True)
class LevelTask:
    """A later stage: the messages of one replica."""

    job: Job
    level: int
    #: Files that hold the messages, where the segment's input waited in files.
    inbox: tuple[str, ...] | None = None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run the pipelines of one or more replicas on their messages."""
        number = partition_id()
        by_worker: dict[int, list[Message]] = {}
        for message in self._messages(batches, number):
            by_worker.setdefault(message.worker if self.inbox is None else number, []).append(message)
        for worker, messages in sorted(by_worker.items()):
            pipeline, replica = self.job.wiring.layout.hosted(self.job.segment, self.level, worker)
            own = [m.pipeline == pipeline.number and m.replica == replica for m in messages]
            passed = [m for m, mine in zip(messages, own, strict=True) if not mine]
            if passed:
                yield batch_of([addressed(self.job, self.level + 1, m) for m in passed])
            if any(own):
                mine = [m for m, is_own in zip(messages, own, strict=True) if is_own]
                yield from self._run(pipeline, replica, mine, worker)

    def _messages(self, batches: Iterator[pa.RecordBatch], number: int) -> Iterator[Message]:
        if self.inbox is None:
            yield from messages_of(batches)
            return
        for _ in batches:
            pass
        layout = self.job.wiring.layout
        for file in self.inbox:
            for message in messages_of(read_segment(self.job.folder, file, 0).to_batches()):
                pipeline = layout.pipelines[message.pipeline]
                if pipeline.segment != self.job.segment:
                    continue
                direct = pipeline.level == self.level
                if (layout.worker(pipeline, message.replica) if direct else 0) == number:
                    yield message

    def _run(
        self, pipeline: Pipeline, replica: int, mine: list[Message], number: int
    ) -> Iterator[pa.RecordBatch]:
        # Producers further on come later among equal positions; partitions of sources are below all of them.
        origin = ((pipeline.number + 1) << 24) + number
        worker = _Worker(self.job, self.level, origin, pipeline, replica)
        ports: dict[str, list[Chunk]] = {}
        for message in sorted(mine, key=lambda m: m.order):
            ports.setdefault(message.port, []).append(unpack(message.payload))
        arrived = {port: joined(chunks) for port, chunks in ports.items()}
        worker.rows = sum(c.rows for c in arrived.values())
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
        worker.executor.run(pipeline.operators[0], arrived)
        yield from worker.finish(
            {
                "stage": self.level,
                "pipeline": pipeline.name,
                "replica": replica,
                "moved": sorted(moved),
                "delayed": delayed,
            }
        )


def gathered(batches: Iterator[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    """The same rows in fewer, larger batches."""
    held: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        if batch.num_rows:
            held.append(batch)
            size += batch.num_rows
        if size >= rows:
            yield pa.concat_batches(held)
            held, size = [], 0
    if held:
        yield pa.concat_batches(held)
