"""Which rows can be used."""

from datetime import UTC, datetime

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.errors import PenstockError
from penstock.preference.points import minimize, points_of
from penstock.spark.query.routing import UNITS, check_rows, check_time_column
from penstock.spark.query.window_rows import time_array, time_type


def reasons(times, values, kind):
    batch = pa.record_batch({"t": times, "x": pa.array(values, kind)})
    return check_rows(batch, "t", ["x"]).reasons


SECONDS = pa.array([1.0])


@pytest.mark.parametrize(
    ("times", "values", "kind", "reason"),
    [
        (pa.array([None], pa.float64()), [1.0], pa.float64(), "t is null"),
        (pa.array([float("nan")]), [1.0], pa.float64(), "t is not a number"),
        (pa.array([-1.0]), [1.0], pa.float64(), "t is before 1970"),
        (pa.array([1e15]), [1.0], pa.float64(), "t is after the year 9999"),
        (pa.array([float("inf")]), [1.0], pa.float64(), "t is after the year 9999"),
        (SECONDS, [None], pa.float64(), "x is null"),
        (SECONDS, [float("nan")], pa.float64(), "x is not a number"),
        (SECONDS, [2**60], pa.int64(), "x is an integer beyond 2^53"),
        (SECONDS, [datetime(9999, 12, 31)], pa.timestamp("us", "UTC"), "x is a time beyond 2^53 us"),
        (SECONDS, [2**60], pa.duration("us"), "x is a time beyond 2^53 us"),
    ],
)
def test_a_row_that_cannot_be_used_says_why(times, values, kind, reason):
    assert reason in reasons(times, values, kind)[0]


def test_good_rows_pass_untouched():
    batch = pa.record_batch({"t": pa.array([0, 7], pa.int64()), "x": [1.5, float("inf")]})
    checked = check_rows(batch, "t", ["x"])
    assert checked.rows is batch
    assert checked.bad is None
    assert checked.times.tolist() == [0, 7_000_000]


def test_timestamps_of_any_unit_become_microseconds():
    for unit in ("s", "ms", "us", "ns"):
        column = pa.array([datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)], pa.timestamp(unit, "UTC"))
        assert check_rows(pa.record_batch({"t": column}), "t", []).times.tolist() == [1_000_000]


def test_times_finer_than_a_microsecond_or_beyond_all_are_read_too():
    finer = pa.record_batch({"t": pa.array([1_999, 2_001], pa.timestamp("ns"))})
    assert check_rows(finer, "t", []).times.tolist() == [1, 2]
    beyond = pa.record_batch({"t": pa.array([3, 2**64 - 1], pa.uint64())})
    checked = check_rows(beyond, "t", [])
    assert checked.times.tolist() == [3_000_000]
    assert len(checked.reasons) == 1


def test_window_bounds_are_timestamps_whatever_the_time_column_is():
    for kind in (pa.timestamp("us", "UTC"), pa.float64(), pa.int32()):
        bounds = time_array(pa.array([1_500_000]).to_numpy(), time_type(kind))
        assert bounds.to_pylist() == [datetime(1970, 1, 1, 0, 0, 1, 500_000, tzinfo=UTC)]
    assert time_type(pa.timestamp("us")) == pa.timestamp("us")


def test_a_text_is_no_time():
    with pytest.raises(PenstockError, match="must be a timestamp"):
        check_time_column(pa.schema([("t", pa.string())]), "t")


@pytest.mark.parametrize("unit", UNITS)
@given(us=st.lists(st.integers(0, 9_000_000_000_000_000), min_size=1, max_size=20), as_float=st.booleans())
def test_times_that_are_numbers_are_the_same_in_every_unit(unit, us, as_float):
    up, down = UNITS[unit]
    if as_float:
        us = [t % 4_000_000_000_000 for t in us]  # so that a double can tell them, in nanoseconds too
    numbers = [t // up * down for t in us]
    column = pa.array(numbers, pa.float64() if as_float else pa.int64())
    found = check_rows(pa.record_batch({"t": column}), "t", (), unit)
    assert found.bad is None
    assert found.times.tolist() == [t // up * up for t in us]


@pytest.mark.parametrize("unit", UNITS)
def test_numbers_that_are_no_time_are_told(unit):
    numbers = pa.array([5 * UNITS[unit][1], None, -5000, 2**63 - 1], pa.int64())
    found = check_rows(pa.record_batch({"t": numbers}), "t", (), unit)
    late = ("t is after the year 9999",) if unit != "nanoseconds" else ()  # 2^63 of them end in 2262
    assert found.reasons == ("t is null", "t is before 1970", *late)
    assert len(found.times) == 2 - len(late)


@pytest.mark.parametrize("kind", [pa.timestamp("ms"), pa.int32(), pa.uint64(), pa.float32()])
def test_a_time_may_be_a_timestamp_or_any_number(kind):
    check_time_column(pa.schema([("t", kind)]), "t")


def test_a_time_column_that_is_not_there_or_no_time_is_told_with_what_could_be():
    schema = pa.schema([("when", pa.string())])
    with pytest.raises(PenstockError, match=r"time column.*'t'.*when"):
        check_time_column(schema, "t")
    with pytest.raises(
        PenstockError,
        match=r"'when' is string; it must be a timestamp, or a number \(unit='seconds', 'milliseconds', 'microseconds' "
        r"or 'nanoseconds' since 1970\)\.$",
    ):
        check_time_column(schema, "when")


def test_what_can_be_used_has_points():
    times = pa.array([0, 2**53, None, 2**53 + 1, -(2**53) - 1], pa.int64()).cast(pa.timestamp("us", "UTC"))
    checked = check_rows(pa.record_batch({"t": [1] * 5, "x": times}), "t", ["x"])
    assert points_of(checked.rows, [minimize("x")])[:, 0].tolist() == [0.0, 2.0**53]
    assert checked.bad.num_rows == 3


@pytest.mark.parametrize("kind", [pa.int64(), pa.uint64()])
def test_whole_numbers_are_used_as_far_as_a_float_tells_them_apart(kind):
    low = 0 if kind == pa.uint64() else -(2**53)
    good, bad = [low, 5, 2**53], [2**53 + 1] if low == 0 else [2**53 + 1, low - 1]
    batch = pa.record_batch({"t": [1] * (3 + len(bad)), "x": pa.array([*good, *bad], kind)})
    checked = check_rows(batch, "t", ["x"])
    assert checked.rows["x"].to_pylist() == good
    assert checked.reasons == ("x is an integer beyond 2^53",) * len(bad)
