"""Tuples as the runtime carries them: columns, with a position each.

The *position* of a tuple is that of the source row which caused it. It restores the order of arrival wherever tuples
of one key meet again, however many replicas they came through. It is one number a row, or two columns (event time,
then number) in flows that merge their sources by time.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.dataflow.keys import Hashes
from penstock.dataflow.running_figures import last_rows

Positions = NDArray[np.int64]
Slots = NDArray[np.int64]


@dataclass(frozen=True)
class Chunk:
    """Some tuples on their way: rows, their positions and, where known, the hashes of their region's key."""

    table: pa.Table
    positions: Positions
    hashes: Hashes | None = None

    def take(self, rows: NDArray[Any]) -> "Chunk":
        """Some of the rows, in the order given."""
        hashes = None if self.hashes is None else self.hashes[rows]
        return Chunk(self.table.take(pa.array(rows)), self.positions[rows], hashes)

    def part(self, begin: int, end: int) -> "Chunk":
        """The rows from ``begin`` up to ``end``, without copying."""
        hashes = None if self.hashes is None else self.hashes[begin:end]
        return Chunk(self.table.slice(begin, end - begin), self.positions[begin:end], hashes)

    @property
    def rows(self) -> int:
        """How many tuples."""
        return int(self.table.num_rows)


def joined(chunks: Sequence[Chunk]) -> Chunk:
    """Several chunks as one, in order of position; equal positions keep the order of the chunks."""
    if len(chunks) == 1:
        whole = chunks[0]
    else:
        known = all(c.hashes is not None for c in chunks)
        whole = Chunk(
            pa.concat_tables([c.table for c in chunks]),
            np.concatenate([c.positions for c in chunks]),
            np.concatenate([c.hashes for c in chunks if c.hashes is not None]) if known else None,
        )
    order = sorting(whole.positions)
    return whole if order is None else whole.take(order)


def sorting(positions: Positions) -> NDArray[np.int64] | None:
    """The stable order by position; None if the rows are in order already."""
    if positions.ndim == 2:
        order = np.lexsort((positions[:, 1], positions[:, 0]))
        return None if (order[1:] > order[:-1]).all() else order
    if (positions[1:] >= positions[:-1]).all():
        return None
    return np.argsort(positions, kind="stable")


class Rows:
    """The tuples of one input port as an operator of grain "table" gets them.

    ``rows["price"]`` is a column as a numpy array, ``rows.column("price")`` as Arrow, ``rows.slots`` the place of each
    row's key in the columns of the state.
    """

    def __init__(self, table: pa.Table, positions: Positions, slots: Slots, keys: int) -> None:
        self.table = table
        self.positions = positions
        self.slots = slots
        self._keys = keys

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def __getitem__(self, name: str) -> NDArray[Any]:
        return np.asarray(self.table.column(name).to_numpy())

    def column(self, name: str) -> Any:
        """A column as Arrow."""
        return self.table.column(name)

    @property
    def last(self) -> NDArray[np.int64]:
        """The row number of each key's last tuple; -1 where a key has none here."""
        return last_rows(self.slots, self._keys)

    def take(self, rows: NDArray[Any]) -> "Rows":
        """Some of the rows."""
        if len(rows) and rows[-1] - rows[0] + 1 == len(rows) and (rows[1:] > rows[:-1]).all():
            begin, end = int(rows[0]), int(rows[-1]) + 1
            table = self.table.slice(begin, end - begin)
            return Rows(table, self.positions[begin:end], self.slots[begin:end], self._keys)
        return Rows(self.table.take(pa.array(rows)), self.positions[rows], self.slots[rows], self._keys)

    def lists(self) -> list[dict[str, Any]]:
        """The rows as dictionaries."""
        names = self.table.column_names
        if not names:
            return [{} for _ in range(len(self))]
        values = zip(*(_listed(column) for column in self.table.columns), strict=True)
        return [dict(zip(names, row, strict=True)) for row in values]


def _listed(column: pa.ChunkedArray) -> list[Any]:
    """The values of a column; those of plain numbers by numpy, which is many times as quick as Arrow."""
    plain = pa.types.is_integer(column.type) or pa.types.is_floating(column.type)
    listed: list[Any] = column.to_numpy().tolist() if plain and not column.null_count else column.to_pylist()
    return listed


PortRows = Mapping[str, Rows]
