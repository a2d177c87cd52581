"""Rows of parts by number: what tasks of the window stage load, compare and give out.

A row of the state has a *row id*, the id of its part times 2^32 plus its place in it. Ids are what the window stage
keeps and writes; the rows themselves stay in the part files, mapped into memory, until their panes expire.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.preference.points import Codes, Points
from penstock.spark.query.pane_stage import GroupedPreference, Part
from penstock.spark.runtime.segments import read_segment

Ids = NDArray[np.int64]
Panes = NDArray[np.int64]


@dataclass(frozen=True)
class PartRows:
    """Some rows of the state: their ids, panes and points, and their classes where there are any."""

    ids: Ids
    panes: Panes
    points: Points
    classes: Codes | None

    def __len__(self) -> int:
        return len(self.ids)

    def take(self, chosen: NDArray[np.int64] | NDArray[np.bool_]) -> "PartRows":
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
        return read_segment(self.state_folder, part.file, part.segment)

    def rows(self, part: Part) -> PartRows:
        """All rows of a part."""
        if part.id not in self._rows:
            table = self.table(part)
            places = np.arange(table.num_rows, dtype=np.int64)
            self._rows[part.id] = PartRows(
                (np.int64(part.id) << 32) + places,
                np.full(len(places), part.pane, dtype=np.int64),
                self.grouped.preference.points(table),
                self.grouped.classes(table),
            )
        return self._rows[part.id]

    def of_panes(self, panes: Sequence[int]) -> PartRows:
        """All rows of all parts of some panes."""
        wanted = set(panes)
        return self.joined([self.rows(p) for p in self.parts if p.pane in wanted])

    def of_ids(self, ids: Ids) -> PartRows:
        """The rows with these ids, in this order."""
        if not len(ids):
            return self.joined([])
        parts, places = ids >> 32, ids & 0xFFFFFFFF
        order = np.argsort(parts, kind="stable")
        distinct, starts = np.unique(parts[order], return_index=True)
        pieces = [
            self.rows(self.by_id[int(part)]).take(places[chosen])
            for part, chosen in zip(distinct, np.split(order, starts[1:]), strict=True)
        ]
        back = np.empty_like(order)
        back[order] = np.arange(len(order))
        return self.joined(pieces).take(back)

    def joined(self, pieces: Sequence[PartRows]) -> PartRows:
        """Several sets one after another."""
        return PartRows.joined(pieces, self.width, self.classed)

    def full_rows(self, ids: Ids, schema: pa.Schema) -> pa.Table:
        """All columns of the rows with these ids, in this order; an id may come several times."""
        if not len(ids):
            return schema.empty_table()
        parts, places = ids >> 32, ids & 0xFFFFFFFF
        order = np.argsort(parts, kind="stable")
        distinct, starts = np.unique(parts[order], return_index=True)
        # Gather from each part alone: joining whole parts first would copy what is not wanted.
        pieces = [
            self.table(self.by_id[int(part)]).take(pa.array(places[chosen]))
            for part, chosen in zip(distinct, np.split(order, starts[1:]), strict=True)
        ]
        back = np.empty_like(order)
        back[order] = np.arange(len(order))
        return pa.concat_tables(pieces).combine_chunks().take(pa.array(back))
