"""What the kernels take: points as float64 arrays, smaller is better, and classes as int64 codes.

A *class* bounds the comparison: rows are compared only with rows of the same class. Groups of a query and
``diff`` attributes both become classes.
"""

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from penstock.core.errors import PenstockError

Points = NDArray[np.float64]
Rows = NDArray[np.int64]
Codes = NDArray[np.int64]
#: The class of each row; None where all are of one.
Classes = Codes | None
Mask = NDArray[np.bool_]


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
