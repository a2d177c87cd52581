"""Rows that a task of a flow has for other tasks, as messages to the replicas that own their keys."""

from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.dataflow.calls import DeadRows
from penstock.dataflow.keys import group_of, hash_keys, missing_keys
from penstock.dataflow.layout import Layout, Pipeline
from penstock.dataflow.plan import Plan
from penstock.dataflow.rows import Chunk
from penstock.dataflow.wiring import Send
from penstock.spark.flow.task_output import Message, addressed, pack


@dataclass
class Messenger:
    """The messages of one task. It knows nothing of who gives it rows, so that both are gone when the task is."""

    layout: Layout
    plan: Plan
    segment: int
    level: int
    origin: int
    replica: int
    #: Messages for the pipelines of this task, by their number.
    inside: dict[int, list[Message]]
    #: Where rows without a key go.
    dead: list[DeadRows]
    messages: list[Message] = field(default_factory=list)
    #: Messages for a later segment.
    later: list[Message] = field(default_factory=list)
    #: Region -> rows by group.
    counts: dict[str, NDArray[np.int64]] = field(default_factory=dict)
    number: int = 0
    #: Chunks that were dealt out to replicas without keys.
    dealt: int = 0

    def send(self, target: Send, chunk: Chunk) -> None:
        """Take rows for an operator of another task."""
        pipeline = self.layout.pipelines[target.pipeline]
        if not pipeline.keys:
            self._deal(pipeline, target.port, chunk)
            return
        chunk = self._with_keys(target, pipeline, chunk)
        if target.pipeline in self.inside:
            self._keep(target, pipeline, chunk)
            return
        groups = group_of(chunk.hashes, self.plan.groups)  # type: ignore[arg-type]  # set just above
        self._count(pipeline, groups)
        if pipeline.replicas == 1:
            self._post(pipeline, 0, target.port, chunk)
            return
        replicas = np.asarray(self.plan.regions[pipeline.region].routing, dtype=np.int16)[groups]
        order = np.argsort(replicas, kind="stable")
        moved = chunk.take(order)
        edges = np.searchsorted(replicas[order], np.arange(pipeline.replicas + 1))
        for replica in range(pipeline.replicas):
            begin, end = int(edges[replica]), int(edges[replica + 1])
            self._post(pipeline, replica, target.port, moved.part(begin, end))

    def _deal(self, pipeline: Pipeline, port: str, chunk: Chunk) -> None:
        """Rows for a region without keys: as many to each replica; what cannot be divided goes to each in turn."""
        edges = np.linspace(0, chunk.rows, pipeline.replicas + 1).astype(int).tolist()
        for at, (begin, end) in enumerate(pairwise(edges)):
            replica = (at + self.origin + self.dealt) % pipeline.replicas
            self._post(pipeline, replica, port, chunk.part(begin, end))
        self.dealt += 1

    def _keep(self, target: Send, pipeline: Pipeline, chunk: Chunk) -> None:
        """Rows for a pipeline colocated with this task stay here: they have kept their keys (see ``kept_keys.py``)."""
        self._count(pipeline, group_of(chunk.hashes, self.plan.groups))  # type: ignore[arg-type]  # has keys
        if chunk.rows:
            message = Message(pipeline.number, self.replica, target.port, self.origin, self.number, chunk)
            self.inside[pipeline.number].append(message)
            self.number += 1

    def _count(self, pipeline: Pipeline, groups: NDArray[np.int64]) -> None:
        seen = np.bincount(groups, minlength=self.plan.groups)
        self.counts[pipeline.region] = self.counts.get(pipeline.region, 0) + seen

    def _with_keys(self, target: Send, pipeline: Pipeline, chunk: Chunk) -> Chunk:
        bad = missing_keys(chunk.table, pipeline.keys)
        if bad is not None:
            reason = f"no value in one of {', '.join(pipeline.keys)}"
            self.dead.append(DeadRows(target.operator, chunk.table.filter(pa.array(bad)), reason))
            chunk = chunk.take(np.flatnonzero(~bad))
        return Chunk(chunk.table, chunk.positions, hash_keys(chunk.table, pipeline.keys))

    def _post(self, pipeline: Pipeline, replica: int, port: str, chunk: Chunk) -> None:
        if not chunk.rows:
            return
        message = Message(pipeline.number, replica, port, self.origin, self.number, pack(chunk))
        self.number += 1
        if pipeline.segment != self.segment:
            self.later.append(message)
            return
        self.messages.append(addressed(self.layout, self.segment, self.level + 1, message))
