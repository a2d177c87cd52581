"""Windows as output: which panes they span, and how their rows are written."""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.preference.builders import Skyline
from penstock.preference.preference import Preference
from penstock.spark.query.parts import Ids, PartRows, Parts
from penstock.spark.query.rows import time_array, time_type
from penstock.spark.runtime.durable import write_parquet
from penstock.spark.runtime.segments import write_segments

MEMBER_SCHEMA = pa.schema([("window", pa.int64()), ("id", pa.int64())])


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

    def write(
        self, number: int, parts: Parts, rows: PartRows, members: Sequence[NDArray[np.int64]]
    ) -> WrittenWindows:
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
