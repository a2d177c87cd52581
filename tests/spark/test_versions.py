"""What stands in for newer releases of Spark gives what those give."""

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

from penstock.spark.versions import arrow_schema, arrow_type, in_zone

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
