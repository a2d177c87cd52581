"""What stands in for newer releases of Spark gives what those give."""

from datetime import UTC, datetime, timedelta, timezone

from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import (
    ArrayType,
    DoubleType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from penstock.spark import versions
from penstock.spark.versions import arrow_schema, arrow_type, in_zone, value_converters

PLAIN = st.sampled_from([TimestampType(), TimestampNTZType(), LongType(), DoubleType(), StringType()])
TYPES = st.recursive(
    PLAIN,
    lambda inner: st.one_of(
        st.builds(ArrayType, inner, st.booleans()),
        st.builds(lambda key, value: MapType(key, value), PLAIN, inner),
        st.lists(inner, min_size=1, max_size=3).map(
            lambda kinds: StructType([StructField(f"c{i}", kind) for i, kind in enumerate(kinds)])
        ),
    ),
    max_leaves=5,
)


@given(TYPES)
def test_types_in_utc_are_brought_to_a_time_zone_as_newer_releases_have_them(kind):
    assert in_zone(arrow_type(kind, "UTC"), "Europe/Rome") == arrow_type(kind, "Europe/Rome")


def test_a_schema_keeps_names_and_whether_nulls_may_be():
    schema = StructType([StructField("at", TimestampType(), False), StructField("n", LongType())])
    made = arrow_schema(schema, "Europe/Rome")
    assert [(f.name, f.nullable) for f in made] == [("at", False), ("n", True)]
    assert made.field("at").type.tz == "Europe/Rome"


def test_values_are_made_as_spark_makes_them_where_its_converters_cannot_be_had(monkeypatch):
    schema = StructType([
        StructField("at", TimestampType()), StructField("local", TimestampNTZType()), StructField("n", LongType())
    ])  # fmt: skip
    rows = [
        (datetime(2026, 6, 1, 12), datetime(2026, 6, 1, 12), 1),
        (datetime(2026, 1, 1, tzinfo=timezone(timedelta(hours=3))), None, None),
        (datetime(2026, 1, 1, tzinfo=UTC), None, 2),
    ]

    def made():
        return [
            [convert(value) for convert, value in zip(value_converters(schema), row, strict=True)]
            for row in rows
        ]

    spark = made()

    def none(name):
        raise ImportError(name)

    monkeypatch.setattr(versions, "import_module", none)
    assert made() == spark
