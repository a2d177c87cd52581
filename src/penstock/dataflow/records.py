"""Columns to dictionaries, one a row: the form in which operators of grain "key" see tuples and states."""

from collections.abc import Callable, Sequence
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from penstock.core.arrays import Ints
from penstock.dataflow.layers import grouped

if TYPE_CHECKING:
    from penstock.dataflow.rows import Rows


@cache
def record_maker(names: tuple[str, ...]) -> Callable[[Sequence[Sequence[Any]]], list[dict[str, Any]]]:
    """What makes a list of dictionaries with these names of columns with as many values.

    A display with the names in it, ``[{"a": v0, "b": v1} for v0, v1 in ...]``, takes a third of the time of
    ``dict(zip(names, values))``, so it is put together for the names at hand, as the standard library does for named tuples.

    >>> record_maker(("word", "n"))([["a", "b"], [1, 2]])
    [{'word': 'a', 'n': 1}, {'word': 'b', 'n': 2}]
    """
    pairs = ", ".join(f"{name!r}: v{at}" for at, name in enumerate(names))
    values = "".join(f"v{at}, " for at in range(len(names)))
    made: Any = eval(
        f"lambda columns: [{{{pairs}}} for {values} in zip(*columns, strict=True)]", {"zip": zip}
    )
    return made  # type: ignore[no-any-return]


@cache
def record_filler(names: tuple[str, ...]) -> Callable[[Sequence[Any], Sequence[Sequence[Any]]], None]:
    """What puts the values of such columns into dictionaries that are there already.

    >>> states = [{"n": 0}, {}]
    >>> record_filler(("n",))(states, [[5, 6]])
    >>> states
    [{'n': 5}, {'n': 6}]
    """
    values = "".join(f", v{at}" for at in range(len(names)))
    puts = "".join(f"\n        record[{name!r}] = v{at}" for at, name in enumerate(names))
    made: dict[str, Any] = {"zip": zip}
    exec(f"def fill(records, columns):\n    for record{values} in zip(records, *columns):{puts}", made)
    return made["fill"]  # type: ignore[no-any-return]


class Records:
    """The rows of a table as dictionaries, made when they are asked for."""

    def __init__(self, table: pa.Table) -> None:
        self._names = tuple(table.column_names)
        self._columns = [_sliceable(column) for column in table.columns]

    def part(self, begin: int, end: int) -> list[dict[str, Any]]:
        """Some of them; new ones each time."""
        if not self._names:
            return [{} for _ in range(end - begin)]
        return record_maker(self._names)([column(begin, end) for column in self._columns])


def _sliceable(column: pa.ChunkedArray) -> Callable[[int, int], list[Any]]:
    """Gives some values of a column as Python's; numbers and texts by numpy, which is many times as quick as Arrow."""
    kind = column.type
    text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
    if number and not column.null_count:
        values = column.to_numpy()
        return lambda begin, end: values[begin:end].tolist()
    if text:
        return lambda begin, end: column.slice(begin, end - begin).to_numpy().tolist()
    return lambda begin, end: column.slice(begin, end - begin).to_pylist()


class KeyQueue:
    """The tuples of one port, those of each key one after another."""

    def __init__(self, rows: "Rows", slots: Ints, keys: int) -> None:
        self.order, bounds = grouped(slots, keys)
        self.records = Records(rows.take(self.order).table)
        self.positions = rows.positions[self.order]
        self._bounds: list[int] = bounds.tolist()
        have = np.flatnonzero(np.diff(bounds))
        #: The keys that have tuples, where those of each are, and the position of the last of each.
        self.present: list[int] = have.tolist()
        self.ranges: list[tuple[int, int]] = list(
            zip(bounds[have].tolist(), bounds[have + 1].tolist(), strict=True)
        )
        self.last_places = self.positions[bounds[have + 1] - 1]

    def records_of(self, block: slice) -> list[list[dict[str, Any]]]:
        """The tuples of some of the keys that have any, by key."""
        ranges = self.ranges[block]
        first = ranges[0][0]
        records = self.records.part(first, ranges[-1][1])
        if len(records) == len(ranges):
            return [[record] for record in records]
        return [records[begin - first : end - first] for begin, end in ranges]

    @cached_property
    def listed(self) -> list[dict[str, Any]]:
        """All tuples."""
        return self.records.part(0, len(self.order))

    @cached_property
    def places(self) -> list[Any]:
        """The position of each tuple."""
        placed: list[Any] = self.positions.tolist()
        return placed

    def range(self, slot: int) -> tuple[int, int]:
        """From where to where the tuples of a key are."""
        return self._bounds[slot], self._bounds[slot + 1]
