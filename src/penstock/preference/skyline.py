"""The skyline: rows that no other row dominates (Boerzsoenyi, Kossmann, Stocker: The skyline operator, 2001)."""

import numpy as np
from numpy.typing import ArrayLike

from penstock.core.jit import jit
from penstock.preference.cross import dominates
from penstock.preference.points import Mask, Points, Rows, as_classes, as_points, members


def skyline(points: ArrayLike, *, distinct: bool = False, classes: ArrayLike | None = None) -> Rows:
    """Rows that no other row dominates, smaller is better, as sorted row numbers.

    Rows equal in all attributes all stay; ``distinct`` keeps the first of each such set.

    >>> skyline([[1, 4], [2, 2], [3, 3], [4, 1], [2, 2]]).tolist()
    [0, 1, 3, 4]
    >>> skyline([[1, 4], [2, 2], [3, 3], [4, 1], [2, 2]], distinct=True).tolist()
    [0, 1, 3]
    """
    array = as_points(points)
    codes = as_classes(classes, len(array))
    if codes is None:
        rows = np.flatnonzero(_skyline(array))
    else:
        parts = members(codes)
        rows = (
            np.sort(np.concatenate([part[_skyline(array[part])] for part in parts]))
            if parts
            else np.zeros(0, dtype=np.int64)
        )
    return first_of_equals(array, rows, codes) if distinct else rows


def first_of_equals(points: Points, rows: Rows, classes: Rows | None = None) -> Rows:
    """Of the given rows, the first of each set that is equal in all attributes and in class."""
    # Adding zero makes -0.0 and 0.0 the same bytes, as they are the same number.
    values = points[rows] + 0.0
    if classes is not None:
        values = np.column_stack([values, classes[rows].view(np.float64)])
    packed = np.ascontiguousarray(values).view(np.dtype((np.void, values.shape[1] * 8))).ravel()
    _, first = np.unique(packed, return_index=True)
    return rows[np.sort(first)]


@jit
def _skyline(points: Points) -> Mask:
    keep = np.ones(points.shape[0], dtype=np.bool_)
    for i in range(points.shape[0]):
        for j in range(points.shape[0]):
            if dominates(points[j], points[i]):
                keep[i] = False
                break
    return keep
