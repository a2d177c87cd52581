"""What travels between the stages of a flow: a few large Arrow messages, not rows.

A message is for one replica of one pipeline and carries rows with their key hashes and positions. Reports of the tasks
travel the same way, so that one job does all the work of a micro-batch and brings its figures home.
"""

import functools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from penstock.dataflow.rows import Chunk
from penstock.spark.flow.task_report import TaskReport
from penstock.spark.runtime.arrow_batches import from_bytes, to_bytes

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


def batch_of(messages: Iterable[Message]) -> pa.RecordBatch:
    """Messages as rows for Spark."""
    listed = list(messages)
    columns = [[getattr(m, name) for m in listed] for name in ARROW.names[:-1]]
    columns.append([m.payload if isinstance(m.payload, bytes) else m.payload.to_pybytes() for m in listed])
    return pa.RecordBatch.from_arrays(
        [pa.array(c, f.type) for c, f in zip(columns, ARROW, strict=True)], schema=ARROW
    )


def messages_of(batches: Iterable[pa.RecordBatch]) -> Iterator[Message]:
    """Rows from Spark, or from a file, as messages; payloads are not copied."""
    for batch in batches:
        plain = {name: batch.column(name).to_pylist() for name in ARROW.names if name != "payload"}
        payloads = batch.column("payload")
        for row in range(batch.num_rows):
            yield Message(**{n: c[row] for n, c in plain.items()}, payload=payloads[row].as_buffer())


def pack(chunk: Chunk) -> bytes:
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
    return to_bytes(pa.RecordBatch.from_arrays(columns, names=names))


def unpack(payload: Any) -> Chunk:
    """The chunk of a message."""
    table = from_bytes(payload)
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
