"""Streams of Python data sources, read by the run itself: no Structured Streaming query, no JVM work in a batch.

Spark's plan of such a stream tells its format and options, and the session has the source's class. From these the
driver makes the reader and asks it for offsets and partitions; whoever runs the tasks reads the partitions.
"""

import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import inf, nan
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import Row, StructType

from penstock.spark.runtime.arrow_data import single_batch
from penstock.spark.sources.pacing import rows_allowed
from penstock.spark.versions import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
    arrow_schema,
    value_converters,
)

Offset = dict[str, Any]


@dataclass(frozen=True)
class Span:
    """The part of a stream that is one batch."""

    start: Offset
    end: Offset


#: Rows of a source that gives out tuples, gathered into one Arrow batch.
ROWS_A_BATCH = 65_536


@dataclass(frozen=True)
class Read:
    """Read one partition: what a task calls."""

    reader: DataSourceStreamReader
    partition: InputPartition
    schema: pa.Schema
    spark_schema: StructType

    def __call__(self) -> Iterator[pa.RecordBatch]:
        """The partition's rows as Arrow batches."""
        pending: list[Sequence[Any]] = []
        for item in self.reader.read(self.partition):
            if isinstance(item, pa.RecordBatch):
                yield _shaped(item, self.schema)
                continue
            pending.append(_in_order(item, self.schema.names))
            if len(pending) >= ROWS_A_BATCH:
                yield self._batch(pending)
                pending = []
        if pending:
            yield self._batch(pending)

    def _batch(self, rows: Sequence[Sequence[Any]]) -> pa.RecordBatch:
        """Values as Spark would make them of the same rows; times without a zone, say, are of the host's."""
        columns = [
            pa.array(map(convert, values), field.type)
            for convert, field, values in zip(
                value_converters(self.spark_schema), self.schema, zip(*rows, strict=True), strict=True
            )
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


class PythonSource:
    """The stream's reader on the driver."""

    def __init__(self, reader: DataSourceStreamReader, schema: pa.Schema, spark_schema: StructType) -> None:
        self.reader = reader
        self.schema, self.spark_schema = schema, spark_schema

    def first(self) -> Offset:
        """Where the stream begins."""
        return dict(self.reader.initialOffset())

    @property
    def counts(self) -> bool:
        """Whether the source tells what it has beyond a batch, by a method ``backlog``, and takes a limit of rows."""
        return hasattr(self.reader, "backlog")

    @property
    def limited(self) -> bool:
        """Whether its options allow a batch so many rows only."""
        return not isinstance(self._limit(), ReadAllAvailable)

    def _limit(self, most: float = inf) -> ReadLimit:
        own = getattr(self.reader, "getDefaultReadLimit", ReadAllAvailable)()
        if most == inf or not self.counts or not isinstance(own, ReadAllAvailable | ReadMaxRows):
            return own
        return ReadMaxRows(int(min(most, rows_allowed(own))))

    def latest(self, start: Offset, most: float = inf) -> Offset:
        """How far a batch that begins at ``start`` may go now, with at most so many rows where the source counts them."""
        try:
            return dict(self.reader.latestOffset(start, self._limit(most)))
        except TypeError:  # the older form has no arguments
            return dict(self.reader.latestOffset())  # type: ignore[call-arg]

    def backlog(self, end: Offset) -> float:
        """Rows that the stream has beyond ``end``; nan where the source does not say (by a method ``backlog``)."""
        tell = getattr(self.reader, "backlog", None)
        rows = None if tell is None else tell(end)
        return nan if rows is None else float(rows)

    def prepare_available_now(self) -> None:
        """What is there now is all there will be."""
        if isinstance(self.reader, SupportsTriggerAvailableNow):
            self.reader.prepareForTriggerAvailableNow()

    def readings(self, start: Offset, end: Offset) -> Sequence[Callable[[], Iterator[pa.RecordBatch]]]:
        """Functions that read the partitions of a batch."""
        parts = self.reader.partitions(start, end)
        return [Read(self.reader, part, self.schema, self.spark_schema) for part in parts]

    def commit(self, end: Offset) -> None:
        """Nothing before ``end`` will be asked for again."""
        self.reader.commit(end)


def python_source_of(frame: DataFrame) -> PythonSource | None:
    """The Python data source that a streaming DataFrame reads, if it does nothing but read one."""
    plan: Any = frame._jdf.queryExecution().analyzed()
    if not plan.getClass().getName().endswith(".StreamingRelationV2"):
        return None
    if not plan.table().getClass().getName().endswith(".PythonTable"):
        return None
    made: Any = frame.sparkSession
    sources = made._jsparkSession.sessionState().dataSourceManager()
    command = sources.lookupDataSource(plan.sourceName()).dataSourceCls().command()
    source_class = pickle.loads(bytes(command.unsafeArray()))
    options = {str(k): str(v) for k, v in plan.extraOptions().asCaseSensitiveMap().items()}
    from pyspark.sql.datasource_internal import _streamReader

    source = source_class(options)
    reader = _streamReader(source, frame.schema)
    if type(reader).__name__ == "_SimpleStreamReaderWrapper":
        return None  # it keeps rows on the driver between calls; Spark knows how to hand them over
    return PythonSource(reader, arrow_schema(frame.schema, "UTC"), frame.schema)


def _shaped(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    if batch.schema.equals(schema):
        return batch
    return single_batch(pa.Table.from_batches([batch]).select(schema.names).cast(schema))


def _in_order(row: Any, names: Sequence[str]) -> Sequence[Any]:
    """The values of a row; a Row with names is taken by these, as Spark does."""
    named = isinstance(row, Row) and hasattr(row, "__fields__")
    return [row[name] for name in names] if named else tuple(row)
