"""Arrow batches as Spark's tasks see them, and as bytes on their way between two tasks."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa


def gathered(batches: Iterator[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    """The same rows in fewer, larger batches; empty ones are left out.

    >>> some = [pa.record_batch({"x": [1]}), pa.record_batch({"x": [2, 3]}), pa.record_batch({"x": [4]})]
    >>> [batch.num_rows for batch in gathered(iter(some), 3)]
    [3, 1]
    """
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


def to_bytes(rows: pa.RecordBatch | pa.Table) -> bytes:
    """Rows as one Arrow stream.

    >>> from_bytes(to_bytes(pa.table({"x": [1, 2]}))).to_pydict()
    {'x': [1, 2]}
    """
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write(rows)
    return bytes(sink.getvalue().to_pybytes())


def from_bytes(payload: Any) -> pa.Table:
    """The rows of an Arrow stream (bytes, or a buffer, which is not copied)."""
    return pa.ipc.open_stream(payload).read_all()
