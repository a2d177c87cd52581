"""What newer releases of Spark add, with what stands in for it on older ones: Spark 4.0 is the oldest."""

import inspect
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import import_module
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas import types as spark_types
from pyspark.sql.types import DataType, StructType, TimestampType

if TYPE_CHECKING:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable as ReadAllAvailable,
    )
    from pyspark.sql.streaming.datasource import (
        ReadLimit as ReadLimit,
    )
    from pyspark.sql.streaming.datasource import (
        ReadMaxRows as ReadMaxRows,
    )
    from pyspark.sql.streaming.datasource import (
        SupportsTriggerAvailableNow as SupportsTriggerAvailableNow,
    )
else:
    try:
        from pyspark.sql.streaming.datasource import (
            ReadAllAvailable,
            ReadLimit,
            ReadMaxRows,
            SupportsTriggerAvailableNow,
        )
    except ImportError:  # where Spark asks a Python source for all there is; our own loop asks for less

        class ReadLimit:
            """How much a batch may take."""

        class ReadAllAvailable(ReadLimit):
            """All there is."""

        @dataclass(frozen=True)
        class ReadMaxRows(ReadLimit):
            """So many rows."""

            max_rows: int

        class SupportsTriggerAvailableNow:
            """Can be told that what is there now is all there will be."""


#: Whether Spark can be told the time zone of timestamps in Arrow; older ones write UTC.
_ZONES = "timezone" in inspect.signature(spark_types.to_arrow_type).parameters


def arrow_schema(schema: StructType, zone: str) -> pa.Schema:
    """The columns in Arrow's types, with timestamps in a time zone."""
    if _ZONES:
        return spark_types.to_arrow_schema(schema, timezone=zone)
    return pa.schema([pa.field(f.name, arrow_type(f.dataType, zone), f.nullable) for f in schema.fields])


def arrow_type(kind: DataType, zone: str) -> pa.DataType:
    """A type in Arrow, with timestamps in a time zone.

    >>> from pyspark.sql.types import ArrayType, TimestampType
    >>> print(arrow_type(ArrayType(TimestampType()), "Europe/Rome"))
    list<element: timestamp[us, tz=Europe/Rome]>
    """
    to_arrow: Any = spark_types.to_arrow_type  # its words differ between releases
    return to_arrow(kind, timezone=zone) if _ZONES else in_zone(to_arrow(kind), zone)


def in_zone(kind: pa.DataType, zone: str) -> pa.DataType:
    """The same type with timestamps of UTC, at any depth, in another time zone.

    >>> print(in_zone(pa.struct([("at", pa.timestamp("us", "UTC")), ("n", pa.int64())]), "Europe/Rome"))
    struct<at: timestamp[us, tz=Europe/Rome], n: int64>
    """
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return pa.timestamp(kind.unit, zone)
    if pa.types.is_list(kind):
        return pa.list_(_field_in_zone(kind.value_field, zone))
    if pa.types.is_struct(kind):
        return pa.struct([_field_in_zone(field, zone) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(_field_in_zone(kind.key_field, zone), _field_in_zone(kind.item_field, zone))
    return kind


def _field_in_zone(field: pa.Field, zone: str) -> pa.Field:
    return field.with_type(in_zone(field.type, zone))


def value_converters(schema: StructType) -> list[Callable[[Any], Any]]:
    """What Spark does to the Python values of each column before Arrow takes them: times without a zone are the host's."""
    for module in ("pyspark.sql.conversion", "pyspark.sql.connect.conversion"):  # the latter before Spark 4.1
        with suppress(ImportError):  # Connect needs packages that others do without
            conversion = import_module(module).LocalDataToArrowConversion
            return [conversion._create_converter(field.dataType) for field in schema.fields]
    return [
        _of_the_host if isinstance(field.dataType, TimestampType) else _as_it_is for field in schema.fields
    ]


def _of_the_host(value: Any) -> Any:
    return value.astimezone(UTC) if isinstance(value, datetime) and value.tzinfo is None else value


def _as_it_is(value: Any) -> Any:
    return value


def to_workers(frame: DataFrame, tasks: int) -> DataFrame:
    """The rows in partitions by their number in the column ``worker``."""
    if hasattr(frame, "repartitionById"):
        return frame.repartitionById(tasks, "worker")
    # Spark goes by the hash of a column, so each worker gets a number that hashes to its partition.
    keys = F.array(*[F.lit(key) for key in keys_of_partitions(tasks)])
    return frame.repartition(tasks, F.element_at(keys, F.col("worker") + 1))


def keys_of_partitions(tasks: int) -> list[int]:
    """For each partition a number that Spark's hash puts there.

    >>> [_murmur3(key) % 3 for key in keys_of_partitions(3)]
    [0, 1, 2]
    """
    found: dict[int, int] = {}
    key = 0
    while len(found) < tasks:
        found.setdefault(_murmur3(key) % tasks, key)
        key += 1
    return [found[partition] for partition in range(tasks)]


def _murmur3(value: int, seed: int = 42) -> int:
    """Spark's hash of an integer column, as a signed number.

    >>> _murmur3(0), _murmur3(1)
    (933211791, -559580957)
    """
    mask = 0xFFFFFFFF

    def rotated(x: int, by: int) -> int:
        return ((x << by) | (x >> (32 - by))) & mask

    mixed = (rotated((value & mask) * 0xCC9E2D51 & mask, 15) * 0x1B873593) & mask
    hashed = (rotated(seed ^ mixed, 13) * 5 + 0xE6546B64) & mask
    hashed ^= 4  # the length in bytes
    hashed = ((hashed ^ (hashed >> 16)) * 0x85EBCA6B) & mask
    hashed = ((hashed ^ (hashed >> 13)) * 0xC2B2AE35) & mask
    hashed ^= hashed >> 16
    return hashed - (1 << 32) if hashed >> 31 else hashed
