"""Messages of a topic as Arrow columns.

Without a schema they have the columns of Spark's own Kafka source. With one, each message is a JSON object with a field
for each column; ``_key``, ``_topic``, ``_partition``, ``_offset`` and ``_timestamp`` tell where it came from, and
``_corrupt_record`` has the text of messages that could not be read, whose other columns are null.
"""

from collections.abc import Sequence
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.json as pj

from penstock.core.errors import PenstockError

#: The columns of Spark's own source, in Spark's spelling.
SPARK_COLUMNS = "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int"

CORRUPT = "_corrupt_record"
_ORIGINS = ("_key", "_topic", "_partition", "_offset", "_timestamp")


class KafkaMessage(Protocol):
    """One record of a topic, as the client gives it."""

    def key(self) -> bytes | None:
        """What decides on the partition."""

    def value(self) -> bytes | None:
        """The message itself."""

    def topic(self) -> str:
        """The topic's name."""

    def partition(self) -> int:
        """Number of the partition."""

    def offset(self) -> int:
        """Number within the partition."""

    def timestamp(self) -> tuple[int, int]:
        """Who gave it (1: the producer, 2: the broker), and milliseconds since 1970."""


def fields_of(schema: pa.Schema) -> list[pa.Field]:
    """The columns of a schema that messages bring themselves; refuses types that JSON cannot have."""
    own = [f for f in schema if f.name not in (*_ORIGINS, CORRUPT)]
    for field in own:
        if pa.types.is_map(field.type) or pa.types.is_date(field.type):
            raise PenstockError(
                f"The column '{field.name}' cannot be read from JSON as {field.type}; read it as a string and convert it."
            )
    return own


def parsed(messages: Sequence[KafkaMessage], schema: pa.Schema) -> pa.RecordBatch:
    """Messages as rows of a schema that the user gave."""
    values = [m.value() for m in messages]
    rows, corrupt = _objects(values, fields_of(schema))
    columns = []
    for field in schema:
        if field.name == CORRUPT:
            texts = [
                v.decode("utf-8", "replace") if bad and v is not None else None
                for v, bad in zip(values, corrupt, strict=True)
            ]
            columns.append(pa.array(texts, field.type))
        elif field.name in _ORIGINS:
            columns.append(_origin(messages, field))
        else:
            columns.append(rows.column(field.name))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def unparsed(messages: Sequence[KafkaMessage], schema: pa.Schema) -> pa.RecordBatch:
    """Messages as rows with the columns of Spark's own source."""
    columns: dict[str, Any] = {
        "key": [m.key() for m in messages],
        "value": [m.value() for m in messages],
        "topic": [m.topic() for m in messages],
        "partition": [m.partition() for m in messages],
        "offset": [m.offset() for m in messages],
        "timestamp": [m.timestamp()[1] * 1000 for m in messages],
        "timestampType": [m.timestamp()[0] - 1 for m in messages],  # as Spark numbers them
    }
    return pa.RecordBatch.from_arrays([pa.array(columns[f.name], f.type) for f in schema], schema=schema)


def _origin(messages: Sequence[KafkaMessage], field: pa.Field) -> pa.Array:
    name = field.name[1:]
    if name == "timestamp":
        micros = pa.array([m.timestamp()[1] * 1000 for m in messages], pa.int64())
        return micros.cast(pa.timestamp("us", tz="UTC")).cast(field.type)
    values = [getattr(m, name)() for m in messages]
    if name == "key" and pa.types.is_string(field.type):
        values = [None if v is None else v.decode("utf-8", "replace") for v in values]
    return pa.array(values, field.type)


def _objects(values: Sequence[bytes | None], fields: list[pa.Field]) -> tuple[pa.RecordBatch, list[bool]]:
    """The JSON objects as columns, null where a message is none; and which messages are none.

    All are read at once; where that fails, each half on its own, so that few bad messages cost little.
    """
    if not values:
        return pa.RecordBatch.from_pylist([], pa.schema(fields)), []
    found = _read(values, fields) if None not in values else None
    if found is not None:
        return found, [False] * len(values)
    if len(values) == 1:
        nothing = [pa.nulls(1, f.type) for f in fields]
        return pa.RecordBatch.from_arrays(nothing, schema=pa.schema(fields)), [True]
    half = len(values) // 2
    (left, bad_left), (right, bad_right) = _objects(values[:half], fields), _objects(values[half:], fields)
    table = pa.Table.from_batches([left, right]).combine_chunks()
    return table.to_batches()[0], bad_left + bad_right


def _read(values: Sequence[bytes | None], fields: list[pa.Field]) -> pa.RecordBatch | None:
    """The objects, or None where one of the messages is no object that fits."""
    # Each message is one member of an object of our own: two objects in one message, or half of one, are errors.
    body = b'{"m":' + b'}\n{"m":'.join(values) + b"}"  # type: ignore[arg-type]  # none of them is None
    try:
        table = pj.read_json(
            pa.BufferReader(body),
            pj.ReadOptions(use_threads=False, block_size=len(body) + 1),
            pj.ParseOptions(
                explicit_schema=pa.schema([("m", pa.struct(fields))]),
                newlines_in_values=True,
                unexpected_field_behavior="ignore",
            ),
        )
    except pa.ArrowInvalid:
        return None
    objects = table.column("m").combine_chunks()
    objects = objects.chunk(0) if isinstance(objects, pa.ChunkedArray) else objects
    if len(objects) != len(values) or objects.null_count:
        return None
    batch = pa.RecordBatch.from_arrays(objects.flatten(), schema=pa.schema(fields))
    try:
        batch.validate(full=True)  # JSON may hold bytes that are no text
    except pa.ArrowInvalid:
        return None
    return batch
