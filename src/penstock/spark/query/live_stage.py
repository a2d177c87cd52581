"""The default window stage: each pane is combined once, however many windows overlap.

For a preference by dominance, a row of pane p that nothing dominates within its own pane is in the answer of the
window of panes [first, last] exactly if

    earlier < first   and   later > last,

where ``earlier`` is the latest pane before p, and ``later`` the earliest pane after p, that holds a row which
dominates it. Both are found once per row: ``earlier`` when its pane closes, ``later`` when a newer pane closes. A row
that has a ``later`` is out of all windows to come, and so is whatever only it dominates (that row's own dominator
dominates it too), so later panes need comparing with the *live* rows only. Both are looked for one pane after another, the nearest first:
a row that has found its dominator is compared no more, and what rows are compared with is made ready once a pane.

Rows are independent of each other here, so the work splits evenly: slice j of m takes every m-th row as candidate and
compares it with all. What a row is compared with may be a superset of the live rows (rows of panes that close in the same batch
are not yet thinned out): more comparisons, the same answer.
"""

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.core.arrays import Floats, Ints
from penstock.core.grouping import places_of
from penstock.preference.builders import KDominant, Skyline, TopDelta
from penstock.preference.cross import NEVER, dominated_by
from penstock.preference.preference import Preference
from penstock.spark.query.reports import WindowReport
from penstock.spark.query.slices import SlicedStage
from penstock.spark.query.window_rows import PartRows
from penstock.spark.runtime.arrow_data import read_segment, write_segments

#: No later pane dominates the row.
ALIVE = np.iinfo(np.int64).max

LIVE_SCHEMA = pa.schema([("id", pa.int64()), ("earlier", pa.int64())])


def by_dominance(preference: Preference) -> bool:
    """Whether the stage fits: partial results are skylines."""
    return isinstance(preference, Skyline | KDominant | TopDelta)


@dataclass(frozen=True, kw_only=True)
class LiveStage(SlicedStage):
    """The stage over the rows that are still alive."""

    #: Files of the live rows as of the batch before.
    live: tuple[str, ...]
    panes_per_window: int

    def piece(self, number: int) -> WindowReport:
        """One slice."""
        started, cpu = time.perf_counter(), time.process_time()
        old, earlier_old = self._live_rows()
        new = self.parts.of_panes(self.closing)
        mine_old, mine_new = self._mine(old, number), self._mine(new, number)
        fresh, earlier_new = self._undominated(new.take(mine_new), _by_pane(self.parts.joined([old, new])))
        rows = self.parts.joined([old.take(mine_old), fresh])
        earlier = np.concatenate([earlier_old[mine_old], earlier_new])
        later = self._earliest_later(rows, _by_pane(new))
        compared = time.perf_counter()
        written = self.writer.write(number, self.parts, rows, self._members(rows, earlier, later))
        alive = (later == ALIVE) & (rows.panes >= self.needed_from)
        file = self._write_live(number, rows.ids[alive], earlier[alive])
        return WindowReport(
            **vars(written),
            worker=number,
            live_file=file,
            live_rows=int(alive.sum()),
            candidates=len(mine_old) + len(mine_new),
            busy=compared - started,
            cpu=time.process_time() - cpu,
            write=time.perf_counter() - compared,
        )

    def _live_rows(self) -> tuple[PartRows, Ints]:
        tables = [read_segment(self.parts.state_folder, name, 0) for name in self.live]
        if not tables:
            return self.parts.joined([]), np.zeros(0, dtype=np.int64)
        table = pa.concat_tables(tables)
        return self.parts.of_ids(table["id"].to_numpy()), table["earlier"].to_numpy()

    def _mine(self, rows: PartRows, number: int) -> Ints:
        """The rows of one slice: whole classes where there are any, every m-th row otherwise."""
        if rows.classes is not None:
            return np.flatnonzero(rows.classes.view(np.uint64) % np.uint64(self.slices) == number)
        if self.writer.needs_equals_together:
            return np.flatnonzero(_point_codes(rows.points) % np.uint64(self.slices) == number)
        return np.arange(number, len(rows), self.slices)

    def _undominated(self, rows: PartRows, panes: Mapping[int, PartRows]) -> tuple[PartRows, Ints]:
        """The new rows that are not dominated in their own pane, with their latest earlier dominator's pane."""
        parts_of = Counter(part.pane for part in self.parts.parts)
        found = np.full(len(rows), NEVER, dtype=np.int64)
        for pane in sorted(panes, reverse=True):
            # A pane of one part is a skyline already; rows of several parts meet each other here.
            first = pane if parts_of[pane] > 1 else pane + 1
            self._note(found, NEVER, rows, first, pane + self.panes_per_window - 1, pane, panes[pane])
        inside = found == rows.panes
        return rows.take(~inside), found[~inside]

    def _earliest_later(self, rows: PartRows, panes: Mapping[int, PartRows]) -> Ints:
        """The pane of each row's earliest later dominator, as far as a window can hold both."""
        found = np.full(len(rows), ALIVE, dtype=np.int64)
        for pane in sorted(panes):
            self._note(found, ALIVE, rows, pane - self.panes_per_window + 1, pane - 1, pane, panes[pane])
        return found

    def _note(
        self, found: Ints, none: int, rows: PartRows, first: int, last: int, pane: int, others: PartRows
    ) -> None:
        """Note the pane at those rows of panes first..last that have none yet and are dominated by one of the others."""
        asked = np.flatnonzero((found == none) & (rows.panes >= first) & (rows.panes <= last))
        some = rows.take(asked)
        found[asked[dominated_by(some.points, others.points, some.classes, others.classes)]] = pane

    def _members(self, rows: PartRows, earlier: Ints, later: Ints) -> list[Ints]:
        return [
            np.flatnonzero(
                (rows.panes >= w.first) & (rows.panes <= w.last) & (earlier < w.first) & (later > w.last)
            )
            for w in self.windows
        ]

    def _write_live(self, number: int, ids: Ints, earlier: Ints) -> str:
        table = pa.table([pa.array(ids), pa.array(earlier)], schema=LIVE_SCHEMA)
        return write_segments(self.parts.state_folder, f"{self.prefix}-live{number}", LIVE_SCHEMA, [table])


def _by_pane(rows: PartRows) -> dict[int, PartRows]:
    return {pane: rows.take(some) for pane, some in places_of(rows.panes)}


def _point_codes(points: Floats) -> NDArray[np.uint64]:
    """Equal points, equal codes."""
    codes = np.zeros(len(points), dtype=np.uint64)
    for column in (points + 0.0).T:  # one zero: -0.0 equals 0.0
        codes = (codes ^ np.ascontiguousarray(column).view(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
        codes ^= codes >> np.uint64(29)
    return codes
