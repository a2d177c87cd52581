"""The skyline: rows that no other row dominates (Boerzsoenyi, Kossmann, Stocker: The skyline operator, 2001).

Sort first, then filter, in four steps: drop what a few strong rows dominate; turn the rest into bytes; order it so
that dominators come first; put row after row to a store of those kept so far, 64 comparisons an instruction.
"""

import numpy as np
from numpy.typing import ArrayLike

from penstock.core.arrays import Bytes, Floats
from penstock.core.jit import jit
from penstock.preference.blocks import copy_row, first_dominator, lanes, new_store, put
from penstock.preference.grid import encode, fitted, padded
from penstock.preference.ordering import dominance_order
from penstock.preference.points import Mask, Points, Rows, as_classes, as_points, no_nan, segments
from penstock.preference.prefilter import survivors
from penstock.preference.sweep import sweep

#: Fewer rows than this are compared pair by pair.
FEW = 24


def skyline(points: ArrayLike, *, distinct: bool = False, classes: ArrayLike | None = None) -> Rows:
    """Rows that no other row dominates, smaller is better, as sorted row numbers.

    Rows equal in all attributes all stay; ``distinct`` keeps the first of each such set. With ``classes`` rows are
    compared only within their class.

    >>> skyline([[1, 4], [2, 2], [3, 3], [4, 1], [2, 2]]).tolist()
    [0, 1, 3, 4]
    >>> skyline([[1, 4], [2, 2], [3, 3], [4, 1], [2, 2]], distinct=True).tolist()
    [0, 1, 3]
    """
    array = as_points(points)
    codes = as_classes(classes, len(array))
    keep = np.zeros(len(array), dtype=np.bool_)
    if codes is None:
        no_nan(_skyline(array, keep))
        rows = np.flatnonzero(keep)
    else:
        order, offsets, _ = segments(codes)
        no_nan(_skylines(array[order], offsets, keep))
        rows = np.sort(order[keep])
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
def _skylines(points: Points, offsets: Rows, keep: Mask) -> bool:
    """The skyline of each segment; True if there was a NaN."""
    nan = False
    for s in range(len(offsets) - 1):
        begin, end = offsets[s], offsets[s + 1]
        nan |= _skyline(points[begin:end], keep[begin:end])
    return nan


@jit
def _skyline(points: Points, keep: Mask) -> bool:
    """Mark the rows of the skyline; True if there was a NaN."""
    count, width = points.shape
    if width == 0:
        keep[:] = True
        return False
    if count < FEW:
        return _pair_by_pair(points, keep)
    rows = np.empty(count, dtype=np.int64)
    kept = survivors(points, rows)
    if width <= 2:
        return sweep(points, rows[:kept], keep)
    grid = fitted(points, rows, kept)
    codes = np.zeros(kept * padded(width), dtype=np.uint8)
    if encode(points, rows, kept, grid, codes):
        return True
    order = dominance_order(points, rows, kept, codes)
    _filter(points, rows, codes, order, keep)
    return False


@jit
def _filter(points: Points, rows: Rows, codes: Bytes, order: Rows, keep: Mask) -> None:
    """Keep each row, dominators first, that no row kept before dominates; equal rows share their fate."""
    width = points.shape[1]
    depth, step = padded(width), lanes(width)
    columns, smallest, stored = new_store(len(order) + 1, width)
    flat = points.reshape(-1)
    size, last = 0, -1
    for t in range(len(order)):
        c = order[t] * depth
        i = rows[order[t]]
        if last >= 0 and _equal(flat, last * width, i * width, width):
            keep[i] = keep[last]
            continue
        last = i
        # The row is put to its place at once; it counts only if nothing dominates it.
        at = size * step
        copy_row(stored, at, flat, i * width, width)
        if first_dominator(columns, smallest, stored, size, codes, c, stored, at, depth, step) < 0:
            put(columns, smallest, stored, size, codes, c, flat, i * width, width)
            size += 1
            keep[i] = True


@jit
def _pair_by_pair(points: Points, keep: Mask) -> bool:
    count, width = points.shape
    for i in range(count):
        keep[i] = True
        for k in range(width):
            if points[i, k] != points[i, k]:
                return True
        for j in range(count):
            if dominates(points[j], points[i]):
                keep[i] = False
                break
    return False


@jit(forceinline=True)
def dominates(better: Points, worse: Points) -> bool:
    """Whether the first row is nowhere worse and somewhere better than the second."""
    strict = False
    for k in range(better.shape[0]):
        if better[k] > worse[k]:
            return False
        strict |= better[k] < worse[k]
    return strict


@jit(forceinline=True)
def _equal(flat: Floats, a: int, b: int, width: int) -> bool:
    equal = True
    for k in range(width):
        equal &= flat[a + k] == flat[b + k]
    return equal
