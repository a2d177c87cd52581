"""k-dominance: the dominance factor, the k-dominant skyline and the top-delta answer.

Row p k-dominates row q if p is nowhere worse than q on some k attributes and better on at least one of them
(Chan et al.: Finding k-dominant skylines in high dimensional space, 2006), that is, with
le = #{a : p_a <= q_a} and lt = #{a : p_a < q_a}:  le >= k and lt >= 1.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from penstock.core.arrays import Floats
from penstock.core.errors import PenstockError
from penstock.core.jit import jit
from penstock.preference.blocks import filled_store, lanes
from penstock.preference.grid import HUGE, encode, fitted, padded
from penstock.preference.points import Codes, Points, Rows, as_classes, as_points, members
from penstock.preference.simd import at_least, bits_set, le4, le8, lowest_bit, lt4, lt8
from penstock.preference.skyline import skyline

Factors = NDArray[np.int32]

#: Attributes are counted in bytes.
MOST_ATTRIBUTES = 250


def dominance_factor(points: ArrayLike, *, classes: ArrayLike | None = None) -> Factors:
    """For a skyline row the smallest k for which no other row k-dominates it (1..d), 0 outside the skyline.

    factor(q) = 1 + max le(p, q) over rows p with lt(p, q) >= 1. Only skyline rows p need comparing: whatever a
    dominated row k-dominates, its dominator k-dominates too.

    >>> dominance_factor([[1, 3, 1], [2, 1, 2], [3, 2, 3]]).tolist()
    [2, 3, 0]
    """
    array = as_points(points)
    codes = as_classes(classes, len(array))
    rows = skyline(array, classes=codes)
    factors = np.zeros(len(array), dtype=np.int32)
    factors[rows] = factors_of_skyline(array[rows], None if codes is None else codes[rows])
    return factors


def factors_of_skyline(points: Points, classes: Codes | None = None) -> Factors:
    """The factors of rows that are known to be a skyline (of each class), such as a window's merged result."""
    if classes is None:
        return factors_among(points, np.arange(len(points)))
    factors = np.zeros(len(points), dtype=np.int32)
    for rows in members(classes):
        factors[rows] = factors_among(points[rows], np.arange(len(rows)))
    return factors


def factors_among(points: Points, asked: Rows) -> Factors:
    """The factors of some rows of a skyline, in the order asked for: what several workers can share.

    >>> factors_among(np.array([[1.0, 3.0, 1.0], [2.0, 1.0, 2.0]]), np.array([1])).tolist()
    [3]
    """
    if points.shape[1] > MOST_ATTRIBUTES:
        raise PenstockError(
            f"{points.shape[1]} attributes are too many for dominance factors; choose at most {MOST_ATTRIBUTES}."
        )
    return _factors(points, asked)


def k_dominant(points: ArrayLike, k: int) -> Rows:
    """Rows that no other row k-dominates, as sorted row numbers.

    >>> k_dominant([[1, 3, 1], [2, 1, 2], [3, 2, 3]], 2).tolist()
    [0]
    """
    array = as_points(points)
    if not 1 <= k <= array.shape[1]:
        raise PenstockError(
            f"k is {k} with {array.shape[1]} attributes; choose k from 1 to {array.shape[1]}."
        )
    factors = dominance_factor(array)
    return np.flatnonzero((factors > 0) & (factors <= k))


def top_delta(points: ArrayLike, delta: int, *, exactly: bool = False) -> Rows:
    """Rows whose factor is at most k, for the smallest k with more than ``delta`` such rows, else the skyline.

    With ``exactly`` at most ``delta`` rows: those of the smallest factors, equals by attribute sum, then by row.

    >>> top_delta([[1, 3, 1], [2, 1, 2], [3, 2, 3]], 1).tolist()
    [0, 1]
    >>> top_delta([[1, 3, 1], [2, 1, 2], [3, 2, 3]], 1, exactly=True).tolist()
    [0]
    """
    array = as_points(points)
    return rows_of_top_delta(array, dominance_factor(array), delta, exactly)


def rows_of_top_delta(points: Points, factors: Factors, delta: int, exactly: bool = False) -> Rows:
    """The top-delta rows, given the factors of all rows (0 outside the skyline)."""
    if delta < 1:
        raise PenstockError(f"delta is {delta}; ask for at least 1 row.")
    rows = np.flatnonzero(factors)
    if len(rows) == 0:
        return rows
    if exactly:
        sums = np.clip(points[rows], -HUGE, HUGE).sum(axis=1)
        best = np.lexsort((rows, sums, factors[rows]))[:delta]
        return np.sort(rows[best])
    counts = np.cumsum(np.bincount(factors[rows]))
    enough = np.flatnonzero(counts > delta)
    return rows[factors[rows] <= enough[0]] if len(enough) else rows


@jit
def _factors(points: Points, asked: Rows) -> Factors:
    """The factors of some rows of a skyline.

    Codes bound le from above, 64 rows at a time; only rows that could raise the maximum are counted exactly. le of a
    skyline row is below d, so the search ends as soon as d - 1 is met, which is soon for most rows.
    """
    count, width = points.shape
    depth, step = padded(width), lanes(width)
    factors = np.ones(len(asked), dtype=np.int32)
    if len(asked) == 0:
        return factors
    everyone = np.arange(count)
    codes = np.zeros(count * depth, dtype=np.uint8)
    encode(points, everyone, count, fitted(points, everyone, count), codes)
    columns, _, rows = filled_store(points, codes, everyone)
    for number, i in enumerate(asked):
        most = 0
        for block in range((count + 63) >> 6):
            least = most + 1 + depth - width
            hits = at_least(columns, block * depth * 64, codes, i * depth, depth, least)
            while hits and most < width - 1:
                place = block * 64 + lowest_bit(hits)
                hits &= hits - np.uint64(1)
                most = max(most, _not_worse(rows, place * step, i * step, step) - (step - width))
            if most == width - 1:
                break
        factors[number] = most + 1
    return factors


@jit(forceinline=True)
def _not_worse(rows: Floats, p: int, q: int, step: int) -> int:
    """le(p, q) with the lanes beyond the width, or 0 if p is nowhere better."""
    if step == 4:
        return bits_set(le4(rows, p, rows, q)) if lt4(rows, p, rows, q) else 0
    not_worse, better, k = 0, False, 0
    while k < step:
        not_worse += bits_set(le8(rows, p + k, rows, q + k))
        better |= lt8(rows, p + k, rows, q + k) != 0
        k += 8
    return not_worse if better else 0
