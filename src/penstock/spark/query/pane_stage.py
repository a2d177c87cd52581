"""The pane stage: each worker folds its new rows into the partial results of its open panes.

A *part* is what one worker holds of one pane: a segment of a state file that never changes. A worker that gets rows
of a pane it holds a part of reads that part, merges, and writes a new one; parts of panes without new rows stay where
they are. A pane may have several parts, on several workers; the window stage joins them.
"""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa
from pyspark.sql.types import StringType, StructType

from penstock.preference.cross import latest_dominator
from penstock.preference.group_codes import group_codes
from penstock.preference.points import Codes, Points, points_of
from penstock.preference.preference import Preference
from penstock.spark.query.reports import CloseReport, FoldedPart, FoldReport, NumberedStage
from penstock.spark.query.routing import unpack
from penstock.spark.runtime.arrow_data import binary_values, read_rows, write_segments

REPORT_SCHEMA = StructType().add("kind", StringType()).add("report", StringType())


@dataclass(frozen=True)
class Part:
    """A partial result: where it is, how many rows it keeps, how many it has seen."""

    id: int
    pane: int
    worker: int
    file: str
    segment: int
    rows: int
    received: int
    #: Closed because its worker was removed; its counter is zero, as Elastic-PPQ's Alg. 4 has it.
    forced: bool = False
    #: Rows as they came, not yet selected (in-order processing).
    raw: bool = False


class Folds(Protocol):
    """What the pane stage does with rows: partial results of rows, and of two partial results."""

    def select(self, table: pa.Table) -> pa.Table:
        """The partial result of a set of rows."""

    def merge(self, left: pa.Table, right: pa.Table) -> pa.Table:
        """The partial result of two."""

    def warm(self) -> None:
        """Compile what is needed."""


@dataclass(frozen=True)
class GroupedPreference:
    """How rows are compared: the preference, and the columns that make groups."""

    preference: Preference
    by: tuple[str, ...] = ()

    def classes(self, table: pa.Table) -> Codes | None:
        """One code a row; rows are compared only within their code."""
        names = [*self.by, *(a.column for a in self.preference.attributes if a.direction == "diff")]
        return group_codes(table, names) if names else None

    def _points(self, table: pa.Table) -> Points:
        return points_of(table, self.preference.attributes)

    def select(self, table: pa.Table) -> pa.Table:
        """The partial result of a set of rows."""
        kept = self.preference.select(self._points(table), self.classes(table))
        return table if len(kept) == table.num_rows else table.take(pa.array(kept))

    def merge(self, left: pa.Table, right: pa.Table) -> pa.Table:
        """The partial result of two."""
        kept_left, kept_right = self.preference.merge(
            self._points(left), self._points(right), self.classes(left), self.classes(right)
        )
        return pa.concat_tables([left.take(pa.array(kept_left)), right.take(pa.array(kept_right))])

    def warm(self) -> None:
        """Compile all kernels that this comparison needs, into the cache on disk.

        Done once by the driver, so that Python workers load machine code instead of each making it.
        """
        width = sum(a.direction != "diff" for a in self.preference.attributes)
        points = np.arange(4.0 * width).reshape(4, width)
        panes = np.arange(4)
        for classes in (None, np.zeros(4, dtype=np.int64)):
            self.preference.select(points, classes)
            self.preference.merge(points, points, classes, classes)
            self.preference.answer(points, classes)
            latest_dominator(points, points, panes, classes, classes)


@dataclass(frozen=True)
class PaneStage:
    """The stage as a function over the messages for one or more workers."""

    grouped: Folds
    state_folder: str
    prefix: str
    #: Worker -> pane -> the part it holds.
    held: Mapping[int, Mapping[int, Part]]
    in_order: bool = False

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Fold the rows of each worker and tell what came of it."""
        messages: dict[int, list[tuple[int, int, pa.Buffer]]] = {}
        for batch in batches:
            plain = [batch.column(name).to_pylist() for name in ("worker", "kind", "source", "number")]
            for worker, kind, source, number, payload in zip(
                *plain, binary_values(batch.column("payload")), strict=True
            ):
                if kind == "tally":
                    yield _report("tally", payload.to_pybytes().decode())
                else:
                    messages.setdefault(worker, []).append((source, number, payload))
        for worker, payloads in sorted(messages.items()):
            ordered = [payload for *_, payload in sorted(payloads, key=lambda m: m[:2])]
            yield _report("worker", self._fold(worker, ordered).to_json())

    def _fold(self, worker: int, payloads: list[pa.Buffer]) -> FoldReport:
        started, cpu = time.perf_counter(), time.process_time()
        arrived = by_pane(payloads)
        tables: list[pa.Table] = []
        parts: list[FoldedPart] = []
        for pane, rows in sorted(arrived.items()):
            result = self._merged(self.held.get(worker, {}).get(pane), rows)
            parts.append(FoldedPart(pane, len(tables), result.num_rows, rows.num_rows))
            tables.append(result)
        folded = time.perf_counter()
        file = write_segments(self.state_folder, f"{self.prefix}-w{worker}", tables[0].schema, tables)
        return FoldReport(
            worker=worker,
            file=file,
            parts=tuple(parts),
            busy=folded - started,
            cpu=time.process_time() - cpu,
            write=time.perf_counter() - folded,
        )

    def _merged(self, held: Part | None, rows: pa.Table) -> pa.Table:
        before = None if held is None else read_rows(self.state_folder, held.file, held.segment)
        if self.in_order:
            return rows if before is None else pa.concat_tables([before, rows])
        if before is not None and held is not None and held.raw:
            before = self.grouped.select(before)  # an earlier run kept rows as they came
        chosen = self.grouped.select(rows)
        return chosen if before is None else self.grouped.merge(before, chosen)


@dataclass(frozen=True)
class CloseStage(NumberedStage):
    """For in-order processing: sort the rows of closing panes by time and select, a pane a task."""

    grouped: GroupedPreference
    time: str
    state_folder: str
    prefix: str
    parts: tuple[Part, ...]

    def piece(self, number: int) -> CloseReport:
        """One pane's part."""
        started = time.perf_counter()
        part = self.parts[number]
        rows = read_rows(self.state_folder, part.file, part.segment)
        result = self.grouped.select(rows.sort_by(self.time))
        file = write_segments(self.state_folder, f"{self.prefix}-c{number}", result.schema, [result])
        return CloseReport(number, file, result.num_rows, time.perf_counter() - started)


def by_pane(payloads: list[pa.Buffer]) -> dict[int, pa.Table]:
    """The rows of messages, pane by pane."""
    pieces: dict[int, list[pa.Table]] = {}
    for payload in payloads:
        table, panes, offsets = unpack(payload)
        for pane, begin, end in zip(panes, offsets, offsets[1:], strict=False):
            pieces.setdefault(pane, []).append(table.slice(begin, end - begin))
    return {pane: pa.concat_tables(tables).combine_chunks() for pane, tables in pieces.items()}


def _report(kind: str, text: str) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([kind]), pa.array([text])], names=["kind", "report"])
