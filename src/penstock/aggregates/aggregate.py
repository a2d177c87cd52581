"""What an aggregate is: ``lift`` values to partials, ``combine`` partials in any order, ``lower`` them to the result.

(Tangwongsan, Hirzel, Schneider and Wu: General incremental sliding-window aggregation, 2015.) All three are vectorised:
they take and give numpy arrays with one entry a row or a group.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.core.arrays import Ints, objects

Array = NDArray[Any]
#: The columns of partial results, by name.
Partials = Mapping[str, Array]


class Aggregate(ABC):
    """A figure of the rows of a window; derive from it for your own.

    ``combine`` must be associative and must not depend on the order: rows come out of order and windows share what was
    combined. Rows that have null in the column take no part; a window without others has null.

    >>> class SumOfSquares(Aggregate):
    ...     partials = {"squares": pa.float64()}
    ...     def lift(self, values): return {"squares": values * values}
    ...     def combine(self, left, right): return {"squares": left["squares"] + right["squares"]}
    ...     def lower(self, partials, rows): return partials["squares"]
    >>> squares = SumOfSquares("price")
    >>> lifted = squares.lift(np.array([1.0, 2.0, 3.0]))
    >>> squares.reduced(lifted, np.ones(3, dtype=np.int64), np.array([0, 2]))["squares"].tolist()
    [5.0, 9.0]
    """

    #: The columns of a partial result, with their types: plain numbers or binary.
    partials: ClassVar[Mapping[str, pa.DataType]] = {}
    #: Whether the result of no values is null.
    null_without_rows: ClassVar[bool] = True

    def __init__(self, column: str | None = None) -> None:
        self.column = column

    @property
    def parameters(self) -> Mapping[str, Any]:
        """What makes two aggregates of one class different; a checkpoint is refused to others."""
        return {
            "class": type(self).__name__,
            **{k: v for k, v in vars(self).items() if not k.startswith("_")},
        }

    def result_type(self, column: pa.DataType | None) -> pa.DataType:
        """The type of the result for a column of this type; raises where it cannot be aggregated so."""
        return pa.float64()

    @abstractmethod
    def lift(self, values: Array) -> Partials:
        """The partial result of each value by itself."""

    @abstractmethod
    def combine(self, left: Partials, right: Partials) -> Partials:
        """The partial results of pairs."""

    @abstractmethod
    def lower(self, partials: Partials, rows: Ints) -> Any:
        """The results of partial results; ``rows`` counts the values in each."""

    # What the runtime calls; overridden where there is a shorter way.

    def values(self, column: Any) -> Array:
        """A column without nulls as the array that ``lift`` takes."""
        return np.asarray(column.to_numpy(zero_copy_only=False))

    def lifted(self, values: Array, rows: Ints, starts: Ints) -> Partials:
        """The partial results of runs of values; where ``rows`` is 0 there is no value."""
        there = rows > 0
        if there.all():
            return self.reduced(self.lift(values), rows, starts)
        made = self.lift(values[there]) if there.any() else {}
        spread = {name: _spread(made.get(name, ()), there, kind) for name, kind in self.partials.items()}
        return self.reduced(spread, rows, starts)

    def reduced(self, partials: Partials, rows: Ints, starts: Ints) -> Partials:
        """The partial results of runs of partial results; where ``rows`` is 0 there is nothing in one."""
        return segmented(self.combine, partials, rows, starts)


def _spread(column: Any, there: NDArray[np.bool_], kind: pa.DataType) -> Array:
    """Partial results in the places where there is a value; what is in the others is looked at by nobody."""
    values = objects(column) if pa.types.is_binary(kind) else np.asarray(column)
    spread: Array = (
        objects([None] * len(there)) if values.dtype == object else np.zeros(len(there), values.dtype)
    )
    spread[there] = values
    return spread


def segmented(
    combine: Callable[[Partials, Partials], Partials], partials: Partials, rows: Ints, starts: Ints
) -> dict[str, Array]:
    """Combine runs of partial results: neighbours in pairs, again and again, until each run is one.

    As many calls as the longest run has binary digits, each on all runs at once.
    """
    columns = {name: np.asarray(values) for name, values in partials.items()}
    size = len(rows)
    runs = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, size)))
    while size > len(starts):
        place = np.arange(size) - np.repeat(starts, np.diff(np.append(starts, size)))
        left = np.flatnonzero(place % 2 == 0)
        paired = left[(left + 1 < size)]
        paired = paired[runs[np.minimum(paired + 1, size - 1)] == runs[paired]]
        both = paired[(rows[paired] > 0) & (rows[paired + 1] > 0)]
        only = paired[(rows[paired] == 0) & (rows[paired + 1] > 0)]
        made = combine({n: c[both] for n, c in columns.items()}, {n: c[both + 1] for n, c in columns.items()})
        for name, column in columns.items():
            changed = column.copy()
            changed[both] = made[name]
            changed[only] = column[only + 1]
            columns[name] = changed[left]
        summed = rows.copy()
        summed[paired] += rows[paired + 1]
        rows, runs, size = summed[left], runs[left], len(left)
        starts = np.searchsorted(runs, np.arange(len(starts)))
    return columns
