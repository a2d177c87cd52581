"""Rows of parts by number: what tasks of the window stage load, compare and write as windows.

A row of the state has a *row id*, the id of its part times 2^32 plus its place in it. Ids are what the window stage
keeps and writes; the rows themselves stay in the part files, mapped into memory, until their panes expire.
"""

import threading
import uuid
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.core.arrays import Ints
from penstock.core.grouping import places_of
from penstock.preference.builders import Skyline
from penstock.preference.points import Codes, Points, points_of
from penstock.preference.preference import Preference
from penstock.spark.query.pane_stage import GroupedPreference, Part
from penstock.spark.runtime.arrow_data import read_rows, write_parquet, write_segments

Ids = Ints
Panes = Ints

MEMBER_SCHEMA = pa.schema([("window", pa.int64()), ("id", pa.int64())])


@dataclass(frozen=True)
class PartRows:
    """Some rows of the state: their ids, panes and points, and their classes where there are any."""

    ids: Ids
    panes: Panes
    points: Points
    classes: Codes | None

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def size(self) -> int:
        """Bytes."""
        return self.ids.nbytes + self.panes.nbytes + self.points.nbytes

    def take(self, chosen: Ints | NDArray[np.bool_]) -> "PartRows":
        """A part of them."""
        classes = None if self.classes is None else self.classes[chosen]
        return PartRows(self.ids[chosen], self.panes[chosen], self.points[chosen], classes)

    @staticmethod
    def joined(pieces: Sequence["PartRows"], width: int, classed: bool) -> "PartRows":
        """Several one after another; ``width`` and ``classed`` shape the empty case."""
        if not pieces:
            nothing = np.zeros(0, dtype=np.int64)
            return PartRows(nothing, nothing, np.zeros((0, width)), nothing if classed else None)
        classes = [p.classes for p in pieces if p.classes is not None]
        return PartRows(
            np.concatenate([p.ids for p in pieces]),
            np.concatenate([p.panes for p in pieces]),
            np.concatenate([p.points for p in pieces]),
            np.concatenate(classes) if classes else None,
        )


class KeptRows:
    """Rows of parts that later tasks of this process need again, up to so many bytes; the longest unused go first."""

    def __init__(self, most: int) -> None:
        self._most, self._bytes = most, 0
        self._rows: OrderedDict[Hashable, PartRows] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Hashable, read: Callable[[], PartRows]) -> PartRows:
        """What is kept, or read now."""
        with self._lock:
            found = self._rows.pop(key, None)
            self._bytes -= 0 if found is None else found.size
        found = read() if found is None else found
        with self._lock:
            before = self._rows.pop(key, None)
            self._rows[key] = found
            self._bytes += found.size - (0 if before is None else before.size)
            while self._bytes > self._most and self._rows:
                self._bytes -= self._rows.popitem(last=False)[1].size
        return found


#: A part never changes under its name.
_KEPT = KeptRows(64 << 20)


@dataclass
class Parts:
    """The parts a task may need, each read on first use."""

    grouped: GroupedPreference
    state_folder: str
    parts: Sequence[Part]
    _rows: dict[int, PartRows] = field(default_factory=dict)

    @cached_property
    def by_id(self) -> dict[int, Part]:
        """Part id -> part."""
        return {part.id: part for part in self.parts}

    @property
    def classed(self) -> bool:
        """Whether rows have classes."""
        return bool(self.grouped.by) or any(a.direction == "diff" for a in self.grouped.preference.attributes)

    @cached_property
    def width(self) -> int:
        """The number of ranked attributes."""
        return sum(a.direction != "diff" for a in self.grouped.preference.attributes)

    def table(self, part: Part) -> pa.Table:
        """All columns of a part, mapped."""
        return read_rows(self.state_folder, part.file, part.segment)

    def rows(self, part: Part) -> PartRows:
        """All rows of a part."""
        if part.id not in self._rows:
            key = (self._whose, part.file, part.segment, part.id, part.pane)
            self._rows[part.id] = _KEPT.get(key, lambda: self._read(part))
        return self._rows[part.id]

    @cached_property
    def _whose(self) -> Hashable:
        return self.state_folder, repr(self.grouped.by), repr(self.grouped.preference.attributes)

    def _read(self, part: Part) -> PartRows:
        table = self.table(part)
        places = np.arange(table.num_rows, dtype=np.int64)
        return PartRows(
            (np.int64(part.id) << 32) + places,
            np.full(len(places), part.pane, dtype=np.int64),
            points_of(table, self.grouped.preference.attributes),
            self.grouped.classes(table),
        )

    def of_panes(self, panes: Sequence[int]) -> PartRows:
        """All rows of all parts of some panes."""
        wanted = set(panes)
        return self.joined([self.rows(p) for p in self.parts if p.pane in wanted])

    def of_ids(self, ids: Ids) -> PartRows:
        """The rows with these ids, in this order."""
        if not len(ids):
            return self.joined([])
        by_part, back = _by_part(ids)
        return self.joined([self.rows(self.by_id[part]).take(places) for part, places in by_part]).take(back)

    def joined(self, pieces: Sequence[PartRows]) -> PartRows:
        """Several sets one after another."""
        return PartRows.joined(pieces, self.width, self.classed)

    def full_rows(self, ids: Ids, schema: pa.Schema) -> pa.Table:
        """All columns of the rows with these ids, in this order; an id may come several times."""
        if not len(ids):
            return schema.empty_table()
        by_part, back = _by_part(ids)
        # Gather from each part alone: joining whole parts first would copy what is not wanted.
        pieces = [self.table(self.by_id[part]).take(pa.array(places)) for part, places in by_part]
        return pa.concat_tables(pieces).combine_chunks().take(pa.array(back))


def _by_part(ids: Ids) -> tuple[list[tuple[int, Ints]], Ints]:
    """Each part with the places of its rows, and where among all of these each id's row is."""
    rows_of = places_of((ids >> 32) & 0xFFFFFFFF)  # earlier versions let ids of parts run over the sign
    back = np.empty(len(ids), dtype=np.int64)
    back[np.concatenate([rows for _, rows in rows_of])] = np.arange(len(ids))
    return [(part, ids[rows] & 0xFFFFFFFF) for part, rows in rows_of], back


@dataclass(frozen=True)
class Span:
    """A window: its number, its first and last pane, its bounds in microseconds."""

    number: int
    first: int
    last: int
    start_us: int
    end_us: int


def result_schema(schema: pa.Schema, time: str, preference: Preference) -> pa.Schema:
    """The columns of a result: the window's bounds, all input columns, what the preference adds."""
    kind = time_type(schema.field(time).type)
    bounds = [pa.field("window_start", kind), pa.field("window_end", kind)]
    extras = [pa.field(name, type_) for name, type_ in preference.extra_columns.items()]
    return pa.schema([*bounds, *schema, *extras])


@dataclass(frozen=True)
class WrittenWindows:
    """What a writer wrote: the sizes of the windows' answers, the file of their rows or of row ids."""

    sizes: Mapping[int, int] = field(default_factory=dict)
    output_file: str | None = None
    members_file: str | None = None


@dataclass(frozen=True)
class WindowWriter:
    """Turns the rows of windows into a Parquet file, or, where only part of each window is at hand, into a file of ids."""

    preference: Preference
    windows: tuple[Span, ...]
    schema: pa.Schema
    time: str
    staging: str
    prefix: str
    #: Whether the rows at hand are all there is of a window (or of each class in it).
    whole: bool

    @property
    def needs_equals_together(self) -> bool:
        """Whether equal rows must be in one slice for the answer to be found there."""
        return isinstance(self.preference, Skyline) and self.preference.distinct

    @property
    def answers(self) -> bool:
        """Whether the final answer can be given from the rows at hand."""
        return self.whole or isinstance(self.preference, Skyline)

    def write(self, number: int, parts: Parts, rows: PartRows, members: Sequence[Ints]) -> WrittenWindows:
        """Write the windows' rows; ``members`` are row numbers of ``rows``, one array a window."""
        if not self.windows:
            return WrittenWindows()
        if not self.answers:
            return self.write_members(number, parts, [rows.ids[chosen] for chosen in members])
        ids, sizes, extras = [], [], []
        for chosen in members:
            some = rows.take(chosen)
            kept, values = self.preference.answer(some.points, some.classes)
            ids.append(some.ids[kept])
            sizes.append(len(kept))
            extras.append(values)
        return self.write_rows(number, parts, ids, extras)

    def write_rows(
        self, number: int, parts: Parts, ids: Sequence[Ids], extras: Sequence[dict[str, NDArray[Any]]]
    ) -> WrittenWindows:
        """Write the final rows of each window, with the values of the added columns."""
        sizes = [len(i) for i in ids]
        by_window = {w.number: n for w, n in zip(self.windows, sizes, strict=True)}
        if not sum(sizes):
            return WrittenWindows(by_window)
        table = parts.full_rows(np.concatenate(ids), self.schema)
        result = result_schema(table.schema, self.time, self.preference)
        starts = np.repeat(np.array([w.start_us for w in self.windows], dtype=np.int64), sizes)
        ends = np.repeat(np.array([w.end_us for w in self.windows], dtype=np.int64), sizes)
        kind = result.field("window_start").type
        columns = [time_array(starts, kind), time_array(ends, kind), *table.columns]
        columns += [
            pa.array(np.concatenate([e[name] for e in extras]), type_)
            for name, type_ in self.preference.extra_columns.items()
        ]
        path = f"{self.staging}/{self.prefix}-{number}-{uuid.uuid4().hex[:8]}.parquet"
        write_parquet(pa.table(columns, schema=result), path)
        return WrittenWindows(by_window, path)

    def write_members(
        self, number: int, parts: Parts, ids: Sequence[Ids], _extras: Sequence[object] = ()
    ) -> WrittenWindows:
        """Write the ids of the rows that each window has in this slice."""
        windows = np.repeat(np.array([w.number for w in self.windows], dtype=np.int64), [len(i) for i in ids])
        table = pa.table([pa.array(windows), pa.array(np.concatenate(ids))], schema=MEMBER_SCHEMA)
        name = write_segments(parts.state_folder, f"{self.prefix}-members{number}", MEMBER_SCHEMA, [table])
        return WrittenWindows(members_file=name)


def time_type(like: pa.DataType) -> pa.DataType:
    """The type of ``window_start`` and ``window_end`` for a time column of this type: always timestamps."""
    return pa.timestamp("us", like.tz if pa.types.is_timestamp(like) else "UTC")


def time_array(us: Ints, kind: pa.DataType) -> pa.Array:
    """Microseconds as an array of what :func:`time_type` gave."""
    return pa.array(us, pa.int64()).cast(kind)
