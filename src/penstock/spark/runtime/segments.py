"""State files: Arrow tables one after another in one file, each readable on its own without copying.

A task writes one file with a table (segment) per pane or key group. Any Python worker of the host maps the file and
reads one segment; pages are shared between processes by the operating system.
"""

import functools
import os
import uuid
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa

from penstock.spark.runtime.durable import ChecksummedFile

_OPTIONS = pa.ipc.IpcWriteOptions(unify_dictionaries=True)


def write_segments(folder: str | Path, prefix: str, schema: pa.Schema, tables: Iterable[pa.Table]) -> str:
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


def read_segment(folder: str | Path, name: str, segment: int) -> pa.Table:
    """Map one segment of a file; the columns point into the file."""
    reader = _open(os.path.join(folder, name))
    return pa.Table.from_batches([reader.get_batch(segment)])


@functools.lru_cache(maxsize=64)
def _open(path: str) -> pa.ipc.RecordBatchFileReader:
    # Files never change under their name, so an open map can be used again by the next task of this process.
    return pa.ipc.open_file(pa.memory_map(path, "rb"))


def single_batch(table: pa.Table) -> pa.RecordBatch:
    """All rows of a table as one record batch, empty ones included."""
    batches = table.combine_chunks().to_batches()
    if batches:
        return batches[0]
    return pa.RecordBatch.from_arrays([pa.array([], f.type) for f in table.schema], schema=table.schema)
