"""The papers' window stages: one task a window, each joining all its panes anew.

Who joins which window is in :mod:`penstock.preference.window_scheduling`. ``WIN_FB_MERGE`` adds MERGE tasks where there
are fewer windows than workers. ``WIN_PLAIN`` is what was done before panes: every window is computed from all its rows.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.core.arrays import Ints
from penstock.preference.builders import ByFactor
from penstock.preference.factor import factors_among
from penstock.preference.preference import Extras
from penstock.preference.two_stacks import Partial, merged
from penstock.preference.window_scheduling import merge_piles
from penstock.spark.query.reports import NumberedStage, WindowReport, report_batch
from penstock.spark.query.window_rows import (
    MEMBER_SCHEMA,
    Ids,
    PartRows,
    Parts,
    Span,
    WindowWriter,
    WrittenWindows,
)
from penstock.spark.runtime.arrow_data import read_segment, write_segments

RATED_SCHEMA = MEMBER_SCHEMA.append(pa.field("factor", pa.int32()))

STRATEGIES = ("WIN_RR", "WIN_FB", "WIN_FB_MERGE")


@dataclass(frozen=True)
class WindowTask:
    """Join some parts of a window, and what MERGE tasks made of others."""

    window: int
    parts: tuple[int, ...]
    #: Files of ids that a first round of MERGE tasks wrote.
    merged: tuple[str, ...] = ()


@dataclass(frozen=True)
class WindowStage(NumberedStage):
    """The final round: every worker joins its windows and writes their answers."""

    parts: Parts
    tasks: tuple[tuple[WindowTask, ...], ...]
    spans: tuple[Span, ...]
    writer: WindowWriter

    def piece(self, number: int) -> WindowReport:
        """The windows of one worker."""
        started, cpu = time.perf_counter(), time.process_time()
        preference = self.parts.grouped.preference
        ids, extras, spans = [], [], []
        joined = 0
        for task in self.tasks[number]:
            pieces = _pieces(self.parts, task)
            joined += sum(len(p.ids) for p in pieces)
            result = joined_pieces(self.parts, pieces)
            kept, values = preference.answer(result.points, result.classes)
            ids.append(result.ids[kept])
            extras.append(values)
            spans.append(next(s for s in self.spans if s.number == task.window))
        done = time.perf_counter()
        writer = WindowWriter(**(vars(self.writer) | {"windows": tuple(spans)}))
        written = writer.write_rows(number, self.parts, ids, extras) if spans else WrittenWindows()
        return WindowReport(
            **vars(written),
            worker=number,
            candidates=joined,
            busy=done - started,
            cpu=time.process_time() - cpu,
            write=time.perf_counter() - done,
        )


@dataclass(frozen=True)
class MergeStage(NumberedStage):
    """The round before, for MERGE tasks: join some parts of a window and leave the ids of the result in a file."""

    parts: Parts
    tasks: tuple[WindowTask, ...]
    prefix: str

    def piece(self, number: int) -> WindowReport:
        """One task."""
        started = time.perf_counter()
        task = self.tasks[number]
        result = joined_pieces(self.parts, _pieces(self.parts, task))
        columns = [pa.array(np.full(len(result.ids), task.window)), pa.array(result.ids)]
        table = pa.table(columns, schema=MEMBER_SCHEMA)
        prefix = f"{self.prefix}-merge{number}"
        name = write_segments(self.parts.state_folder, prefix, MEMBER_SCHEMA, [table])
        busy = time.perf_counter() - started
        return WindowReport(number, busy, merged_window=task.window, merged_file=name)


@dataclass(frozen=True)
class FactorStage(NumberedStage):
    """Dominance factors of the rows of windows, found in slices: each row is compared with all of its window."""

    parts: Parts
    spans: tuple[Span, ...]
    members: tuple[str, ...]
    slices: int
    prefix: str

    def piece(self, number: int) -> WindowReport:
        """One slice of one window."""
        started, cpu = time.perf_counter(), time.process_time()
        place, mine = divmod(number, self.slices)
        window = self.spans[place].number
        rows = self.parts.of_ids(np.sort(np.concatenate(_of_window(self.parts, self.members, window, "id"))))
        asked = np.arange(mine, len(rows), self.slices)
        factors = factors_among(rows.points, asked)
        compared = time.perf_counter()
        columns = [np.full(len(asked), window), rows.ids[asked], factors]
        table = pa.table([pa.array(c) for c in columns], schema=RATED_SCHEMA)
        name = write_segments(self.parts.state_folder, f"{self.prefix}-rated{number}", RATED_SCHEMA, [table])
        return WindowReport(
            worker=mine,
            members_file=name,
            busy=compared - started,
            cpu=time.process_time() - cpu,
            write=time.perf_counter() - compared,
        )


@dataclass(frozen=True)
class AnswerStage:
    """Whole answers of windows whose partial results were found in slices; a window a task.

    Where results are by dominance, slices have compared their rows with all others and found the factors that the answer
    goes by; elsewhere slices have to be merged.
    """

    parts: Parts
    spans: tuple[Span, ...]
    members: tuple[str, ...]
    writer: WindowWriter

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Answer the windows whose places come in."""
        for batch in batches:
            for place in batch.column(0).to_pylist():
                started = time.perf_counter()
                span = self.spans[place]
                ids, values = self._answer(span.number)
                done = time.perf_counter()
                writer = WindowWriter(**(vars(self.writer) | {"windows": (span,)}))
                written = writer.write_rows(place, self.parts, [ids], [values])
                yield report_batch(
                    WindowReport(
                        **vars(written),
                        worker=place,
                        busy=done - started,
                        write=time.perf_counter() - done,
                    )
                )

    def _answer(self, window: int) -> tuple[Ids, Extras]:
        preference = self.parts.grouped.preference
        ids = _of_window(self.parts, self.members, window, "id")
        if isinstance(preference, ByFactor):
            together, factors = (
                np.concatenate(found)
                for found in (ids, _of_window(self.parts, self.members, window, "factor"))
            )
            order = np.argsort(together)
            rows = self.parts.of_ids(together[order])
            kept, values = preference.rated(rows.points, factors[order].astype(np.int32))
            return rows.ids[kept], values
        whole = joined_pieces(self.parts, [self.parts.of_ids(some) for some in ids])
        kept, values = preference.answer(whole.points, whole.classes)
        return whole.ids[kept], values


def _of_window(parts: Parts, files: Sequence[str], window: int, column: str) -> list[Ints]:
    """A column of the rows that slices have found for a window, slice by slice."""
    tables = [read_segment(parts.state_folder, name, 0) for name in files]
    return [t[column].to_numpy()[t["window"].to_numpy() == window] for t in tables]


def merge_tasks(
    windows: Sequence[WindowTask], sizes: dict[int, int], workers: int
) -> tuple[list[WindowTask], list[WindowTask]]:
    """MERGE tasks for idle workers: (what they join first, the windows' tasks after that).

    Only where windows are fewer than workers is anybody idle; then each window's parts are dealt evenly, largest
    first, to its share of the workers.
    """
    share = workers // len(windows) if windows else 0
    if share < 2:
        return [], list(windows)
    first: list[WindowTask] = []
    rest: list[WindowTask] = []
    for task in windows:
        piles = merge_piles(task.parts, sizes, share)
        large = [pile for pile in piles if len(pile) > 1]
        first += [WindowTask(task.window, tuple(pile)) for pile in large]
        rest.append(WindowTask(task.window, tuple(p for pile in piles if len(pile) == 1 for p in pile)))
    return first, rest


def _pieces(parts: Parts, task: WindowTask) -> list[PartRows]:
    pieces = [parts.rows(parts.by_id[number]) for number in task.parts]
    for name in task.merged:
        ids: Ids = read_segment(parts.state_folder, name, 0)["id"].to_numpy()
        pieces.append(parts.of_ids(ids))
    return pieces


def joined_pieces(parts: Parts, pieces: Sequence[PartRows]) -> Partial:
    """One WIN_UPDATE after another: the partial result of a window; of plain rows one selection."""
    if any(part.raw for part in parts.parts):
        rows = parts.joined(pieces)
        some = rows.take(parts.grouped.preference.select(rows.points, rows.classes))
        return Partial(some.ids, some.points, some.classes)
    empty = parts.joined([])
    result = Partial(empty.ids, empty.points, empty.classes)
    for piece in pieces:
        other = Partial(piece.ids, piece.points, piece.classes)
        result = merged(parts.grouped.preference, result, other) if len(result.ids) else other
    return result
