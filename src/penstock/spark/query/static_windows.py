"""The windows of a static DataFrame, in parallel: contiguous runs of windows, a run a task.

Every input partition first reduces its own rows pane by pane; what is left travels to the tasks whose windows need
the pane. A task combines each of its panes once, by the same algorithms that the streaming query uses.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema

from penstock.core.arrays import Ints
from penstock.preference.panes import PaneModel
from penstock.preference.preference import Preference
from penstock.preference.sliding import LiveSet
from penstock.preference.two_stacks import TwoStacks
from penstock.spark.query.live_stage import by_dominance
from penstock.spark.query.pane_stage import GroupedPreference, by_pane
from penstock.spark.query.routing import MESSAGE_SCHEMA, check_rows, message, pack
from penstock.spark.query.window_rows import result_schema, time_array
from penstock.spark.runtime.arrow_data import binary_values, gathered
from penstock.spark.versions import to_workers

ROWS_PER_CHUNK = 262_144


@dataclass(frozen=True)
class PaneRun:
    """A contiguous run of windows, with its panes from first to last."""

    windows: tuple[int, ...]
    first: int
    last: int


class StaticQuestion(Protocol):
    """What is asked of the windows."""

    @property
    def model(self) -> PaneModel:
        """The panes."""

    @property
    def time(self) -> str:
        """The column of the event time."""

    @property
    def unit(self) -> str:
        """What a time counts that is no timestamp."""

    @property
    def result(self) -> pa.Schema:
        """The columns of the answer."""

    def reduced(self, chunk: pa.RecordBatch) -> tuple[Ints, list[pa.Table]]:
        """The panes of some rows, rising, and the partial result of each."""

    def answers(self, run: PaneRun, parts: dict[int, pa.Table]) -> Iterator[pa.RecordBatch]:
        """The windows of a run from the partial results of its panes, several of a pane one below the other."""


def evaluate(frame: DataFrame, how: StaticQuestion) -> DataFrame:
    """All windows that hold at least one row; rows that cannot be used are left out."""
    result, model = from_arrow_schema(how.result), how.model
    counted = frame.select(how.time).mapInArrow(
        PaneCounts(how.time, model.pane_us, how.unit), "pane long, rows long"
    )
    counts: dict[int, int] = {}
    for row in counted.collect():
        counts[row.pane] = counts.get(row.pane, 0) + row.rows
    tasks = 2 * frame.sparkSession.sparkContext.defaultParallelism
    runs = _runs(model, counts, tasks)
    if not runs:
        return frame.sparkSession.createDataFrame([], result)
    reduced = frame.mapInArrow(Reduce(how, runs), MESSAGE_SCHEMA)
    return to_workers(reduced, len(runs)).mapInArrow(Windows(how, runs), result)


def evaluate_table(table: pa.Table, how: StaticQuestion) -> pa.Table:
    """The same over an Arrow table, in this process, without Spark."""
    counts: dict[int, int] = {}
    for counted in PaneCounts(how.time, how.model.pane_us, how.unit)(iter(table.to_batches())):
        for pane, rows in zip(counted["pane"].to_pylist(), counted["rows"].to_pylist(), strict=True):
            counts[pane] = counts.get(pane, 0) + rows
    runs = _runs(how.model, counts, 1)
    if not runs:
        return how.result.empty_table()
    parts = Reduce(how, runs)(iter(table.to_batches()))
    return pa.Table.from_batches(Windows(how, runs)(parts), how.result)


def _runs(model: PaneModel, counts: dict[int, int], tasks: int) -> tuple[PaneRun, ...]:
    """Windows in order, cut into runs of about the same number of rows."""
    if not counts:
        return ()
    panes = np.array(sorted(counts), dtype=np.int64)
    end = (int(panes[-1]) + 1) * model.pane_us + model.window_us
    windows = model.windows_to_emit(panes, end)
    rows = np.cumsum([counts[int(p)] for p in panes])
    # Rows up to a window's end place the window; equal shares of them make the runs.
    last_pane = windows * model.panes_per_slide + model.panes_per_window - 1
    upto = rows[np.maximum(np.searchsorted(panes, last_pane, side="right") - 1, 0)]
    share = np.minimum((upto - 1) * tasks // int(rows[-1]), tasks - 1)
    return tuple(
        PaneRun(
            tuple(some.tolist()),
            model.panes_of_window(int(some[0]))[0],
            model.panes_of_window(int(some[-1]))[1],
        )
        for some in (windows[share == task] for task in range(tasks))
        if len(some)
    )


@dataclass(frozen=True)
class PaneCounts:
    """Rows per pane of one input partition."""

    time: str
    pane_us: int
    unit: str = "seconds"

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Count."""
        for batch in batches:
            panes, rows = np.unique(
                check_rows(batch, self.time, (), self.unit).times // self.pane_us, return_counts=True
            )
            yield pa.RecordBatch.from_arrays([pa.array(panes), pa.array(rows)], names=["pane", "rows"])


@dataclass(frozen=True)
class Reduce:
    """Partial results of one input partition's panes, sent to the runs that need them."""

    how: StaticQuestion
    runs: tuple[PaneRun, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Reduce by pane and pack."""
        number = 0
        for chunk in gathered(batches, ROWS_PER_CHUNK):
            distinct, reduced = self.how.reduced(chunk)
            for worker, run in enumerate(self.runs):
                wanted = np.flatnonzero((distinct >= run.first) & (distinct <= run.last))
                if len(wanted):
                    pieces = [reduced[i] for i in wanted]
                    offsets = np.cumsum([0, *(p.num_rows for p in pieces)]).tolist()
                    payload = pack(pa.concat_tables(pieces), distinct[wanted].tolist(), offsets)
                    yield message(worker, "rows", 0, number, payload)
                    number += 1


def pane_bounds(panes: Ints) -> tuple[Ints, list[tuple[int, int]]]:
    """The distinct ones of rising panes, and where the rows of each begin and end; there may be none.

    >>> pane_bounds(np.array([3, 3, 5]))[1], pane_bounds(np.array([], np.int64))[1]
    ([(0, 2), (2, 3)], [])
    """
    distinct, starts = np.unique(panes, return_index=True)
    return distinct, list(pairwise([*starts.tolist(), len(panes)]))


@dataclass(frozen=True)
class Windows:
    """The windows of some runs."""

    how: StaticQuestion
    runs: tuple[PaneRun, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Answer window after window."""
        payloads: dict[int, list[pa.Buffer]] = {}
        for batch in batches:
            workers, values = batch.column("worker").to_pylist(), binary_values(batch.column("payload"))
            for worker, payload in zip(workers, values, strict=True):
                payloads.setdefault(worker, []).append(payload)
        for worker, some in sorted(payloads.items()):
            yield from self.how.answers(self.runs[worker], by_pane(some))


@dataclass(frozen=True)
class StaticPreference:
    """Windows of a preference."""

    grouped: GroupedPreference
    model: PaneModel
    time: str
    schema: pa.Schema
    unit: str = "seconds"

    @property
    def result(self) -> pa.Schema:
        """The columns of the answer."""
        return result_schema(self.schema, self.time, self.grouped.preference)

    def reduced(self, chunk: pa.RecordBatch) -> tuple[Ints, list[pa.Table]]:
        """The preferred rows of each pane."""
        attributes = tuple(a.column for a in self.grouped.preference.attributes if a.direction != "diff")
        checked = check_rows(chunk, self.time, attributes, self.unit)
        panes = checked.times // self.model.pane_us
        order = np.argsort(panes, kind="stable")
        table = pa.Table.from_batches([checked.rows]).take(pa.array(order))
        distinct, bounds = pane_bounds(panes[order])
        return distinct, [self.grouped.select(table.slice(s, e - s)) for s, e in bounds]

    def answers(self, run: PaneRun, parts: dict[int, pa.Table]) -> Iterator[pa.RecordBatch]:
        """Window after window."""
        yield from self._answers(run, {pane: self.grouped.select(table) for pane, table in parts.items()})

    def _answers(self, run: PaneRun, panes: dict[int, pa.Table]) -> Iterator[pa.RecordBatch]:
        order = sorted(panes)
        table = pa.concat_tables([panes[p] for p in order]).combine_chunks()
        offsets = np.cumsum([0, *(panes[p].num_rows for p in order)])
        points, classes = self.grouped.preference.points(table), self.grouped.classes(table)
        ids = np.arange(table.num_rows, dtype=np.int64)
        slider = _slider(self.grouped.preference, points.shape[1], classes is not None)
        following = 0
        for window in run.windows:
            first, last = self.model.panes_of_window(window)
            while following < len(order) and order[following] <= last:
                rows = slice(int(offsets[following]), int(offsets[following + 1]))
                some = None if classes is None else classes[rows]
                slider = slider.advance(order[following], points[rows], some, ids[rows])
                following += 1
            slider = slider.expire(first)
            members = slider.window(first, last)
            kept, extras = self.grouped.preference.answer(
                points[members], None if classes is None else classes[members]
            )
            yield from self._rows(window, table.take(pa.array(members[kept])), extras)

    def _rows(
        self, window: int, rows: pa.Table, extras: dict[str, NDArray[np.generic]]
    ) -> Sequence[pa.RecordBatch]:
        result = result_schema(rows.schema, self.time, self.grouped.preference)
        kind = result.field("window_start").type
        starts, ends = self.model.window_bounds(np.full(rows.num_rows, window))
        added = [
            pa.array(extras[name], type_) for name, type_ in self.grouped.preference.extra_columns.items()
        ]
        columns = [time_array(starts, kind), time_array(ends, kind), *rows.columns, *added]
        batches: Sequence[pa.RecordBatch] = pa.table(columns, schema=result).to_batches()
        return batches


def _slider(preference: Preference, width: int, classed: bool) -> LiveSet | TwoStacks:
    return LiveSet.empty(width, classed) if by_dominance(preference) else TwoStacks(preference)
