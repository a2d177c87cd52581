"""Rows of a stream as the query sees them: event times in microseconds, and which rows cannot be used and why."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from penstock.core.errors import PenstockError, unknown

#: Event times from here on (about the year 9999) cannot be timestamps of Spark's.
LATEST_US = 253_402_300_800_000_000

#: Integers beyond this are not exact as float64, in which rows are compared.
EXACT = 2**53

Times = NDArray[np.int64]
_Problem = tuple[NDArray[np.bool_], str]


@dataclass(frozen=True)
class Checked:
    """A record batch's usable rows with their times, and the other rows with a reason each."""

    rows: pa.RecordBatch
    times: Times
    bad: pa.RecordBatch | None = None
    reasons: tuple[str, ...] = ()


def check_rows(batch: pa.RecordBatch, time: str, attributes: Sequence[str]) -> Checked:
    """Tell usable rows from bad ones: the time and every attribute must be there and be a number.

    >>> batch = pa.record_batch({"t": [1.0, None], "price": [3.0, float("nan")]})
    >>> checked = check_rows(batch, "t", ["price"])
    >>> checked.times.tolist(), checked.reasons
    ([1000000], ('t is null; price is not a number',))
    """
    times, problems = _times(batch.column(time), time)
    for name in attributes:
        problems += _missing(batch.column(name), name)
    if not problems:
        return Checked(batch, times)
    bad = np.logical_or.reduce([mask for mask, _ in problems])
    reasons = ["; ".join(word for mask, word in problems if mask[row]) for row in np.flatnonzero(bad)]
    return Checked(batch.filter(pa.array(~bad)), times[~bad], batch.filter(pa.array(bad)), tuple(reasons))


def check_time_column(schema: pa.Schema, time: str) -> None:
    """Raise unless the column exists and can be an event time."""
    if time not in schema.names:
        raise unknown("time column", time, schema.names)
    kind = schema.field(time).type
    if not (pa.types.is_timestamp(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        raise PenstockError(
            f"The time column '{time}' is {kind}; it must be a timestamp, or a number of seconds since 1970."
        )


def time_type(like: pa.DataType) -> pa.DataType:
    """The type of ``window_start`` and ``window_end`` for a time column of this type: timestamps or seconds."""
    return pa.timestamp("us", like.tz) if pa.types.is_timestamp(like) else pa.float64()


def time_array(us: Times, kind: pa.DataType) -> pa.Array:
    """Microseconds as an array of what :func:`time_type` gave."""
    if pa.types.is_timestamp(kind):
        return pa.array(us, pa.int64()).cast(kind)
    return pa.array(us / 1e6, kind)


def _times(column: pa.Array, name: str) -> tuple[Times, list[_Problem]]:
    problems = _missing(column, name)
    if pa.types.is_timestamp(column.type):
        us = _filled(column.cast(pa.timestamp("us", column.type.tz), safe=False).cast(pa.int64()))
    else:
        seconds = np.nan_to_num(_filled(column.cast(pa.float64(), safe=False)), nan=0.0)
        us = np.rint(np.clip(seconds, -1.0, LATEST_US / 1e6) * 1e6).astype(np.int64)
    early, late = us < 0, us >= LATEST_US
    if early.any():
        problems.append((early, f"{name} is before 1970"))
    if late.any():
        problems.append((late, f"{name} is after the year 9999"))
    return us, problems


def _missing(column: pa.Array, name: str) -> list[_Problem]:
    problems: list[_Problem] = []
    if column.null_count:
        problems.append((pc.is_null(column).to_numpy(zero_copy_only=False), f"{name} is null"))
    if pa.types.is_floating(column.type):
        _add(problems, np.isnan(_filled(column)), f"{name} is not a number")
    elif pa.types.is_int64(column.type) or pa.types.is_uint64(column.type):
        values = _filled(column)
        _add(problems, (values > EXACT) | (values < -EXACT), f"{name} is an integer beyond 2^53")
    return problems


def _add(problems: list[_Problem], mask: NDArray[np.bool_], reason: str) -> None:
    if mask.any():
        problems.append((mask, reason))


def _filled(column: pa.Array) -> Any:
    return (column.fill_null(0) if column.null_count else column).to_numpy(zero_copy_only=False)
