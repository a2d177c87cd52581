"""One task of a flow at work: an executor, the messages it makes, what it has to tell."""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.core.errors import PenstockError
from penstock.dataflow.calls import DeadRows
from penstock.dataflow.execute import Executor
from penstock.dataflow.keys import group_of, hash_keys, missing_keys
from penstock.dataflow.layout import Pipeline
from penstock.dataflow.plan import Plan
from penstock.dataflow.rows import Chunk
from penstock.dataflow.wiring import Send, Wiring
from penstock.spark.actuators.cpu_share import join
from penstock.spark.flow.cpu import FREE
from penstock.spark.flow.lifecycle import ready
from penstock.spark.flow.messages import REPORT, Message, batch_of, pack, report_message
from penstock.spark.flow.state_store import OperatorState, TaskStore
from penstock.spark.flow.task_report import TaskInput, TaskReport
from penstock.spark.flow.writing import FlowOutputs, Writer
from penstock.spark.runtime.segments import write_segments


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
        self.job, self.level, self.origin, self.replica = job, level, origin, replica
        #: Messages for the pipelines of this task, by their number.
        self.inside = inside or {}
        self.messages: list[Message] = []
        self.later: list[Message] = []
        self.number = 0
        self.counts: dict[str, NDArray[np.int64]] = {}
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
        )
        mask = np.zeros(job.plan.groups, dtype=bool)
        mask[list(owned)] = True
        owns = (
            None
            if pipeline is None or not pipeline.keys
            else lambda h: bool(mask[group_of(h, job.plan.groups)].all())
        )
        self.owns = owns
        self.executor = Executor(
            ready(job.run, job.wiring), self.store, self._send, self.writer.take, owns, job.now
        )

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
        if target.pipeline in self.inside:
            self._keep(target, pipeline, chunk)
            return
        groups = group_of(chunk.hashes, self.job.plan.groups)  # type: ignore[arg-type]  # set just above
        self._count(pipeline, groups)
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

    def _keep(self, target: Send, pipeline: Pipeline, chunk: Chunk) -> None:
        """Rows for a pipeline colocated with this task stay here; their keys must still be this task's own."""
        if self.owns is not None and not self.owns(chunk.hashes):
            raise PenstockError(
                f"An operator before '{target.operator}' changes the key ({', '.join(pipeline.keys)}) that '{target.operator}' "
                "goes by; say so with changes=[...]."
            )
        self._count(pipeline, group_of(chunk.hashes, self.job.plan.groups))  # type: ignore[arg-type]  # has keys
        if chunk.rows:
            message = Message(pipeline.number, self.replica, target.port, self.origin, self.number, chunk)
            self.inside[pipeline.number].append(message)
            self.number += 1

    def _count(self, pipeline: Pipeline, groups: NDArray[np.int64]) -> None:
        seen = np.bincount(groups, minlength=self.job.plan.groups)
        self.counts[pipeline.region] = self.counts.get(pipeline.region, 0) + seen

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

    def finish(self, given: TaskInput) -> Iterator[pa.RecordBatch]:
        """Write what is to be written and report to the driver."""
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
        report = TaskReport(
            input=given,
            segment=self.job.segment,
            outputs=outputs,
            operators=self.executor.figures,
            groups={region: counts.tolist() for region, counts in self.counts.items()},
            written=tuple(self.store.written),
            inbox=inbox,
            later=tuple(sorted({self.job.wiring.layout.pipelines[m.pipeline].segment for m in self.later})),
            cpu=time.process_time() - self.cpu,
            seconds=time.perf_counter() - self.started,
        )
        message = addressed(self.job, self.level + 1, report_message(report, self.origin))
        yield batch_of([*self.messages, message])


def addressed(job: SegmentWork, level: int, message: Message) -> Message:
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
