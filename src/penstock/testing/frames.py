"""A stand-in for Spark that runs Arrow functions in this process: how stages are tested by the thousand without a cluster.

It knows just what Penstock's stages use. Tasks run one after another, each partition on its own, so everything but Spark
itself is the real thing; what Spark may do (retries, other processes, disk) needs a real session.
"""

from collections import namedtuple
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.spark.runtime.task import without_spark

ArrowFunction = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


@dataclass(frozen=True)
class InProcessFrame:
    """Stands for a DataFrame: partitions of record batches.

    >>> frame = InProcessFrame([[pa.record_batch({"x": [1, 2]})], [pa.record_batch({"x": [3]})]])
    >>> [row.x for row in frame.mapInArrow(lambda batches: batches, "x long").collect()]
    [1, 2, 3]
    """

    partitions: Sequence[Sequence[pa.RecordBatch]]
    isStreaming = True

    @property
    def sparkSession(self) -> "InProcessSession":
        """The session."""
        return InProcessSession()

    def mapInArrow(self, function: ArrowFunction, schema: Any) -> "InProcessFrame":
        """Apply a function to each partition."""
        done = []
        for number, batches in enumerate(self.partitions):
            without_spark.partition = number
            done.append(list(function(iter(batches))))
        return InProcessFrame(done)

    def repartitionById(self, count: int, column: str) -> "InProcessFrame":
        """Send each row to the partition that the column names."""
        targets: list[list[pa.RecordBatch]] = [[] for _ in range(count)]
        for batch in (b for p in self.partitions for b in p):
            for row, target in enumerate(batch.column(column).to_pylist()):
                targets[target % count].append(batch.slice(row, 1))
        return InProcessFrame(targets)

    def collect(self) -> list[Any]:
        """All rows, their columns by name and by place."""
        batches = [b for p in self.partitions for b in p]
        if not batches:
            return []
        row: Any = namedtuple("Row", list(batches[0].schema.names), rename=True)  # type: ignore[misc]
        return [row(**values) for batch in batches for values in batch.to_pylist()]

    def toArrow(self) -> pa.Table:
        """All rows as one table."""
        batches = [b for p in self.partitions for b in p]
        return pa.Table.from_batches(batches) if batches else pa.table({})


@dataclass(frozen=True)
class InProcessSession:
    """Stands for a Spark session, as if on two cores: it can count, and read Parquet files."""

    @property
    def sparkContext(self) -> Any:
        """As if on two cores."""
        return SimpleNamespace(defaultParallelism=2)

    @property
    def conf(self) -> Any:
        """Options, which nothing here depends on."""
        return SimpleNamespace(set=lambda key, value: None)

    @property
    def read(self) -> "InProcessReader":
        """A reader of files."""
        return InProcessReader()

    def range(self, start: int, end: int, step: int, partitions: int) -> InProcessFrame:
        """Numbers, dealt to partitions in runs as Spark does."""
        numbers = list(range(start, end, step))
        cuts = [len(numbers) * i // partitions for i in range(partitions + 1)]
        return InProcessFrame([[pa.record_batch({"id": numbers[a:b]})] for a, b in pairwise(cuts)])


class InProcessReader:
    """Stands for a reader of DataFrames."""

    def schema(self, schema: Any) -> "InProcessReader":
        """The files say it themselves."""
        return self

    def parquet(self, *files: str) -> InProcessFrame:
        """A partition a file."""
        return InProcessFrame([pq.read_table(file).to_batches() for file in files])
