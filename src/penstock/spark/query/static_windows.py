"""The windows of a static DataFrame, in parallel: contiguous runs of windows, a run a task.

Every input partition first reduces its own rows pane by pane; what is left travels to the tasks whose windows need
the pane. A task combines each of its panes once, by the same algorithms that the streaming query uses.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema

from penstock.preference.panes import PaneModel
from penstock.preference.preference import Preference
from penstock.preference.sliding import LiveSet
from penstock.preference.two_stacks import TwoStacks
from penstock.spark.query.live_stage import by_dominance
from penstock.spark.query.pane_stage import GroupedPreference, by_pane
from penstock.spark.query.routing import MESSAGE_SCHEMA, check_rows, message, pack
from penstock.spark.query.window_rows import result_schema, time_array
from penstock.spark.runtime.arrow_data import gathered

ROWS_PER_CHUNK = 262_144


@dataclass(frozen=True)
class PaneRun:
    """A contiguous run of windows, with its panes from first to last."""

    windows: tuple[int, ...]
    first: int
    last: int


def evaluate(
    frame: DataFrame, grouped: GroupedPreference, model: PaneModel, time: str, schema: pa.Schema
) -> DataFrame:
    """All windows that hold at least one row; rows that cannot be used are left out."""
    result = from_arrow_schema(result_schema(schema, time, grouped.preference))
    counted = frame.select(time).mapInArrow(PaneCounts(time, model.pane_us), "pane long, rows long")
    counts: dict[int, int] = {}
    for row in counted.collect():
        counts[row.pane] = counts.get(row.pane, 0) + row.rows
    tasks = 2 * frame.sparkSession.sparkContext.defaultParallelism
    runs = _runs(model, counts, tasks)
    if not runs:
        return frame.sparkSession.createDataFrame([], result)
    attributes = tuple(a.column for a in grouped.preference.attributes if a.direction != "diff")
    return (
        frame.mapInArrow(Reduce(grouped, time, attributes, model.pane_us, runs), MESSAGE_SCHEMA)
        .repartitionById(len(runs), "worker")
        .mapInArrow(Windows(grouped, model, time, schema, runs), result)
    )


def evaluate_table(
    table: pa.Table, grouped: GroupedPreference, model: PaneModel, time: str, schema: pa.Schema
) -> pa.Table:
    """The same over an Arrow table, in this process, without Spark."""
    counts: dict[int, int] = {}
    for counted in PaneCounts(time, model.pane_us)(iter(table.to_batches())):
        for pane, rows in zip(counted["pane"].to_pylist(), counted["rows"].to_pylist(), strict=True):
            counts[pane] = counts.get(pane, 0) + rows
    runs = _runs(model, counts, 1)
    result = result_schema(schema, time, grouped.preference)
    if not runs:
        return result.empty_table()
    attributes = tuple(a.column for a in grouped.preference.attributes if a.direction != "diff")
    parts = Reduce(grouped, time, attributes, model.pane_us, runs)(iter(table.to_batches()))
    return pa.Table.from_batches(Windows(grouped, model, time, schema, runs)(parts)).cast(result)


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

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Count."""
        for batch in batches:
            panes, rows = np.unique(
                check_rows(batch, self.time, ()).times // self.pane_us, return_counts=True
            )
            yield pa.RecordBatch.from_arrays([pa.array(panes), pa.array(rows)], names=["pane", "rows"])


@dataclass(frozen=True)
class Reduce:
    """Partial results of one input partition's panes, sent to the runs that need them."""

    grouped: GroupedPreference
    time: str
    attributes: tuple[str, ...]
    pane_us: int
    runs: tuple[PaneRun, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Select by pane and pack."""
        number = 0
        for chunk in gathered(batches, ROWS_PER_CHUNK):
            checked = check_rows(chunk, self.time, self.attributes)
            panes = checked.times // self.pane_us
            order = np.argsort(panes, kind="stable")
            table = pa.Table.from_batches([checked.rows]).take(pa.array(order))
            distinct, starts = np.unique(panes[order], return_index=True)
            ends = np.append(starts[1:], len(panes))
            reduced = [self.grouped.select(table.slice(s, e - s)) for s, e in zip(starts, ends, strict=True)]
            for worker, run in enumerate(self.runs):
                wanted = np.flatnonzero((distinct >= run.first) & (distinct <= run.last))
                if len(wanted):
                    pieces = [reduced[i] for i in wanted]
                    offsets = np.cumsum([0, *(p.num_rows for p in pieces)]).tolist()
                    payload = pack(pa.concat_tables(pieces), distinct[wanted].tolist(), offsets)
                    yield message(worker, "rows", 0, number, payload)
                    number += 1


@dataclass(frozen=True)
class Windows:
    """The windows of some runs."""

    grouped: GroupedPreference
    model: PaneModel
    time: str
    schema: pa.Schema
    runs: tuple[PaneRun, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Answer window after window."""
        payloads: dict[int, list[pa.Buffer]] = {}
        for batch in batches:
            for worker, payload in zip(batch.column("worker"), batch.column("payload"), strict=True):
                payloads.setdefault(worker.as_py(), []).append(payload.as_buffer())
        for worker, some in sorted(payloads.items()):
            panes = {pane: self.grouped.select(table) for pane, table in by_pane(some).items()}
            yield from self._answers(self.runs[worker], panes)

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
