"""An order in which no row is dominated by a later one, found by radix sort.

Rows are ordered by octant (a subset is the smaller number), within an octant by attribute sum, among equal sums attribute by
attribute. A dominator's octant is a subset, its sum is not larger, and if both are equal it comes first by its
attributes; rows equal in all attributes stand beside each other.
"""

import numpy as np
from numpy.typing import NDArray

from penstock.core.arrays import Bytes, Floats, Ints
from penstock.core.jit import jit
from penstock.preference.grid import HUGE, octant, padded
from penstock.preference.points import Points, Rows

Keys = NDArray[np.uint64]
Places = Ints

_DIGIT = 11
_SUM_BITS = 24


@jit
def dominance_order(points: Points, rows: Rows, count: int, codes: Bytes) -> Places:
    """Places among the first ``count`` of ``rows``, dominators first."""
    width = points.shape[1]
    depth = padded(width)
    sums = np.empty(count)
    low, high = np.inf, -np.inf
    for i in range(count):
        total = 0.0
        for k in range(width):
            total += min(max(points[rows[i], k], -HUGE), HUGE)
        sums[i] = total
        low, high = min(low, total), max(high, total)
    scale = ((1 << _SUM_BITS) - 1) / (high - low) if high > low else 0.0
    keys = np.empty(count, dtype=np.uint64)
    for i in range(count):
        rank = octant(codes, i * depth, depth)
        keys[i] = (rank << np.uint64(_SUM_BITS)) | np.uint64((sums[i] - low) * scale)
    order, ordered = radix_order(keys, 8 + _SUM_BITS)
    _settle(points, rows, sums, order, ordered)
    return order


@jit
def radix_order(keys: Keys, bits: int) -> tuple[Places, Keys]:
    """A stable order of keys of so many bits, and the keys in that order."""
    count = len(keys)
    order, other = np.arange(count), np.empty(count, dtype=np.int64)
    ordered, other_keys = keys.copy(), np.empty(count, dtype=np.uint64)
    starts = np.empty(1 << _DIGIT, dtype=np.int64)
    mask = np.uint64((1 << _DIGIT) - 1)
    for shift in range(0, bits, _DIGIT):
        by = np.uint64(shift)
        starts[:] = 0
        for i in range(count):
            starts[(ordered[i] >> by) & mask] += 1
        total = 0
        for digit in range(len(starts)):
            size = starts[digit]
            starts[digit] = total
            total += size
        for i in range(count):
            digit = (ordered[i] >> by) & mask
            place = starts[digit]
            starts[digit] = place + 1
            other_keys[place] = ordered[i]
            other[place] = order[i]
        order, other = other, order
        ordered, other_keys = other_keys, ordered
    return order, ordered


@jit
def _settle(points: Points, rows: Rows, sums: Floats, order: Places, keys: Keys) -> None:
    """Order each run of equal keys by sum and attributes: Shell's sort, in place, fast on nearly all runs."""
    start = 0
    for end in range(1, len(order) + 1):
        if end < len(order) and keys[end] == keys[start]:
            continue
        size = end - start
        gap = 1
        while gap < size // 3:
            gap = 3 * gap + 1
        while gap > 0 and size > 1:
            for i in range(start + gap, end):
                moved = order[i]
                j = i
                while j >= start + gap and _after(points, rows, sums, order[j - gap], moved):
                    order[j] = order[j - gap]
                    j -= gap
                order[j] = moved
            gap //= 3
        start = end


@jit(forceinline=True)
def _after(points: Points, rows: Rows, sums: Floats, a: int, b: int) -> bool:
    """Whether place a belongs after place b, by sum, then attribute by attribute."""
    if sums[a] != sums[b]:
        return bool(sums[a] > sums[b])
    for k in range(points.shape[1]):
        left, right = points[rows[a], k], points[rows[b], k]
        if left != right:
            return bool(left > right)
    return False
