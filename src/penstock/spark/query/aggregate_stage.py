"""The window stage of aggregates: two stacks of partial results, so that each pane is combined about three times.

Slice j of m holds the groups whose code is j modulo m. Of the panes that windows to come need, the newer ones are *back*:
their parts are in the state anyway, and their combination so far is kept. The older ones are *front*: for each of them the
combination from it to the last of them. A window is one of the front's combinations with that of the back. When the front
is used up, the back becomes the front: its panes are gone through once from the newest to the oldest. The front is
written when it is made, and only read after that. (Adamax: two stacks; Tangwongsan et al. 2017.)
"""

import re
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from penstock.spark.query.grouped_aggregates import CODE, GroupedAggregates
from penstock.spark.query.pane_stage import Part
from penstock.spark.query.query_state import QueryState
from penstock.spark.query.reports import NumberedStage, WindowReport, run_stage
from penstock.spark.query.window_rows import Span, time_array, time_type
from penstock.spark.query.window_stage import Windowed, WindowStep, added, closing_panes
from penstock.spark.runtime.arrow_data import read_rows, read_segment, write_parquet, write_segments
from penstock.spark.runtime.engine import Engine

KIND = "aggregates"
_NOTHING = -(2**62)
_SLICE = re.compile(r"-(front|back)(\d+)of(\d+)-")


@dataclass
class Stacks:
    """The stacks of one slice while a round is worked on."""

    grouped: GroupedAggregates
    #: The partial results of a pane.
    pane: Callable[[int], pa.Table]
    #: Pane -> the combination of all front panes from it on, ascending.
    front: dict[int, pa.Table] = field(default_factory=dict)
    #: Panes whose combination is ``merged``, ascending.
    back: list[int] = field(default_factory=list)
    merged: pa.Table | None = None
    #: The last pane that was ever in the front.
    turned: int = _NOTHING
    #: Whether the front is another one than that in the file.
    changed: bool = False

    def push(self, pane: int) -> None:
        """Take the next pane."""
        new = self.pane(pane)
        self.merged = new if self.merged is None else self.grouped.merge(self.merged, new)
        self.back.append(pane)

    def window(self, first: int) -> pa.Table:
        """The partial results of the panes from ``first`` to the last one pushed."""
        if self.back and self.back[0] < first:
            self.turn(first)
        start = next((pane for pane in self.front if pane >= first), None)
        pieces = [] if start is None else [self.front[start]]
        pieces += [] if self.merged is None else [self.merged]
        return pieces[0] if len(pieces) == 1 else self.grouped.combined(pieces)

    def turn(self, first: int) -> None:
        """The back becomes the front, without the panes before ``first``."""
        made: dict[int, pa.Table] = {}
        sofar: pa.Table | None = None
        for pane in reversed([p for p in self.back if p >= first]):
            here = self.pane(pane)
            sofar = here if sofar is None else self.grouped.merge(here, sofar)
            made[pane] = sofar
        self.front = dict(sorted(made.items()))
        self.turned, self.back, self.merged, self.changed = self.back[-1], [], None, True


@dataclass(frozen=True, kw_only=True)
class AggregateStage(NumberedStage):
    """The stage as a function over the numbers of slices."""

    grouped: GroupedAggregates
    state_folder: str
    parts: tuple[Part, ...]
    #: Files of the stacks as of the batch before.
    files: tuple[str, ...]
    #: Panes before this one are in the stacks.
    stacked_before: int
    closing: tuple[int, ...]
    windows: tuple[Span, ...]
    #: Panes before this one are in no window to come.
    needed_from: int
    slices: int
    prefix: str
    staging: str
    time: str

    def piece(self, number: int) -> WindowReport:
        """One slice."""
        started, cpu = time.perf_counter(), time.process_time()
        stacks = self._restored(number)
        pending = list(self.closing)
        answers: list[pa.Table] = []
        for window in self.windows:
            while pending and pending[0] <= window.last:
                stacks.push(pending.pop(0))
            answers.append(stacks.window(window.first))
        for pane in pending:
            stacks.push(pane)
        if stacks.back and stacks.back[0] < self.needed_from:
            stacks.turn(self.needed_from)  # now, while the parts of all its panes are there
        done = time.perf_counter()
        files = self._saved(stacks, number)
        return WindowReport(
            worker=number,
            busy=done - started,
            sizes={w.number: a.num_rows for w, a in zip(self.windows, answers, strict=True)},
            output_file=self._write(number, answers),
            live_file=files[0],
            merged_file=files[1],
            live_rows=sum(t.num_rows for t in stacks.front.values()),
            candidates=sum(p.rows for p in self.parts if p.pane in self.closing),
            cpu=time.process_time() - cpu,
            write=time.perf_counter() - done,
        )

    def _pane(self, pane: int, number: int) -> pa.Table:
        tables = [read_rows(self.state_folder, p.file, p.segment) for p in self.parts if p.pane == pane]
        return self.grouped.combined([self._mine(t, number) for t in tables])

    def _mine(self, table: pa.Table, number: int) -> pa.Table:
        if self.slices == 1:
            return table
        own = table.column(CODE).to_numpy().view(np.uint64) % np.uint64(self.slices) == number
        return table.filter(pa.array(own))

    def _restored(self, number: int) -> Stacks:
        """The stacks as they were; parts tell which panes the back has."""
        stacks = Stacks(self.grouped, lambda pane: self._pane(pane, number))
        mine = [f for f in self.files if _SLICE.search(f) and _slice_of(f)[1:] == (number, self.slices)]
        same = bool(mine)
        fronts: dict[int, list[pa.Table]] = {}
        merged: list[pa.Table] = []
        for file in mine if same else self.files:
            kind = _slice_of(file)[0]
            index = read_segment(self.state_folder, file, 0)
            panes = index.column(CODE).to_pylist()
            stacks.turned = max(stacks.turned, panes[0])
            for at, pane in enumerate(panes[1:], start=1):
                table = read_rows(self.state_folder, file, at)
                (fronts.setdefault(pane, []) if kind == "front" else merged).append(table)

        def cut(table: pa.Table) -> pa.Table:
            return table if same else self._mine(table, number)

        for pane, tables in sorted(fronts.items()):
            stacks.front[pane] = self.grouped.combined([cut(t) for t in tables])
        stacks.changed = not same and bool(fronts)
        if merged:
            stacks.merged = self.grouped.combined([cut(t) for t in merged])
            stacks.back = sorted({p.pane for p in self.parts if stacks.turned < p.pane < self.stacked_before})
        return stacks

    def _saved(self, stacks: Stacks, number: int) -> tuple[str, str | None]:
        """Files of the back, always, and of the front, a new one only where it changed."""
        name = f"{number}of{self.slices}"
        back = self._file(f"back{name}", stacks.turned, {} if stacks.merged is None else {0: stacks.merged})
        front = {pane: table for pane, table in stacks.front.items() if pane >= self.needed_from}
        if not front:
            return back, None
        if not stacks.changed:
            return back, next(f for f in self.files if f"-front{name}-" in f)
        return back, self._file(f"front{name}", stacks.turned, front)

    def _file(self, kind: str, turned: int, tables: dict[int, pa.Table]) -> str:
        """A file with an index of panes in front, in the column of the codes."""
        schema = self.grouped.partial_schema
        panes = [turned, *tables]
        index = pa.Table.from_arrays(
            [pa.array(panes) if f.name == CODE else pa.nulls(len(panes), f.type) for f in schema],
            schema=schema,
        )
        return write_segments(self.state_folder, f"{self.prefix}-{kind}", schema, [index, *tables.values()])

    def _write(self, number: int, answers: list[pa.Table]) -> str | None:
        sizes = [a.num_rows for a in answers]
        if not sum(sizes):
            return None
        kind = time_type(self.grouped.schema.field(self.time).type)
        starts = np.repeat(np.array([w.start_us for w in self.windows], dtype=np.int64), sizes)
        ends = np.repeat(np.array([w.end_us for w in self.windows], dtype=np.int64), sizes)
        columns = self.grouped.lowered(pa.concat_tables(answers).combine_chunks())
        table = pa.table(
            [time_array(starts, kind), time_array(ends, kind), *columns],
            schema=aggregate_schema(self.grouped, self.time),
        )
        path = f"{self.staging}/{self.prefix}-{number}-{uuid.uuid4().hex[:8]}.parquet"
        write_parquet(table, path)
        return path


def _slice_of(file: str) -> tuple[str, int, int]:
    found = _SLICE.search(file)
    assert found is not None
    return found[1], int(found[2]), int(found[3])


def aggregate_schema(grouped: GroupedAggregates, time: str) -> pa.Schema:
    """The columns of a result: the window's bounds, the groups, the aggregates."""
    kind = time_type(grouped.schema.field(time).type)
    bounds = [pa.field("window_start", kind), pa.field("window_end", kind)]
    return pa.schema([*bounds, *(grouped.schema.field(name) for name in grouped.by), *grouped.results])


@dataclass(frozen=True)
class AggregateStep(WindowStep):
    """The driver's side: which panes close, which windows are due, one task a slice."""

    grouped: GroupedAggregates  # type: ignore[assignment]  # only what is overridden here looks into it

    def _shared(self, engine: Engine, state: QueryState, due: tuple[Span, ...], needed_from: int) -> Windowed:
        start = state.windowed_before if state.window_kind == KIND else None
        state, closing = closing_panes(state, KIND)
        if not closing and not due:
            return Windowed(state)
        slices = state.window_workers if self.grouped.by else 1
        stage = AggregateStage(
            grouped=self.grouped,
            state_folder=self.state_folder,
            parts=state.parts,
            files=state.window_files,
            stacked_before=_NOTHING if start is None else start,
            closing=tuple(closing),
            windows=due,
            needed_from=needed_from,
            slices=slices,
            prefix=self.prefix,
            staging=self.staging,
            time=self.time,
        )
        reports = run_stage(engine, stage, WindowReport, slices)
        files = tuple(f for r in reports for f in (r.live_file, r.merged_file) if f)
        return added(Windowed(replace(state, window_files=files)), reports)
