"""The base of every preference: what a set must keep, how two such sets merge, what the final answer is.

A preference works on *partial results*. ``select`` reduces any set of rows to what may still matter, ``merge``
joins two partial results, ``answer`` turns the partial result of a whole window into the rows to emit. ``merge``
must be associative, so that panes may be combined in any grouping.
"""

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from functools import wraps
from importlib import import_module
from typing import Any, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.core.plain_values import fields_of, plain_values
from penstock.preference import points as columns
from penstock.preference.group_codes import group_codes
from penstock.preference.points import Attribute, Classes, Codes, Points, Rows, members, segments

Table: TypeAlias = Any  # pa.Table | pa.RecordBatch; pyarrow publishes no types
Extras = dict[str, NDArray[Any]]
Loop = TypeVar("Loop", bound=Callable[..., Any])


class Preference(ABC):
    """Base class of preferences over columns.

    A preference of your own sets ``attributes`` and writes ``select(self, points)`` and
    ``merge(self, left, right)``; the loop over classes (groups of a query, ``diff`` columns) is put around them.
    ``answer(self, points)`` is optional. ``penstock.testing.check_preference`` proves what the runtime relies on.

    >>> class Cheapest(Preference):
    ...     attributes = (columns.minimize("price"),)
    ...
    ...     def select(self, points):
    ...         return np.flatnonzero(points[:, 0] == points[:, 0].min(initial=np.inf))
    ...
    ...     def merge(self, left, right):
    ...         kept = self.select(np.vstack([left, right]))
    ...         return kept[kept < len(left)], kept[kept >= len(left)] - len(left)
    >>> Cheapest().select(np.array([[3.0], [1.0], [2.0]]), classes=np.array([0, 0, 1])).tolist()
    [1, 2]
    """

    #: The columns compared and the direction of each.
    attributes: tuple[Attribute, ...] = ()

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for name, loop in (
            ("select", _each_class),
            ("merge", _each_class_pair),
            ("answer", _each_class_answer),
        ):
            method = cls.__dict__.get(name)
            if method is not None and not _takes_classes(method):
                setattr(cls, name, loop(method))

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns needed, each once."""
        return tuple(dict.fromkeys(a.column for a in self.attributes))

    @property
    def extra_columns(self) -> dict[str, pa.DataType]:
        """Names and types of the columns that the answer adds."""
        return {}

    def check_schema(self, schema: pa.Schema) -> None:
        """Raise a sentence where a column is missing or cannot be ranked."""
        columns.check_schema(self.attributes, schema)

    def bad_rows(self, table: Table) -> tuple[Rows, list[str]]:
        """Rows with a null or NaN in a ranked column, and the reason of each."""
        return columns.bad_rows(table, self.attributes)

    def points(self, table: Table) -> Points:
        """The ranked columns as points (n, d), smaller is better."""
        return columns.points_of(table, self.attributes)

    def classes(self, table: Table) -> Classes:
        """Codes of the ``diff`` columns; None where there is none."""
        names = [a.column for a in self.attributes if a.direction == "diff"]
        return group_codes(table, names) if names else None

    @abstractmethod
    def select(self, points: Points, classes: Classes = None) -> Rows:
        """What a set of rows must keep, as sorted row numbers."""

    @abstractmethod
    def merge(
        self, left: Points, right: Points, left_classes: Classes = None, right_classes: Classes = None
    ) -> tuple[Rows, Rows]:
        """What stays of two partial results when they are joined: (rows of left, rows of right)."""

    def answer(self, points: Points, classes: Classes = None) -> tuple[Rows, Extras]:
        """The final rows of a window's merged partial result, and the values of the extra columns for them."""
        return np.arange(len(points)), {}

    def of(self, df: Any) -> Any:
        """The plain answer over a Spark DataFrame, a pandas DataFrame or an Arrow table, no windows; of the same kind."""
        return import_module("penstock.spark.query.static_answer").answer_of(self, df)

    @property
    def parameters(self) -> dict[str, Any]:
        """What besides the attributes makes this preference what it is, as plain values.

        State of a query is of no use for one with other parameters. By default everything that the object and its
        classes hold under public names.
        """
        held: dict[str, Any] = {}
        for kind in reversed(type(self).__mro__[: type(self).__mro__.index(Preference)]):
            held |= {k: v for k, v in vars(kind).items() if not k.startswith("_") and _is_value(v)}
        held |= fields_of(self)
        held.pop("attributes", None)
        return {name: plain_values(held[name]) for name in sorted(held)}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self.attributes))})"


def _is_value(member: object) -> bool:
    """Whether a member of a class is a value, not a method or a property."""
    return not (callable(member) or hasattr(member, "__get__"))


def _takes_classes(method: Callable[..., Any]) -> bool:
    names = inspect.signature(method).parameters
    return "classes" in names or "left_classes" in names


def _each_class(select: Callable[..., Rows]) -> Callable[..., Rows]:
    @wraps(select)
    def looped(self: Any, points: Points, classes: Classes = None) -> Rows:
        if classes is None:
            return select(self, points)
        return _sorted([rows[select(self, points[rows])] for rows in members(classes)])

    return _shown(looped)


def _each_class_pair(merge: Callable[..., tuple[Rows, Rows]]) -> Callable[..., tuple[Rows, Rows]]:
    @wraps(merge)
    def looped(
        self: Any,
        left: Points,
        right: Points,
        left_classes: Classes = None,
        right_classes: Classes = None,
    ) -> tuple[Rows, Rows]:
        if left_classes is None or right_classes is None:
            return merge(self, left, right)
        kept_left, kept_right = [], []
        for rows_left, rows_right in pairs_of_members(left_classes, right_classes):
            stays_left, stays_right = merge(self, left[rows_left], right[rows_right])
            kept_left.append(rows_left[stays_left])
            kept_right.append(rows_right[stays_right])
        return _sorted(kept_left), _sorted(kept_right)

    return _shown(looped)


def _each_class_answer(answer: Callable[..., tuple[Rows, Extras]]) -> Callable[..., tuple[Rows, Extras]]:
    @wraps(answer)
    def looped(self: Any, points: Points, classes: Classes = None) -> tuple[Rows, Extras]:
        if classes is None:
            return answer(self, points)
        parts = [(rows, *answer(self, points[rows])) for rows in members(classes)]
        if not parts:
            return answer(self, points)
        kept = np.concatenate([rows[chosen] for rows, chosen, _ in parts])
        order = np.argsort(kept, kind="stable")
        names = parts[0][2]
        return kept[order], {name: np.concatenate([p[2][name] for p in parts])[order] for name in names}

    return _shown(looped)


def _shown(looped: Loop) -> Loop:
    """Let ``inspect`` see the parameters of the loop, not of what it wraps: a subclass is wrapped once only."""
    del looped.__wrapped__  # type: ignore[attr-defined]
    return looped


def pairs_of_members(left: Codes, right: Codes) -> Iterator[tuple[Rows, Rows]]:
    """For every class of either side its rows on both sides (either may be empty)."""
    left_order, left_offsets, left_keys = segments(left)
    right_order, right_offsets, right_keys = segments(right)
    for key in np.union1d(left_keys, right_keys):
        yield (
            _segment(left_order, left_offsets, left_keys, key),
            _segment(right_order, right_offsets, right_keys, key),
        )


def _segment(order: Rows, offsets: Rows, keys: Codes, key: int) -> Rows:
    at = int(np.searchsorted(keys, key))
    return order[offsets[at] : offsets[at + 1]] if at < len(keys) and keys[at] == key else order[:0]


def _sorted(parts: list[Rows]) -> Rows:
    return np.sort(np.concatenate(parts)) if parts else np.zeros(0, dtype=np.int64)
