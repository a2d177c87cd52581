"""From columns to what the kernels take: points as float64 arrays, smaller is better, and classes as int64 codes.

An *attribute* is a column and what is wanted of it. A *class* bounds the comparison: rows are compared only with rows of
the same class. Groups of a query and ``diff`` attributes both become classes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import ArrayLike, NDArray

from penstock.core.arrays import Floats, Ints
from penstock.core.errors import PenstockError, unknown

Points = Floats
Rows = Ints
Codes = Ints
#: The class of each row; None where all are of one.
Classes = Codes | None
Mask = NDArray[np.bool_]
Direction = Literal["min", "max", "diff"]

#: Integers up to here are exact as float64.
_EXACT = 2**53


def as_points(points: ArrayLike) -> Points:
    """The points as a C-ordered float64 array (n, d).

    >>> as_points([[1, 2], [3, 4]]).shape
    (2, 2)
    """
    array = np.ascontiguousarray(points, dtype=np.float64)
    if array.ndim != 2:
        raise PenstockError(
            f"Points must be an array of rows and attributes, not one of {array.ndim} axes; reshape it to (n, d)."
        )
    return array


def no_nan(found: bool) -> None:
    """Raise where a kernel has found a NaN; they look as they go, which is cheaper than a pass of its own."""
    if found:
        raise PenstockError(
            "Points hold NaN, which is neither better nor worse than a number; remove those rows first."
        )


def as_classes(classes: Any, rows: int) -> Codes | None:
    """The class codes as int64, one a row, or None."""
    if classes is None:
        return None
    codes = np.ascontiguousarray(classes, dtype=np.int64)
    if codes.shape != (rows,):
        raise PenstockError(
            f"There are {rows} rows but classes of shape {codes.shape}; give one class a row."
        )
    return codes


def same_width(left: Points, right: Points) -> None:
    """Raise where two sets of points do not have the same attributes."""
    if left.shape[1] != right.shape[1]:
        raise PenstockError(
            f"Points of {left.shape[1]} and of {right.shape[1]} attributes cannot be compared; "
            "give both the same columns."
        )


def segments(classes: Codes) -> tuple[Rows, Rows, Codes]:
    """Rows ordered by class: (order, offsets, class of each segment); order[offsets[i]:offsets[i+1]] is segment i."""
    order = np.argsort(classes, kind="stable")
    ordered = classes[order]
    starts = (
        np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]]) if len(ordered) else np.zeros(0, np.int64)
    )
    return order, np.append(starts, len(ordered)).astype(np.int64), ordered[starts]


def members(classes: Codes) -> list[Rows]:
    """The rows of each class, in ascending order of class and row."""
    order, offsets, _ = segments(classes)
    return [order[a:b] for a, b in pairwise(offsets)]


@dataclass(frozen=True)
class Attribute:
    """A column and its direction: the smaller the better, the larger the better, or only equals compare."""

    column: str
    direction: Direction = "min"

    def __post_init__(self) -> None:
        if not self.column or not isinstance(self.column, str):
            raise PenstockError(
                f"An attribute needs the name of a column, not {self.column!r}; give its name."
            )
        if self.direction not in ("min", "max", "diff"):
            raise unknown("direction", self.direction, ("min", "max", "diff"))


def minimize(column: str) -> Attribute:
    """The smaller, the better.

    >>> minimize("price")
    Attribute(column='price', direction='min')
    """
    return Attribute(column, "min")


def maximize(column: str) -> Attribute:
    """The larger, the better."""
    return Attribute(column, "max")


def diff(column: str) -> Attribute:
    """Compare rows only with rows that are equal in this column."""
    return Attribute(column, "diff")


def ranked(attributes: Sequence[Attribute]) -> list[Attribute]:
    """The attributes that say better or worse, without the ``diff`` ones."""
    return [a for a in attributes if a.direction != "diff"]


def check_schema(attributes: Sequence[Attribute], schema: pa.Schema) -> None:
    """Raise where a column is missing, or is ranked but not of a type that has numbers."""
    for attribute in attributes:
        if attribute.column not in schema.names:
            raise unknown("column", attribute.column, schema.names)
        kind = schema.field(attribute.column).type
        if attribute.direction != "diff" and not _is_numeric(kind):
            raise PenstockError(
                f"Column '{attribute.column}' is of type {kind} and has no numeric order; "
                "name a column of numbers, times or booleans."
            )


def points_of(table: pa.Table | pa.RecordBatch, attributes: Sequence[Attribute]) -> Points:
    """The ranked columns as float64 points (n, d), turned so that smaller is better."""
    check_schema(attributes, table.schema)
    chosen = ranked(attributes)
    points = np.empty((table.num_rows, len(chosen)), dtype=np.float64)
    for index, attribute in enumerate(chosen):
        values = _numbers(table.column(attribute.column), attribute.column)
        np.multiply(values, -1.0 if attribute.direction == "max" else 1.0, out=points[:, index])
    return points


def bad_rows(
    table: pa.Table | pa.RecordBatch, attributes: Sequence[Attribute]
) -> tuple[np.ndarray[Any, Any], list[str]]:
    """Rows that cannot be compared, with the reason of each: (row numbers, reasons); null or NaN in a ranked column."""
    reasons: dict[int, str] = {}
    for attribute in reversed(ranked(attributes)):
        column = table.column(attribute.column)
        wrong = [("null", pc.is_null(column))] if column.null_count else []
        if pa.types.is_floating(column.type):
            wrong.append(("NaN", pc.fill_null(pc.is_nan(column), False)))
        for word, mask in wrong:
            rows = np.flatnonzero(mask.to_numpy(zero_copy_only=False) if isinstance(mask, pa.Array) else mask)
            reasons.update((int(row), f"{attribute.column} is {word}") for row in rows)
    rows = np.array(sorted(reasons), dtype=np.int64)
    return rows, [reasons[row] for row in rows.tolist()]


def _is_numeric(kind: pa.DataType) -> bool:
    tests = (
        pa.types.is_integer,
        pa.types.is_floating,
        pa.types.is_decimal,
        pa.types.is_boolean,
        pa.types.is_temporal,
    )
    return any(test(kind) for test in tests) and not pa.types.is_interval(kind)


def _numbers(column: pa.Array | pa.ChunkedArray, name: str) -> np.ndarray[Any, Any]:
    """A column as float64; never a silent loss: nulls and integers that float64 cannot hold are errors."""
    if column.null_count:
        raise PenstockError(f"Column '{name}' has nulls, which cannot be compared; remove those rows first.")
    kind = column.type
    if pa.types.is_temporal(kind):
        column = column.cast(pa.int32() if kind.bit_width == 32 else pa.int64())
    elif pa.types.is_boolean(kind):
        column = column.cast(pa.int8())
    elif pa.types.is_decimal(kind):
        column = column.cast(pa.float64(), safe=False)
    values: np.ndarray[Any, Any] = column.to_numpy()
    if values.dtype.kind in "iu" and values.dtype.itemsize == 8 and len(values) and not _fits(values):
        raise PenstockError(
            f"Column '{name}' holds integers beyond 2^53, which a float64 cannot tell apart; scale them down."
        )
    return values


def _fits(values: np.ndarray[Any, Any]) -> bool:
    return int(values.min()) >= -_EXACT and int(values.max()) <= _EXACT
