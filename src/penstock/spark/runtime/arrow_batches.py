"""Arrow batches as Spark's tasks see them."""

from collections.abc import Iterator

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
