"""A stand-in for Spark's DataFrame that runs Arrow functions in this process, for quick tests of what they compute.

It knows just what Penstock's stages use: ``mapInArrow``, ``repartitionById`` and ``collect``, and a session with
``range``. Everything that Spark itself may do (retries, other processes, disk) needs a real session.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pyarrow as pa

ArrowFunction = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


@dataclass(frozen=True)
class InProcessFrame:
    """Partitions of record batches.

    >>> frame = InProcessFrame([[pa.record_batch({"x": [1, 2]})], [pa.record_batch({"x": [3]})]])
    >>> [row.x for row in frame.mapInArrow(lambda batches: batches, "x long").collect()]
    [1, 2, 3]
    """

    partitions: Sequence[Sequence[pa.RecordBatch]]

    @property
    def sparkSession(self) -> "InProcessSession":
        """The session."""
        return InProcessSession()

    def mapInArrow(self, function: ArrowFunction, schema: Any) -> "InProcessFrame":
        """Apply a function to each partition."""
        return InProcessFrame([list(function(iter(p))) for p in self.partitions])

    def repartitionById(self, count: int, column: str) -> "InProcessFrame":
        """Send each row to the partition that the column names."""
        targets: list[list[pa.RecordBatch]] = [[] for _ in range(count)]
        for batch in (b for p in self.partitions for b in p):
            for row, target in enumerate(batch.column(column).to_pylist()):
                targets[target].append(batch.slice(row, 1))
        return InProcessFrame(targets)

    def collect(self) -> list[Any]:
        """All rows."""
        batches = [b for p in self.partitions for b in p]
        return [SimpleNamespace(**row) for batch in batches for row in batch.to_pylist()]


@dataclass(frozen=True)
class InProcessSession:
    """A session that can count."""

    @property
    def sparkContext(self) -> Any:
        """As if on two cores."""
        return SimpleNamespace(defaultParallelism=2)

    def range(self, start: int, end: int, step: int, partitions: int) -> InProcessFrame:
        """Numbers, dealt to partitions in runs as Spark does."""
        numbers = list(range(start, end, step))
        cuts = [len(numbers) * i // partitions for i in range(partitions + 1)]
        return InProcessFrame([[pa.record_batch({"id": numbers[a:b]})] for a, b in pairwise(cuts)])
