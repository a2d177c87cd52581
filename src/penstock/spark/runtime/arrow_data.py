"""Arrow data as tasks have it: in batches, as one message of bytes, as segments of a state file, as Parquet.

A task writes one state file with a table (segment) per pane or key group. Any Python worker of the host maps the file and
reads one segment; pages are shared between processes by the operating system.
"""

import contextlib
import functools
import os
import struct
import uuid
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from penstock.core.errors import PenstockError
from penstock.core.stores import StorePath, is_store
from penstock.spark.runtime.durable import ChecksummedFile
from penstock.spark.runtime.locations import Location, location
from penstock.spark.runtime.state_cache import cached
from penstock.spark.versions import in_zone

#: Rows in either form.
Rows = TypeVar("Rows", pa.RecordBatch, pa.Table)

#: Bytes that a column of texts or bytes can hold.
COLUMN_BYTES = 2**31 - 1

_OPTIONS = pa.ipc.IpcWriteOptions(unify_dictionaries=True)


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


def utc_schema(schema: pa.Schema) -> pa.Schema:
    """The same columns with timestamps in UTC and texts of narrow offsets, which is what a run has inside.

    Spark gives times in UTC to the driver and in the session's time zone to its tasks, and rows of both ways come together.
    Texts and bytes have wide offsets where ``spark.sql.execution.arrow.useLargeVarTypes`` says so.

    >>> utc_schema(pa.schema([("at", pa.timestamp("us", "Europe/Rome")), ("n", pa.int64())])).types
    [TimestampType(timestamp[us, tz=UTC]), DataType(int64)]
    """
    return pa.schema([f.with_type(_narrow(in_zone(f.type, "UTC"))) for f in schema], schema.metadata)


def _narrow(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_large_string(kind):
        return pa.string()
    if pa.types.is_large_binary(kind):
        return pa.binary()
    if pa.types.is_list(kind):
        return pa.list_(_narrow_field(kind.value_field))
    if pa.types.is_struct(kind):
        return pa.struct([_narrow_field(field) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(_narrow_field(kind.key_field), _narrow_field(kind.item_field))
    return kind


def _narrow_field(field: pa.Field) -> pa.Field:
    return field.with_type(_narrow(field.type))


def in_utc(rows: Rows) -> Rows:
    """Rows with timestamps in UTC, the same moments, and narrow texts."""
    schema = utc_schema(rows.schema)
    return rows if schema.equals(rows.schema) else rows.cast(schema)


def with_reason(rows: Rows, reasons: Sequence[str]) -> Rows:
    """Rows with why they were put aside; a column of their own with that name is ``_reason`` then.

    >>> with_reason(pa.table({"x": [1], "reason": ["mine"]}), ["no x"]).to_pylist()
    [{'x': 1, '_reason': 'mine', 'reason': 'no x'}]
    """
    own = ["_reason" if name == "reason" else name for name in rows.column_names]
    return rows.rename_columns(own).append_column("reason", pa.array(reasons, pa.string()))


def of_one_kind(tables: Iterable[pa.Table]) -> list[pa.Table]:
    """Tables put together, but for those that have a column in another type.

    >>> some = [pa.table({"x": [1]}), pa.table({"x": ["a"]}), pa.table({"x": [2], "y": [3]})]
    >>> [table.to_pydict() for table in of_one_kind(some)]
    [{'x': [1, 2], 'y': [None, 3]}, {'x': ['a']}]
    """
    kinds: list[pa.Table] = []
    for table in tables:
        for at, kind in enumerate(kinds):
            with contextlib.suppress(pa.ArrowTypeError, pa.ArrowInvalid):
                kinds[at] = pa.concat_tables([kind, table], promote_options="default")
                break
        else:
            kinds.append(table)
    return kinds


def write_stream(sink: Any, parts: Sequence[pa.RecordBatch | pa.Table]) -> None:
    """Rows of one schema as an Arrow stream."""
    with pa.ipc.new_stream(sink, parts[0].schema) as writer:
        for part in parts:
            writer.write(part)


def stream_size(parts: Sequence[pa.RecordBatch | pa.Table]) -> int:
    """The bytes of that stream, counted without writing it."""
    counted = pa.MockOutputStream()
    write_stream(counted, parts)
    return int(counted.size())


def to_buffer(rows: pa.RecordBatch | pa.Table) -> pa.Buffer:
    """Rows as one Arrow stream, copied once.

    >>> from_buffer(to_buffer(pa.table({"x": [1, 2]}))).to_pydict()
    {'x': [1, 2]}
    """
    buffer = pa.allocate_buffer(stream_size([rows]))
    write_stream(pa.FixedSizeBufferWriter(buffer), [rows])
    return buffer


def binary_column(values: Sequence[bytes | pa.Buffer]) -> pa.Array:
    """Binary values as a column; a single one, which may be large, is not copied.

    >>> binary_column([b"ab"]).to_pylist(), binary_column([b"ab", pa.py_buffer(b"c")]).to_pylist()
    ([b'ab'], [b'ab', b'c'])
    """
    if len(values) != 1:
        return pa.array([bytes(memoryview(value)) for value in values], pa.binary())
    body = pa.py_buffer(values[0])
    if body.size > COLUMN_BYTES:
        raise PenstockError(
            f"A message of {body.size / 2**30:.1f} GiB is more than a column can hold; have smaller batches (maxFilesPerTrigger, "
            "maxOffsetsPerTrigger), or more workers."
        )
    return pa.Array.from_buffers(pa.binary(), 1, [None, pa.py_buffer(struct.pack("<2i", 0, body.size)), body])


def binary_values(column: pa.Array) -> list[pa.Buffer]:
    """The values of a binary column without nulls, which are not copied (as Arrow's own scalars are).

    >>> [value.to_pybytes() for value in binary_values(pa.array([b"ab", b"", b"c"]).slice(1))]
    [b'', b'c']
    """
    if not len(column):
        return []
    _, offsets, body = column.buffers()
    # Spark's tasks get wide ones where spark.sql.execution.arrow.useLargeVarTypes says so.
    width = np.int64 if pa.types.is_large_binary(column.type) else np.int32
    bounds = np.frombuffer(offsets, dtype=width)[column.offset :][: len(column) + 1].tolist()
    return [body.slice(begin, end - begin) for begin, end in pairwise(bounds)]


def from_buffer(payload: Any) -> pa.Table:
    """The rows of an Arrow stream (bytes, or a buffer, which is not copied)."""
    return pa.ipc.open_stream(payload).read_all()


def write_segments(
    folder: str | Path | StorePath, prefix: str, schema: pa.Schema, tables: Iterable[pa.Table]
) -> str:
    """Write tables of one schema as segments 0, 1, ... of a new file; give its name.

    The name ends in a random word and a checksum: a task that Spark runs twice writes two files, and the manifest
    names one.
    """
    file = ChecksummedFile(folder, f"{prefix}-{uuid.uuid4().hex[:8]}", "arrow")
    with pa.ipc.new_file(pa.PythonFile(file, "w"), schema, options=_OPTIONS) as writer:
        for table in tables:
            # One segment is one record batch, so that its number finds it.
            writer.write_batch(single_batch(table))
    return file.commit()


def read_segment(folder: str | Path | StorePath, name: str, segment: int) -> pa.Table:
    """Map one segment of a file; the columns point into the file, or into the copy of it on this disk."""
    reader = _open(_path(str(folder), name))
    return pa.Table.from_batches([reader.get_batch(segment)])


def read_segments(folder: str | Path | StorePath, name: str) -> Iterator[pa.Table]:
    """All segments of a file in turn."""
    for segment in range(_open(_path(str(folder), name)).num_record_batches):
        yield read_segment(folder, name, segment)


def read_rows(folder: str | Path | StorePath, name: str, segment: int) -> pa.Table:
    """Rows of the input in a segment; earlier versions wrote their timestamps in the session's time zone."""
    return in_utc(read_segment(folder, name, segment))


def _path(folder: str, name: str) -> str:
    return cached(StorePath.of(folder) / name) if is_store(folder) else os.path.join(folder, name)


@functools.lru_cache(maxsize=128)
def _open(path: str) -> pa.ipc.RecordBatchFileReader:
    # Files never change under their name, so an open map can be used again by the next task of this process.
    return pa.ipc.open_file(pa.memory_map(path, "rb"))


def single_batch(table: pa.Table) -> pa.RecordBatch:
    """All rows of a table as one record batch, empty ones included."""
    batches = table.combine_chunks().to_batches()
    if len(batches) > 1:  # what Arrow cannot put together stays in pieces
        raise PenstockError(
            "Rows that are kept together have more than 2 GiB of text or bytes in one column, which a state file cannot hold; "
            "spread them over more workers or groups, or have smaller batches or panes."
        )
    if batches:
        return batches[0]
    return pa.RecordBatch.from_arrays([pa.array([], f.type) for f in table.schema], schema=table.schema)


def write_parquet(table: pa.Table, path: str | Location) -> None:
    """Write a Parquet file; texts get a dictionary, random numbers would only lose time."""
    texts = [f.name for f in table.schema if pa.types.is_string(f.type) or pa.types.is_large_string(f.type)]
    target = location(path)
    if isinstance(target, Path):
        pq.write_table(table, target, use_dictionary=texts or False)
        return
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, use_dictionary=texts or False)
    target.write_bytes(sink.getvalue().to_pybytes())
