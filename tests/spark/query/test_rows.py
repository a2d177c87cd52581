"""Which rows can be used."""

from datetime import UTC, datetime

import pyarrow as pa
import pytest

from penstock.core.errors import PenstockError
from penstock.spark.query.routing import check_rows, check_time_column
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


def test_window_bounds_have_the_kind_of_the_time_column():
    assert time_array([1_000_000], time_type(pa.timestamp("us", "UTC"))).to_pylist()[0].year == 1970
    assert time_array(pa.array([1_500_000]).to_numpy(), time_type(pa.float64())).to_pylist() == [1.5]


def test_a_text_is_no_time():
    with pytest.raises(PenstockError, match="must be a timestamp"):
        check_time_column(pa.schema([("t", pa.string())]), "t")
