"""Aggregates of the windows of a static table, from the partial results of its panes by the stacks of the streaming query."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.core.arrays import Ints
from penstock.preference.panes import PaneModel
from penstock.spark.query.aggregate_stage import Stacks, aggregate_schema
from penstock.spark.query.grouped_aggregates import GroupedAggregates
from penstock.spark.query.routing import check_rows
from penstock.spark.query.static_windows import PaneRun, pane_bounds
from penstock.spark.query.window_rows import time_array


@dataclass(frozen=True)
class StaticAggregates:
    """Windows of aggregates."""

    grouped: GroupedAggregates
    model: PaneModel
    time: str
    unit: str = "seconds"

    @property
    def result(self) -> pa.Schema:
        """The columns of the answer."""
        return aggregate_schema(self.grouped, self.time)

    def reduced(self, chunk: pa.RecordBatch) -> tuple[Ints, list[pa.Table]]:
        """The partial results of each pane."""
        checked = check_rows(chunk, self.time, (), self.unit)
        if not checked.rows.num_rows:
            return checked.times, []
        table, panes = self.grouped.lifted(checked.rows, checked.times // self.model.pane_us)
        distinct, bounds = pane_bounds(panes)
        return distinct, [table.slice(s, e - s) for s, e in bounds]

    def answers(self, run: PaneRun, parts: dict[int, pa.Table]) -> Iterator[pa.RecordBatch]:
        """Window after window; each pane is combined about three times."""
        panes = {pane: self.grouped.select(parts[pane]) for pane in sorted(parts)}
        stacks, pending = Stacks(self.grouped, panes.__getitem__), list(panes)
        for window in run.windows:
            first, last = self.model.panes_of_window(window)
            while pending and pending[0] <= last:
                stacks.push(pending.pop(0))
            yield from self._rows(window, stacks.window(first))

    def _rows(self, window: int, table: pa.Table) -> list[pa.RecordBatch]:
        kind = self.result.field("window_start").type
        starts, ends = self.model.window_bounds(np.full(table.num_rows, window))
        columns = [time_array(starts, kind), time_array(ends, kind), *self.grouped.lowered(table)]
        batches: list[pa.RecordBatch] = pa.table(columns, schema=self.result).to_batches()
        return batches
