"""A user's own data for the applications: lines of text files, named columns of CSV and Parquet files, topics of Kafka."""

import gzip
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from penstock.core.errors import PenstockError, unknown

_TABLES = (".csv", ".csv.gz", ".parquet")
_TOPIC = "kafka://"
_SPARK_TYPES = {pa.int64(): "bigint", pa.float64(): "double", pa.string(): "string"}


def is_topic(place: str) -> bool:
    """Whether an ``--input`` is a topic."""
    return place.startswith(_TOPIC)


def topic_lines(spark: Any, place: str) -> Any:
    """A stream of lines: the messages of a topic as texts."""
    return _messages(spark, place).load().selectExpr("CAST(value AS STRING) AS line")


def topic_rows(spark: Any, place: str, columns: Mapping[str, str], schema: pa.Schema) -> Any:
    """A stream of named fields of a topic's messages, which are JSON objects: the schema's name -> theirs."""
    fields = ", ".join(f"`{columns[f.name]}` {_SPARK_TYPES[f.type]}" for f in schema)
    named = [f"`{columns[name]}` AS `{name}`" for name in schema.names]
    return _messages(spark, place).schema(fields).load().selectExpr(*named)


def _messages(spark: Any, place: str) -> Any:
    """Reads a topic from its first message; a run with a ``--checkpoint`` goes on where the one before it ended."""
    servers, topic = _parts(place)
    reader = spark.readStream.format("penstock-kafka").option("kafka.bootstrap.servers", servers)
    return reader.option("subscribe", topic).option("startingOffsets", "earliest")


def _parts(place: str) -> tuple[str, str]:
    """The servers and the topic of an address.

    >>> _parts("kafka://one:9092,two:9092/log")
    ('one:9092,two:9092', 'log')
    """
    found = re.fullmatch(re.escape(_TOPIC) + r"([^/\s]+:\d+)/([\w.-]+)", place)
    if found is None:
        raise PenstockError(f"'{place}' is no topic; write {_TOPIC}HOST:PORT/TOPIC.")
    return found[1], found[2]


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Tell in one sentence why a file or a folder cannot be read."""
    try:
        yield
    except (pa.ArrowException, OSError, EOFError, UnicodeDecodeError, zlib.error) as error:
        reason = (getattr(error, "strerror", None) or str(error)).splitlines()[0].rstrip(".")
        raise PenstockError(
            f"'{path}' cannot be read ({reason}); is it damaged, of another kind, or not for you to read?"
        ) from None


def files_of(place: str) -> list[Path]:
    """The file, or the files of a folder in order of their names."""
    path = Path(place)
    with _reading(path):
        if not path.exists():
            raise PenstockError(f"There is no file or folder '{place}'; --input takes one that is there.")
        if path.is_file():
            return [path]
        files = sorted(p for p in path.iterdir() if p.is_file() and p.name[0] not in "._")
    if not files:
        raise PenstockError(
            f"The folder '{place}' has no files; --input takes a file, or a folder with some."
        )
    return files


def lines_of(place: str, column: str = "") -> list[str]:
    """All lines of text files, plain or gzipped; of CSV and Parquet files the texts of a column."""
    lines: list[str] = []
    for file in files_of(place):
        if file.name.endswith(_TABLES):
            table = _table(file)
            name = _found(table, column or "line", file, "--column")
            with _reading(file):
                lines += [str(text) for text in table.column(name).to_pylist() if text is not None]
            continue
        with _reading(file):
            raw = file.read_bytes()
            text = gzip.decompress(raw) if file.suffix == ".gz" else raw
        lines += text.decode(errors="replace").splitlines()
    if not lines:
        raise PenstockError(f"'{place}' has no lines; --input takes data to work on.")
    return lines


def table_of(place: str, columns: Mapping[str, str], schema: pa.Schema) -> pa.Table:
    """Named columns of CSV or Parquet files, in the types of the schema: its name -> theirs."""
    pieces = []
    for file in files_of(place):
        if not file.name.endswith(_TABLES):
            raise PenstockError(
                f"'{file}' is no CSV or Parquet file ({', '.join(_TABLES)}); give one of these."
            )
        table = _table(file)
        chosen = {
            name: table.column(_found(table, columns[name], file, f"--{name}")) for name in schema.names
        }
        try:
            pieces.append(pa.table(chosen).cast(schema, safe=False))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise PenstockError(
                f"The columns of '{file}' are not what the application takes: {error}."
            ) from None
    return pa.concat_tables(pieces).combine_chunks()


def _table(file: Path) -> pa.Table:
    with _reading(file):
        table = pq.read_table(file) if file.suffix == ".parquet" else pacsv.read_csv(file)
        _ = table.column_names  # names that are no UTF-8 show here
    return table


def _found(table: pa.Table, name: str, file: Path, option: str) -> str:
    names: Sequence[str] = table.column_names
    if name not in names:
        raise PenstockError(f"{unknown(f'column of {file.name}', name, names)} Name it with {option}.")
    if names.count(name) > 1:
        raise PenstockError(f"'{file}' has the column '{name}' twice; rename one of them.")
    return name
