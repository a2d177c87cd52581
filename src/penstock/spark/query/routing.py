"""The first stage: check rows, count what is late, and send every row to the pane worker that is to have it.

Event times become microseconds, and rows that cannot be used become dead letters. The stage makes no second pass over the
batch: each input partition follows the driver's :class:`~penstock.preference.routing_plan.RoutingPlan` by itself. What
travels between the stages are a few large Arrow messages, not rows: Spark shuffles one row per worker and input partition.
"""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark.sql.types import BinaryType, IntegerType, StringType, StructType

from penstock.core.arrays import Ints
from penstock.core.belief import Limits, Lookout, too_far_behind
from penstock.core.errors import PenstockError, unknown
from penstock.core.grouping import numbered, stable_order
from penstock.disorder.stats import BatchStats, partition_stats
from penstock.preference.routing_plan import RoutingPlan
from penstock.spark.query.reports import TallyReport
from penstock.spark.runtime.arrow_data import (
    binary_column,
    from_buffer,
    gathered,
    to_buffer,
    with_reason,
    write_parquet,
)
from penstock.spark.runtime.task import attempt_id, partition_id

#: Event times from here on (about the year 9999) cannot be timestamps of Spark's.
LATEST_US = 253_402_300_800_000_000

#: Integers beyond this are not exact as float64, in which rows are compared.
EXACT = 2**53

Times = Ints
_Problem = tuple[NDArray[np.bool_], str]


#: What the stage emits: one message a row. ``source`` and ``number`` give messages an order that a replay repeats.
#: A type and not a text, which the JVM would be asked to parse in every batch.
MESSAGE_SCHEMA = (
    StructType()
    .add("worker", IntegerType())
    .add("kind", StringType())
    .add("source", IntegerType())
    .add("number", IntegerType())
    .add("payload", BinaryType())
)

#: Rows gathered before they are routed: large enough for few messages, small enough for a bounded memory.
CHUNK_ROWS = 262_144

#: From rows and their panes to fewer rows and the panes of these.
Lift = Callable[[pa.RecordBatch, Times], tuple[pa.Table | pa.RecordBatch, Times]]


@dataclass(frozen=True)
class Checked:
    """A record batch's usable rows with their times, and the other rows with a reason each."""

    rows: pa.RecordBatch
    times: Times
    bad: pa.RecordBatch | None = None
    reasons: tuple[str, ...] = ()


def check_rows(batch: pa.RecordBatch, time: str, attributes: Sequence[str], unit: str = "seconds") -> Checked:
    """Tell usable rows from bad ones: the time and every attribute must be there and be a number.

    ``unit`` is what a time counts that is no timestamp, since 1970.

    >>> batch = pa.record_batch({"t": [1.0, None], "price": [3.0, float("nan")]})
    >>> checked = check_rows(batch, "t", ["price"])
    >>> checked.times.tolist(), checked.reasons
    ([1000000], ('t is null; price is not a number',))
    """
    times, problems = _times(batch.column(time), time, unit)
    for name in attributes:
        problems += _missing(batch.column(name), name)
    if not problems:
        return Checked(batch, times)
    bad = np.logical_or.reduce([mask for mask, _ in problems])
    reasons = ["; ".join(word for mask, word in problems if mask[row]) for row in np.flatnonzero(bad)]
    return Checked(batch.filter(pa.array(~bad)), times[~bad], batch.filter(pa.array(bad)), tuple(reasons))


#: Microseconds of a time that counts this unit: so many for each so many.
UNITS = {
    "seconds": (1_000_000, 1),
    "milliseconds": (1000, 1),
    "microseconds": (1, 1),
    "nanoseconds": (1, 1000),
}


def check_time_column(schema: pa.Schema, time: str) -> None:
    """Raise unless the column exists and can be an event time."""
    if time not in schema.names:
        raise unknown("time column", time, schema.names)
    kind = schema.field(time).type
    if not (pa.types.is_timestamp(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        raise PenstockError(
            f"The time column '{time}' is {kind}; it must be a timestamp, or a number (unit='seconds', 'milliseconds', "
            "'microseconds' or 'nanoseconds' since 1970)."
        )


def check_unit(unit: str) -> None:
    """Refuse what is no unit of time."""
    if unit not in UNITS:
        raise unknown("unit of time", unit, UNITS)


def _times(column: pa.Array, name: str, unit: str) -> tuple[Times, list[_Problem]]:
    problems: list[_Problem] = []
    if column.null_count:
        problems.append((pc.is_null(column).to_numpy(zero_copy_only=False), f"{name} is null"))
    if pa.types.is_timestamp(column.type):
        us = _filled(column.cast(pa.timestamp("us", column.type.tz), safe=False).cast(pa.int64()))
    elif pa.types.is_floating(column.type):
        given = _filled(column.cast(pa.float64(), safe=False))
        _add(problems, np.isnan(given), f"{name} is not a number")
        up, down = UNITS[unit]
        bounded = np.clip(
            np.nan_to_num(given, nan=0.0), -down, LATEST_US / up * down
        )  # no product is too large
        us = np.rint(bounded * (up / down)).astype(np.int64)
    else:
        up, down = UNITS[unit]
        given = _filled(column.cast(pa.int64(), safe=False))
        whole = np.clip(given, -down, LATEST_US // up * down + down)  # no product is too large
        us = whole // down * up
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
        _add(problems, _inexact(column), f"{name} is an integer beyond 2^53")
    elif pa.types.is_temporal(column.type) and column.type.bit_width == 64:
        word = f"{name} is a time beyond 2^53 {getattr(column.type, 'unit', 'ms')}"
        _add(problems, _inexact(column.cast(pa.int64())), word)
    return problems


def _inexact(column: pa.Array) -> NDArray[np.bool_]:
    values = _filled(column)
    inexact: NDArray[np.bool_] = (values > EXACT) | (values < -EXACT)
    return inexact


def _add(problems: list[_Problem], mask: NDArray[np.bool_], reason: str) -> None:
    if mask.any():
        problems.append((mask, reason))


def _filled(column: pa.Array) -> Any:
    return (column.fill_null(0) if column.null_count else column).to_numpy(zero_copy_only=False)


@dataclass(frozen=True)
class Router:
    """The stage as a function over Arrow batches of one input partition."""

    time: str
    attributes: tuple[str, ...]
    pane_us: int
    plan: RoutingPlan
    #: Rows before this time are late (None: nothing is yet); the largest time seen before this batch.
    punctuation: int | None
    seen: int | None
    prefix: str
    late_folder: str | None = None
    dead_folder: str | None = None
    #: Which times are believed, and up to which one at first sight; None: nothing is known yet.
    limits: Limits = field(default_factory=Limits)
    latest: int | None = None
    #: Makes partial results of rows before they travel; None: the rows travel as they are.
    lift: Lift | None = None
    #: The share of the rows to drop on purpose.
    shed: float = 0.0
    #: What a time counts that is no timestamp.
    unit: str = "seconds"

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Route one input partition."""
        source = partition_id()
        started = time.perf_counter()
        tally = _Tally(self.seen, Lookout(self.limits.ahead, self.latest))
        number = 0
        for chunk in gathered(batches, CHUNK_ROWS):
            for worker, payload in self._route(chunk, tally):
                yield message(worker, "rows", source, number, payload)
                number += 1
        if tally.rows:
            report = tally.report(self, source, time.perf_counter() - started)
            yield message(self.plan.order[0], "tally", source, number, report.to_json().encode())

    def _route(self, chunk: pa.RecordBatch, tally: "_Tally") -> Iterator[tuple[int, pa.Buffer]]:
        checked = check_rows(chunk, self.time, self.attributes, self.unit)
        tally.rows += chunk.num_rows
        if checked.bad is not None:
            tally.bad.append(with_reason(checked.bad, checked.reasons))
        rows, times = self._believed(checked.rows, checked.times, tally)
        tally.observe(times, self.punctuation)
        if self.punctuation is not None and len(times):
            late = times < self.punctuation
            if late.any():
                tally.late_rows += int(late.sum())
                if self.late_folder:
                    tally.late.append(rows.filter(pa.array(late)))
                rows, times = rows.filter(pa.array(~late)), times[~late]
        if self.shed > 0:
            rows, times = self._thinned(rows, times, tally)
        yield from self._cut(rows, times)

    def _thinned(self, rows: pa.RecordBatch, times: Times, tally: "_Tally") -> tuple[pa.RecordBatch, Times]:
        """The rows without the share to drop, which is taken evenly.

        Where in the first share a batch begins differs from batch to batch, but not when one is run again: of batches
        of a single row, too, the right share is dropped.
        """
        begin = (((self.seen or 0) * 0x9E3779B97F4A7C15) & (2**64 - 1)) / 2**64
        kept = np.floor(begin + np.arange(tally.thinned, tally.thinned + len(times) + 1) * (1.0 - self.shed))
        chosen = np.diff(kept) > 0
        tally.thinned += len(times)
        tally.shed += len(times) - int(chosen.sum())
        return rows.filter(pa.array(chosen)), times[chosen]

    def _believed(self, rows: pa.RecordBatch, times: Times, tally: "_Tally") -> tuple[pa.RecordBatch, Times]:
        """The rows whose times are believed; the others are dead letters."""
        over = tally.lookout.see(times)
        rows, times = tally.without(rows, times, over, f"{self.time} is too far ahead of the stream")
        old = too_far_behind(times, tally.seen, self.limits.behind)
        return tally.without(rows, times, old, f"{self.time} is too far behind the stream")

    def _cut(self, rows: pa.Table | pa.RecordBatch, times: Times) -> Iterator[tuple[int, pa.Buffer]]:
        """One message a worker: its rows by pane, with the offset of each pane in the schema's metadata."""
        panes = times // self.pane_us
        if self.lift is not None and rows.num_rows:
            rows, panes = self.lift(rows, panes)
        if not len(panes):
            return
        workers = self.plan.assign(panes)
        distinct, number = numbered(panes)
        slots = workers * len(distinct) + number  # a worker's panes, then those of the next one
        sorted_rows = rows.take(pa.array(stable_order(slots, self.plan.workers * len(distinct))))
        counts = np.bincount(slots, minlength=self.plan.workers * len(distinct)).reshape(-1, len(distinct))
        begin = 0
        for worker, of_panes in enumerate(counts):
            end = begin + int(of_panes.sum())
            if end > begin:
                there = np.flatnonzero(of_panes)
                offsets = [0, *np.cumsum(of_panes[there]).tolist()]
                yield worker, pack(sorted_rows.slice(begin, end - begin), distinct[there].tolist(), offsets)
            begin = end


class _Tally:
    """What one input partition saw."""

    def __init__(self, seen: int | None, lookout: Lookout) -> None:
        self.rows = 0
        self.late_rows = 0
        self.shed = 0
        #: Rows that shedding has gone through.
        self.thinned = 0
        self.late: list[pa.RecordBatch] = []
        self.bad: list[pa.RecordBatch] = []
        self.seen, self.lookout = seen, lookout
        self._stats = BatchStats()

    def without(
        self, rows: pa.RecordBatch, times: Times, mask: NDArray[np.bool_] | None, reason: str
    ) -> tuple[pa.RecordBatch, Times]:
        """The rows outside the mask; those in it are bad for this reason."""
        if mask is None:
            return rows, times
        bad = rows.filter(pa.array(mask))
        self.bad.append(with_reason(bad, [reason] * bad.num_rows))
        return rows.filter(pa.array(~mask)), times[~mask]

    def observe(self, times: Times, punctuation: int | None) -> None:
        if len(times):
            self._stats = self._stats.merge(partition_stats(times, seen=self.seen, punctuation=punctuation))
            self.seen = max(int(times.max()), self.seen if self.seen is not None else -1)

    def report(self, router: Router, source: int, seconds: float) -> TallyReport:
        return TallyReport(
            rows=self.rows,
            late=self.late_rows,
            shed=self.shed,
            bad=sum(b.num_rows for b in self.bad),
            stats=self._stats,
            usable=self.lookout.rows,
            sightings=self.lookout.told(),
            late_file=_set_aside(router.late_folder, router.prefix, source, self.late),
            dead_file=_set_aside(router.dead_folder, router.prefix, source, self.bad),
            seconds=seconds,
        )


def unpack(payload: pa.Buffer) -> tuple[pa.Table, list[int], list[int]]:
    """A message's rows, its panes and their offsets."""
    table = from_buffer(payload)
    header = json.loads(table.schema.metadata[b"penstock"])
    return table.replace_schema_metadata(None), header["panes"], header["offsets"]


def pack(rows: pa.Table | pa.RecordBatch, panes: Sequence[int], offsets: Sequence[int]) -> pa.Buffer:
    """Rows as one Arrow message, with its panes and their offsets in the schema's metadata."""
    header = json.dumps({"panes": panes, "offsets": offsets})
    return to_buffer(rows.replace_schema_metadata({"penstock": header}))


def message(worker: int, kind: str, source: int, number: int, payload: bytes | pa.Buffer) -> pa.RecordBatch:
    """One row of :data:`MESSAGE_SCHEMA`."""
    return pa.RecordBatch.from_arrays(
        [
            pa.array([worker], pa.int32()),
            pa.array([kind]),
            pa.array([source], pa.int32()),
            pa.array([number], pa.int32()),
            binary_column([payload]),
        ],
        names=["worker", "kind", "source", "number", "payload"],
    )


def _set_aside(folder: str | None, prefix: str, source: int, batches: list[pa.RecordBatch]) -> str | None:
    if not batches or folder is None:
        return None
    path = f"{folder}/{prefix}-{source}-{attempt_id()}.parquet"
    write_parquet(pa.Table.from_batches(batches), path)
    return path
