"""What a task of a flow gives out: large Arrow messages for other tasks, one Parquet file a sink.

A message is for one replica of one pipeline and carries rows with their key hashes and positions. Reports of the tasks
travel the same way, so that one job does all the work of a micro-batch and brings its figures home. The files of sinks
wait in a staging folder until the batch is committed.
"""

import functools
import os
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from penstock.dataflow.calls import DeadRows
from penstock.dataflow.layout import Layout
from penstock.dataflow.rows import Chunk, joined
from penstock.spark.flow.task_report import TaskOutputs, TaskReport, WrittenFile
from penstock.spark.runtime.arrow_data import (
    binary_column,
    binary_values,
    from_buffer,
    of_one_kind,
    to_buffer,
    with_reason,
    write_parquet,
)
from penstock.spark.runtime.folders import OutputFolder
from penstock.spark.runtime.paths import STAGING

ARROW = pa.schema(
    [
        ("worker", pa.int32()),
        ("pipeline", pa.int32()),
        ("replica", pa.int32()),
        ("port", pa.string()),
        ("origin", pa.int64()),
        ("number", pa.int32()),
        ("payload", pa.binary()),
    ]
)
#: Where in a checkpoint rows wait for the sinks that are functions.
HANDED = "handed"
#: Bytes of messages that travel as one batch, where a single one is no larger: less than a column of Arrow and Spark's JVM hold.
TOGETHER = 1 << 30
#: The pipeline number of a report.
REPORT = -1

_HASH, _POSITION, _WHEN = "__hash", "__position", "__when"


@functools.cache
def messages_schema() -> StructType:
    """The columns of messages as Spark has them; made once, since parsing them is a call to the JVM."""
    return from_arrow_schema(ARROW)


@dataclass(frozen=True)
class Message:
    """Rows for one port of one replica; ``origin`` and ``number`` give messages an order that a replay repeats."""

    pipeline: int
    replica: int
    port: str
    origin: int
    number: int
    payload: Any
    worker: int = 0

    @property
    def order(self) -> tuple[int, int]:
        """Where the message stands among those for the same port."""
        return self.origin, self.number


def report_message(report: TaskReport, origin: int) -> Message:
    """A report on its way to the driver."""
    return Message(REPORT, 0, "", origin, 0, report.to_json().encode())


def addressed(layout: Layout, segment: int, level: int, message: Message) -> Message:
    """The message with the number of the task that has it next: its own, or any on the way there."""
    worker = message.origin % max(1, layout.workers(segment, level))
    if message.pipeline != REPORT:
        pipeline = layout.pipelines[message.pipeline]
        if pipeline.level == level:
            worker = layout.worker(pipeline, message.replica)
    return replace(message, worker=int(worker))


def batches_of(messages: Iterable[Message]) -> Iterator[pa.RecordBatch]:
    """Messages as rows for Spark: one batch, or several where they are too large for one."""
    held, size = list[Message](), 0
    for message in messages:
        more = memoryview(message.payload).nbytes
        if held and size + more > TOGETHER:
            yield _batch(held)
            held, size = [], 0
        held.append(message)
        size += more
    if held:
        yield _batch(held)


def _batch(listed: Sequence[Message]) -> pa.RecordBatch:
    columns = [pa.array([getattr(m, field.name) for m in listed], field.type) for field in list(ARROW)[:-1]]
    columns.append(binary_column([m.payload for m in listed]))
    return pa.RecordBatch.from_arrays(columns, schema=ARROW)


def messages_of(batches: Iterable[pa.RecordBatch]) -> Iterator[Message]:
    """Rows from Spark, or from a file, as messages; payloads are not copied."""
    for batch in batches:
        plain = {name: batch.column(name).to_pylist() for name in ARROW.names if name != "payload"}
        payloads = binary_values(batch.column("payload"))
        for row in range(batch.num_rows):
            yield Message(**{n: c[row] for n, c in plain.items()}, payload=payloads[row])


def pack(chunk: Chunk) -> pa.Buffer:
    """A chunk as one Arrow stream."""
    table = chunk.table
    columns = [_one(c) for c in table.columns]
    names = list(table.column_names)
    if chunk.hashes is not None:
        columns.append(pa.array(chunk.hashes))
        names.append(_HASH)
    positions = chunk.positions
    if positions.ndim == 2:
        columns.append(pa.array(np.ascontiguousarray(positions[:, 0])))
        names.append(_WHEN)
        positions = np.ascontiguousarray(positions[:, 1])
    columns.append(pa.array(positions))
    names.append(_POSITION)
    return to_buffer(pa.RecordBatch.from_arrays(columns, names=names))


def unpack(payload: Any) -> Chunk:
    """The chunk of a message."""
    table = from_buffer(payload)
    hashes = table.column(_HASH).to_numpy() if _HASH in table.column_names else None
    positions = table.column(_POSITION).to_numpy()
    if _WHEN in table.column_names:
        positions = np.column_stack([table.column(_WHEN).to_numpy(), positions])
    hidden = [n for n in (_HASH, _WHEN, _POSITION) if n in table.column_names]
    return Chunk(table.drop_columns(hidden), positions, hashes)


def _one(column: pa.ChunkedArray) -> pa.Array:
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


@dataclass(frozen=True)
class FlowOutputs:
    """Where rows go: by sink, and what was put aside, which has a folder inside for each operator."""

    sinks: Mapping[str, OutputFolder]
    dead: OutputFolder
    #: Sinks that are functions: their rows wait in the checkpoint.
    functions: frozenset[str] = frozenset()

    @property
    def by_role(self) -> dict[str, OutputFolder]:
        """All folders by what they are to the run, but that of the functions, which is the checkpoint's own."""
        own = [folder for name, folder in self.sinks.items() if name not in self.functions]
        return {folder.role: folder for folder in (*own, self.dead)}


class Writer:
    """Gathers the rows of one task's sinks."""

    def __init__(self, outputs: FlowOutputs, prefix: str, batch: int, origin: int) -> None:
        self._outputs, self._prefix, self._batch, self._origin = outputs, prefix, batch, origin
        self._rows: dict[str, list[Chunk]] = {}

    def take(self, sink: str, chunk: Chunk) -> None:
        """Keep rows for a sink."""
        self._rows.setdefault(sink, []).append(chunk)

    def close(self, dead: Sequence[DeadRows]) -> TaskOutputs:
        """Write everything; what was written where."""
        sinks: dict[str, int] = {}
        files: list[WrittenFile] = []
        for sink, chunks in self._rows.items():
            table = joined([Chunk(c.table, c.positions) for c in chunks]).table
            sinks[sink] = table.num_rows
            files.append(self._write(table, self._outputs.sinks[sink], sink=sink))
        by_operator: dict[str, list[pa.Table]] = {}
        for rows in dead:
            told = with_reason(rows.rows, [rows.reason] * rows.rows.num_rows)
            by_operator.setdefault(rows.operator, []).append(told)
        for operator, tables in by_operator.items():
            files += [self._write(whole, self._outputs.dead, operator) for whole in of_one_kind(tables)]
        counts = {operator: sum(t.num_rows for t in tables) for operator, tables in by_operator.items()}
        return TaskOutputs(sinks, tuple(files), counts)

    def _write(self, table: pa.Table, folder: OutputFolder, inside: str = "", sink: str = "") -> WrittenFile:
        """Write a file; it goes by the batch at hand, then by the one its rows came with, which may be older."""
        word = uuid.uuid4().hex[:8]
        staged = f"{self._prefix}-{self._origin:012d}-{word}.parquet"
        write_parquet(table, os.path.join(folder.staging, staged))
        name = f"{self._prefix[:12]}-{self._batch:012d}-{self._origin:012d}-{word}.parquet"
        role = "" if sink in self._outputs.functions else folder.role
        return WrittenFile(role, os.path.join(STAGING, staged), os.path.join(inside, name), sink)
