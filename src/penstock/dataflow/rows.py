"""Tuples as the runtime carries them: columns, with a position each.

The *position* of a tuple is that of the source row which caused it. It restores the order of arrival wherever tuples
of one key meet again, however many replicas they came through. It is one number a row, or two columns (event time,
then number) in flows that merge their sources by time.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.core.arrays import Ints
from penstock.dataflow.keys import Hashes
from penstock.dataflow.records import Records
from penstock.dataflow.running_figures import last_rows

Positions = Ints
Slots = Ints

#: Seconds after which there are no times any more: about the year 9999.
FAR = 253_402_300_800.0


#: What Arrow raises where a value does not fit.
MISFIT = (
    pa.ArrowInvalid,
    pa.ArrowTypeError,
    pa.ArrowNotImplementedError,
    ValueError,
    TypeError,
    OverflowError,
)
_WHOLE = {int, type(None)}


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
            pa.concat_tables([c.table for c in chunks]).combine_chunks(),
            np.concatenate([c.positions for c in chunks]),
            np.concatenate([c.hashes for c in chunks if c.hashes is not None]) if known else None,
        )
    order = sorting(whole.positions)
    return whole if order is None else whole.take(order)


def sorting(positions: Positions) -> Ints | None:
    """The stable order by position; None if the rows are in order already."""
    if positions.ndim == 2:
        order = np.lexsort((positions[:, 1], positions[:, 0]))
        return None if (order[1:] > order[:-1]).all() else order
    if (positions[1:] >= positions[:-1]).all():
        return None
    order = np.argsort(positions)
    placed = positions[order]
    if (placed[1:] > placed[:-1]).all():
        return order  # all different: the quick sort did no harm
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
    def last(self) -> Ints:
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
        return Records(self.table).part(0, len(self))


def event_times(column: pa.ChunkedArray) -> Ints:
    """A column of timestamps, or of seconds, in microseconds; what is no time is at the end of all times."""
    if column.null_count:
        column = column.fill_null(pa.scalar(0, pa.int64()).cast(column.type))
    if pa.types.is_timestamp(column.type):
        return np.asarray(
            column.cast(pa.timestamp("us", column.type.tz), safe=False).cast(pa.int64()).to_numpy()
        )
    seconds = np.nan_to_num(
        np.asarray(column.cast(pa.float64(), safe=False).to_numpy()), nan=FAR, posinf=FAR, neginf=-FAR
    )
    micros: Ints = np.rint(np.clip(seconds, -FAR, FAR) * 1e6).astype(np.int64)
    return micros


def no_times(column: pa.ChunkedArray) -> NDArray[np.bool_] | None:
    """Which values are no event times, being infinite or beyond any calendar; None where all are."""
    if pa.types.is_timestamp(column.type):
        return None
    seconds = np.asarray(column.cast(pa.float64(), safe=False).to_numpy())
    bad: NDArray[np.bool_] = ~(np.abs(seconds) < FAR)
    return bad if bad.any() else None


def column_of(values: Any, kind: pa.DataType) -> Any:
    """A column from an Arrow array, a numpy array or a list; raises one of :data:`MISFIT` where a value does not fit.

    >>> column_of([1, 2.0], pa.int64()).to_pylist()
    [1, 2]
    >>> column_of([1.9], pa.int64())
    Traceback (most recent call last):
        ...
    pyarrow.lib.ArrowInvalid: Float value 1.900000 was truncated converting to int64
    """
    if isinstance(values, pa.ChunkedArray | pa.Array):
        return values if values.type == kind else values.cast(kind)
    if isinstance(values, np.ndarray) and values.dtype != object:
        return pa.array(values, kind)
    made = pa.array(values, kind)
    # Arrow cuts Python numbers and times to fit; whether it did shows in the column it would have made by itself.
    if pa.types.is_integer(kind):
        if not set(map(type, values)) <= _WHOLE:
            _refuse_cut(pa.array(values), kind)
    elif pa.types.is_temporal(kind):
        _refuse_cut_time(pa.array(values), made)
    return made


def misfits(values: Any, kind: pa.DataType) -> list[int]:
    """The places of the values that do not fit; looked for one by one, after the column as a whole was refused."""
    listed: Sequence[Any] = (
        values.to_pylist() if isinstance(values, pa.ChunkedArray | pa.Array) else list(values)
    )
    typed = isinstance(values, pa.ChunkedArray | pa.Array)
    return [at for at, value in enumerate(listed) if not _fits(value, kind, values.type if typed else None)]


def _fits(value: Any, kind: pa.DataType, given: pa.DataType | None) -> bool:
    try:
        column_of([value] if given is None else pa.array([value], given), kind)
    except MISFIT:
        return False
    return True


def _refuse_cut(loose: pa.Array, kind: pa.DataType) -> None:
    if not pa.types.is_integer(loose.type) and not pa.types.is_null(loose.type):
        loose.cast(kind)


def _refuse_cut_time(loose: pa.Array, made: pa.Array) -> None:
    if pa.types.is_temporal(loose.type) and not made.cast(loose.type).equals(loose):
        raise pa.ArrowInvalid(f"a {loose.type} would be cut to {made.type}")
    if pa.types.is_floating(loose.type):
        raise pa.ArrowInvalid(f"a number with a fraction is no {made.type}")
