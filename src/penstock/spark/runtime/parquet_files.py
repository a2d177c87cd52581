"""Streams of Parquet files, read by the resident workers: Spark lists the files and keeps the offsets, nothing more.

The rows of such a stream take most of their way through the JVM: decoded to Spark's rows, written as Arrow, brought to
the driver, sent to a worker. Spark's plan of a micro-batch names its files, so the workers can read them as Arrow from the
start. This is done where the rows come out the same without doubt: a stream that does nothing but read Parquet files from
a file system that is mounted, with columns whose types are exactly the ones asked for. Everything else Spark reads.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from py4j.protocol import Py4JError
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from penstock.core.errors import PenstockError
from penstock.spark.runtime.engine import BatchRows
from penstock.spark.versions import arrow_schema

#: Each file takes the driver a millisecond to look at; with more of them Spark's own tasks are the better way.
MOST_FILES = 64
#: A row group is cut only into pieces of at least so many rows, since every piece decodes all of it.
PIECE_ROWS = 65_536
#: Options of the stream, in lower case, under which Spark reads files otherwise than as they are.
ALTERING = (
    "ignorecorruptfiles",
    "ignoremissingfiles",
    "datetimerebasemode",
    "int96rebasemode",
    "mergeschema",
)
#: The same for the session.
ALTERING_SETTINGS = (
    "spark.sql.files.ignoreCorruptFiles",
    "spark.sql.files.ignoreMissingFiles",
    "spark.sql.parquet.fieldId.read.enabled",
)
#: What Spark writes into files whose old dates follow another calendar.
LEGACY = (b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96")

_INT96 = "us"


class Piece(NamedTuple):
    """Rows of one file: whole row groups, or one slice of a single one (the ``part``-th of ``parts``)."""

    path: str
    groups: tuple[int, ...]
    part: int = 0
    parts: int = 1


@dataclass(frozen=True)
class ReadPiece:
    """Read a piece: what a worker calls."""

    piece: Piece
    schema: pa.Schema

    def __call__(self) -> Iterator[pa.RecordBatch]:
        """The rows, with the columns and types of the stream."""
        path, groups, part, parts = self.piece
        try:
            file = pq.ParquetFile(path, memory_map=True, coerce_int96_timestamp_unit=_INT96)
            columns = [name for name in self.schema.names if name in file.schema_arrow.names]
            for group in groups:
                rows = file.read_row_group(group, columns=columns, use_threads=False)
                first, end = (rows.num_rows * p // parts for p in (part, part + 1))
                shaped = _shaped(rows.slice(first, end - first), self.schema)
                yield from shaped.combine_chunks().to_batches()
        except (OSError, pa.ArrowException) as error:
            raise PenstockError(
                f"The file '{path}' of the stream cannot be read ({error}); put it back, or start with a new checkpoint folder."
            ) from None


class ParquetFiles:
    """A stream of Parquet files: tells of each micro-batch how workers read it."""

    def __init__(self, schema: pa.Schema, spark_schema: StructType) -> None:
        self.schema, self.spark_schema = schema, spark_schema

    def rows(self, frame: DataFrame, workers: int) -> tuple[BatchRows, int] | None:
        """The rows of a micro-batch as readings, and how many they are; None where Spark has to read them."""
        try:
            paths = _paths(frame)
            footers = {path: _footer(path, self.schema) for path in paths or ()}
        except (OSError, pa.ArrowException):
            return None  # Spark says what is wrong with it, in the words that its users know
        if not footers or any(footer is None for footer in footers.values()):
            return None
        known = {path: footer for path, footer in footers.items() if footer is not None}
        count = sum(sum(groups) for groups in known.values())
        readings = [ReadPiece(piece, self.schema) for piece in pieces(known, workers)]
        return (BatchRows(readings=readings, schema=self.spark_schema), count) if count else None


def parquet_files_of(frame: DataFrame) -> ParquetFiles | None:
    """The Parquet files that a streaming DataFrame reads, if it does nothing but read them and choose columns."""
    plan: Any = frame._jdf.queryExecution().analyzed()
    while (kind := _kind(plan)) == "Project" and _only_columns(plan):
        plan = plan.child()
    if kind != "StreamingRelation":
        return None
    source = plan.dataSource()
    if str(source.className()).lower() != "parquet":
        return None
    options = {str(key).lower() for key in source.options().keySet().mkString("\n").split("\n")}
    settings = frame.sparkSession.conf
    if options & set(ALTERING) or any(settings.get(name, "false") == "true" for name in ALTERING_SETTINGS):
        return None
    if any(set(field.metadata) - {"comment"} for field in frame.schema):
        return None  # a length to pad to, a value where there is none: Spark knows
    schema = arrow_schema(frame.schema, "UTC")
    if any(pa.types.is_nested(field.type) for field in schema) or len(set(schema.names)) < len(schema):
        return None
    return ParquetFiles(schema, frame.schema)


def pieces(files: Mapping[str, Sequence[int]], workers: int) -> list[Piece]:
    """How the row groups of files (their rows, by path) are dealt out: a piece each, large ones cut where they are few.

    >>> pieces({"a": [10, 10], "b": [5]}, 2)
    [Piece(path='a', groups=(0,), part=0, parts=1), Piece(path='a', groups=(1,), part=0, parts=1), \
Piece(path='b', groups=(0,), part=0, parts=1)]
    >>> [(p.part, p.parts) for p in pieces({"a": [1_000_000]}, 2)]
    [(0, 2), (1, 2)]
    """
    groups = [
        (path, number, rows) for path, sizes in files.items() for number, rows in enumerate(sizes) if rows
    ]
    cut = max(1, workers // len(groups)) if groups else 1
    made = []
    for path, number, rows in groups:
        parts = min(cut, max(1, rows // PIECE_ROWS))
        made += [Piece(path, (number,), part, parts) for part in range(parts)]
    return made


def count_input_rows(query: Any, rows: int) -> bool:
    """Tell Spark how many rows its scan of the current micro-batch would have given out, for its own account.

    Gives False where this release of Spark takes no such word: it has to read the rows itself, to count them.
    """
    try:
        leaves = query._jsq.streamingQuery().lastExecution().executedPlan().collectLeaves()
        leaves.head().metrics().apply("numOutputRows").add(rows)
    except Py4JError:
        return False
    return True


def _paths(frame: DataFrame) -> list[str] | None:
    """The files of a micro-batch; None where the plan does not name them or they are not on a mounted file system."""
    plan: Any = frame._jdf.queryExecution().logical()
    if _kind(plan) != "LogicalRDD":
        return None
    found: dict[str, None] = {}
    for partition in plan.rdd().partitions():
        if _kind(partition) != "FilePartition":
            return None
        for file in partition.files():
            path = str(file.filePath().toPath().toString())
            if not path.startswith("file:/") or (not found and file.partitionValues().numFields()):
                return None
            found["/" + path.removeprefix("file:").lstrip("/")] = None
            if len(found) > MOST_FILES:
                return None
    return list(found)


def _footer(path: str, wanted: pa.Schema) -> list[int] | None:
    """The rows of each row group; None where Spark would make something else of the file's columns."""
    file = pq.ParquetFile(path, coerce_int96_timestamp_unit=_INT96)
    there, about = file.schema_arrow, file.metadata
    if about.num_columns != len(there.names):
        return None  # columns within columns
    notes = about.metadata or {}
    if any(key in notes for key in LEGACY) or notes.get(b"org.apache.spark.version", b"4").startswith(b"2."):
        return None
    lower = [name.lower() for name in there.names]
    for field in wanted:
        if lower.count(field.name.lower()) > 1:
            return None
        if field.name in there.names:
            number = there.get_field_index(field.name)
            if not _same(there.field(number).type, field.type, about.schema.column(number).physical_type):
                return None
        elif field.name.lower() in lower:
            return None
    return [about.row_group(number).num_rows for number in range(about.num_row_groups)]


def _same(there: pa.DataType, wanted: pa.DataType, physical: str) -> bool:
    if pa.types.is_timestamp(wanted) and wanted.tz is not None and pa.types.is_timestamp(there):
        return physical == "INT96" or (there.tz is not None and there.unit in ("ms", "us"))
    if pa.types.is_timestamp(wanted) and physical == "INT96":
        return False
    if pa.types.is_string(wanted) or pa.types.is_large_string(wanted):
        return bool(pa.types.is_string(there) or pa.types.is_large_string(there))
    return bool(there == wanted)


def _shaped(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """The columns in the order and of the types of the stream; what the file does not have is null."""
    columns = [
        rows.column(field.name).cast(field.type)
        if field.name in rows.column_names
        else pa.nulls(rows.num_rows, field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def _only_columns(project: Any) -> bool:
    chosen = project.projectList()
    return all(_kind(chosen.apply(at)) == "AttributeReference" for at in range(chosen.size()))


def _kind(java: Any) -> str:
    return str(java.getClass().getSimpleName())
