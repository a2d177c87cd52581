"""The default window stage for preferences that are not by dominance: two stacks, about three merges a pane.

The stacks are kept between batches as row ids. Where rows have classes, slice j of m holds the classes whose code is
j modulo m, and gives their answers. Without classes it holds the rows whose place in their part is j modulo m; the
partial results of the slices are merged in the end, which is one merge more a window and slice.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.core.arrays import Ints
from penstock.preference.points import Rows
from penstock.preference.preference import Extras
from penstock.preference.two_stacks import Partial, TwoStacks
from penstock.spark.query.reports import WindowReport
from penstock.spark.query.slices import SlicedStage
from penstock.spark.query.window_rows import PartRows, WrittenWindows
from penstock.spark.query.window_tasks import joined_pieces
from penstock.spark.runtime.arrow_data import read_segment, write_segments

STACK_SCHEMA = pa.schema([("stack", pa.string()), ("pane", pa.int64()), ("id", pa.int64())])
FRONT, BACK, MERGED = "front", "back", "merged"


@dataclass(frozen=True, kw_only=True)
class TwoStacksStage(SlicedStage):
    """The stage over two stacks of merged panes."""

    #: Files of the stacks as of the batch before.
    stacks: tuple[str, ...]

    def piece(self, number: int) -> WindowReport:
        """One slice."""
        started, cpu = time.perf_counter(), time.process_time()
        stacks = self._restored(number)
        pending = list(self.closing)
        ids, extras = [], []
        for window in self.windows:
            while pending and pending[0] <= window.last:
                stacks = self._advanced(stacks, pending.pop(0), number)
            stacks = stacks.expire(window.first)
            result = stacks.part(window.first, window.last)
            kept, values = self._answer(result)
            ids.append(result.ids[kept])
            extras.append(values)
        for pane in pending:
            stacks = self._advanced(stacks, pane, number)
        stacks = stacks.expire(self.needed_from)
        done = time.perf_counter()
        write = self.writer.write_rows if self.writer.whole else self.writer.write_members
        written = write(number, self.parts, ids, extras) if ids else WrittenWindows()
        file, rows = self._saved(stacks, number)
        return WindowReport(
            **vars(written),
            worker=number,
            live_file=file,
            live_rows=rows,
            candidates=sum(len(self.parts.rows(p)) for p in self.parts.parts if p.pane in self.closing),
            busy=done - started,
            cpu=time.process_time() - cpu,
            write=time.perf_counter() - done,
        )

    def _answer(self, result: Partial) -> tuple[Rows, Extras]:
        """The window's answer, or all of the slice's part of it where others have to be asked."""
        if not self.writer.whole:
            return np.arange(len(result.ids)), {}
        return self.parts.grouped.preference.answer(result.points, result.classes)

    def _mine(self, rows: PartRows, number: int) -> PartRows:
        if self.slices == 1:
            return rows
        if rows.classes is None:
            return rows.take((rows.ids & 0xFFFFFFFF) % self.slices == number)
        return rows.take(rows.classes.view(np.uint64) % np.uint64(self.slices) == number)

    def _advanced(self, stacks: TwoStacks, pane: int, number: int) -> TwoStacks:
        pieces = [self._mine(self.parts.rows(p), number) for p in self.parts.parts if p.pane == pane]
        rows = joined_pieces(self.parts, pieces)
        return stacks.advance(pane, rows.points, rows.classes, rows.ids)

    def _restored(self, number: int) -> TwoStacks:
        tables = [read_segment(self.parts.state_folder, name, 0) for name in self.stacks]
        if not tables:
            return TwoStacks(self.parts.grouped.preference)
        table = pa.concat_tables(tables)
        stack, pane, id_ = (table[name].to_numpy(zero_copy_only=False) for name in STACK_SCHEMA.names)
        front = self._by_pane(pane[stack == FRONT], id_[stack == FRONT], number)
        back = self._by_pane(pane[stack == BACK], id_[stack == BACK], number)
        merge = self._mine(self.parts.of_ids(id_[stack == MERGED]), number)
        newest = int(pane.max()) if len(pane) else None
        return TwoStacks(
            self.parts.grouped.preference,
            front=front,
            back=back,
            back_merge=_partial(merge) if back else None,
            newest=newest,
        )

    def _by_pane(self, panes: Ints, ids: Ints, number: int) -> tuple[tuple[int, Partial], ...]:
        return tuple(
            (int(pane), _partial(self._mine(self.parts.of_ids(ids[panes == pane]), number)))
            for pane in np.unique(panes)
        )

    def _saved(self, stacks: TwoStacks, number: int) -> tuple[str, int]:
        entries: list[tuple[str, int, Partial]] = [(FRONT, *item) for item in stacks.front]
        entries += [(BACK, *item) for item in stacks.back]
        if stacks.back_merge is not None and stacks.back:
            entries.append((MERGED, stacks.back[-1][0], stacks.back_merge))
        table = (
            pa.concat_tables([_entry(*entry) for entry in entries]) if entries else STACK_SCHEMA.empty_table()
        )
        name = write_segments(
            self.parts.state_folder, f"{self.prefix}-stacks{number}", STACK_SCHEMA, [table.combine_chunks()]
        )
        return name, table.num_rows


def _partial(rows: PartRows) -> Partial:
    return Partial(rows.ids, rows.points, rows.classes)


def _entry(stack: str, pane: int, rows: Partial) -> pa.Table:
    n = len(rows.ids)
    arrays: Sequence[Any] = [[stack] * n, np.full(n, pane, dtype=np.int64), rows.ids]
    return pa.table(
        [pa.array(a, f.type) for a, f in zip(arrays, STACK_SCHEMA, strict=True)], schema=STACK_SCHEMA
    )
