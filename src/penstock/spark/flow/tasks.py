"""What the tasks of a flow do: take rows from a source or messages for a replica, run operators, pass on the rest."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.dataflow.invoke import event_times
from penstock.dataflow.keys import group_of
from penstock.dataflow.layout import Pipeline
from penstock.dataflow.rows import Chunk, joined
from penstock.spark.flow.messages import Message, batch_of, messages_of, unpack
from penstock.spark.flow.task_report import TaskInput
from penstock.spark.flow.worker import SegmentWork, Worker, addressed
from penstock.spark.runtime.arrow_batches import gathered
from penstock.spark.runtime.segments import read_segment
from penstock.spark.runtime.task import partition_id

#: Rows gathered before they are routed: large enough for few messages, small enough that routing keeps pace with Spark's
#: reading, which goes on meanwhile.
CHUNK_ROWS = 65_536
#: Bits of a position for the row number within an input partition.
ROW_BITS = 40


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
                yield batch_of([addressed(self.job, self.level + 1, m) for m in passed])
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
            for message in messages_of(read_segment(self.job.folder, file, 0).to_batches()):
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
