"""Messages as columns, without a broker."""

import json
from dataclasses import dataclass

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.errors import PenstockError
from penstock.spark.kafka.messages import parsed


@dataclass
class Sent:
    """A message as the client gives it."""

    body: bytes | None
    number: int = 0

    def key(self):
        return b"k"

    def value(self):
        return self.body

    def topic(self):
        return "t"

    def partition(self):
        return 3

    def offset(self):
        return self.number

    def timestamp(self):
        return 1, 1_000


SCHEMA = pa.schema([("a", pa.int64()), ("b", pa.string()), ("_corrupt_record", pa.string())])


def oracle(body):
    """One message by Python's own parser: its row, or none where it does not fit."""
    try:
        found = json.loads(body)
    except (ValueError, TypeError):
        return None
    if not isinstance(found, dict):
        return None
    a, b = found.get("a"), found.get("b")
    fits = (a is None or type(a) is int) and (b is None or isinstance(b, str))
    return {"a": a, "b": b} if fits else None


numbers = st.none() | st.integers(-(2**63), 2**63 - 1)
good = st.fixed_dictionaries(
    {},
    optional={
        "a": numbers,
        "b": st.none() | st.text(max_size=5),
        "c": st.lists(st.integers(0, 9), max_size=2),
    },
)
bad = st.sampled_from(
    [
        b"",
        b"5",
        b"[1]",
        b"null",
        b"{",
        b'{"a":"x"}',
        b'{"a":1}{"a":2}',
        b'{"a":1}}\n{"m":{"a":2}',
        b"\xff",
        b'{"b":1}',
    ]
)
bodies = st.lists(good.map(lambda d: json.dumps(d, indent=1).encode()) | bad, max_size=20)


@given(bodies)
def test_messages_are_read_as_one_by_one_whatever_is_between_them(values):
    rows = parsed([Sent(v) for v in values], SCHEMA).to_pylist()
    assert len(rows) == len(values)
    for body, row in zip(values, rows, strict=True):
        right = oracle(body)
        if right is None:
            assert row == {"a": None, "b": None, "_corrupt_record": body.decode("utf-8", "replace")}
        else:
            assert row == {**right, "_corrupt_record": None}


def test_columns_tell_where_a_message_came_from():
    schema = pa.schema(
        {
            "_key": pa.string(),
            "_topic": pa.string(),
            "_partition": pa.int32(),
            "_offset": pa.int64(),
            "_timestamp": pa.timestamp("us", tz="UTC"),
            "a": pa.float64(),
        }
    )
    (row,) = parsed([Sent(b'{"a": 2}', 7)], schema).to_pylist()
    assert (row["_key"], row["_topic"], row["_partition"], row["_offset"], row["a"]) == ("k", "t", 3, 7, 2.0)
    assert row["_timestamp"].timestamp() == 1.0


def test_an_empty_message_is_no_row_to_fail_on():
    assert parsed([Sent(None)], SCHEMA).to_pylist() == [{"a": None, "b": None, "_corrupt_record": None}]


def test_types_that_json_cannot_have_are_refused_in_one_sentence():
    with pytest.raises(PenstockError, match="'day' cannot be read from JSON"):
        parsed([], pa.schema([("day", pa.date32())]))
