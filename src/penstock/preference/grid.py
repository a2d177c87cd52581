"""Points as bytes: one byte an attribute, never out of order, so that one instruction compares 64 rows.

A grid maps each attribute to codes 0..254 by a monotone step function near the ranks of a sample: linear into 1,024
bins, then by a table to codes. If p dominates q then code(p) <= code(q) everywhere; so a comparison of codes rules
out almost every pair, and the few that are left are compared exactly. The choice of the grid changes the speed, never
the answer.
"""

import numpy as np

from penstock.core.arrays import Bytes, Floats
from penstock.core.jit import jit
from penstock.preference.points import Points, Rows
from penstock.preference.simd import Word, upper4, upper8

Grid = tuple[Floats, Floats, Bytes]

BINS = 1024
SAMPLE = 512
#: Stands for infinity where arithmetic is done; comparisons always use the numbers themselves.
HUGE = 1e290
#: The code of an empty place, above all others.
EMPTY = 255


@jit(forceinline=True)
def padded(width: int) -> int:
    """Attributes in code blocks: a multiple of four; the added ones are zero and compare as equal."""
    return (width + 3) // 4 * 4


@jit
def fitted(points: Points, rows: Rows, count: int) -> Grid:
    """(lowest, bins per unit, table) of each attribute, from a sample of the first ``count`` of ``rows``."""
    width = points.shape[1]
    lowest, scale = np.zeros(width), np.zeros(width)
    table = np.zeros((width, BINS), dtype=np.uint8)
    size = min(count, SAMPLE)
    values = np.empty(size)
    for k in range(width):
        low, high = HUGE, -HUGE
        for s in range(size):
            value = points[rows[s * count // size], k]
            value = max(-HUGE, min(HUGE, value))  # in this order a NaN becomes HUGE, not a place out of range
            values[s] = value
            low, high = min(low, value), max(high, value)
        lowest[k] = low
        scale[k] = _binned(values, low, high, table[k])
    return lowest, scale, table


@jit
def _binned(values: Floats, low: float, high: float, table: Bytes) -> float:
    """Fill the table with the sample's ranks; narrow the range while nearly all values crowd its lower quarter."""
    size = len(values)
    counts = np.zeros(BINS, dtype=np.int64)
    scale = 0.0
    for _ in range(8):
        scale = BINS / (high - low) if high > low else 0.0
        if not scale < HUGE:
            scale = 0.0
        counts[:] = 0
        for s in range(size):
            counts[int(min((values[s] - low) * scale, BINS - 1.0))] += 1
        below, used = 0, 0
        while below < 0.97 * size:
            below += counts[used]
            used += 1
        if used > BINS // 4 or scale == 0.0:
            break
        high = low + (high - low) * (used / BINS)
    below = 0
    for b in range(BINS):
        table[b] = min(below * EMPTY // size, EMPTY - 1)
        below += counts[b]
    return scale


@jit
def encode(points: Points, rows: Rows, count: int, grid: Grid, codes: Bytes) -> bool:
    """Write the codes of the first ``count`` of ``rows``, one row after the other; True if there was a NaN."""
    lowest, scale, table = grid
    depth = padded(points.shape[1])
    nan = False
    for i in range(count):
        row = rows[i]
        for k in range(points.shape[1]):
            value = points[row, k]
            nan |= value != value
            # In this order a NaN becomes 0, not an index out of range.
            place = min(max(0.0, (value - lowest[k]) * scale[k]), BINS - 1.0)
            codes[i * depth + k] = table[k, np.uint32(place)] if place == place else 0
    return nan


@jit(forceinline=True)
def octant(codes: Bytes, at: int, depth: int) -> Word:
    """A bit for each of the first eight attributes: whether the code is in the upper half.

    A row is dominated only by rows whose bits are a subset of its own (Lee, Hwang: BSkyTree, 2010); a subset is never
    the larger number.
    """
    return upper4(codes, at) if depth == 4 else upper8(codes, at)


@jit(forceinline=True)
def gray_place(octant: Word) -> Word:
    """The place of an octant in the Gray code, where neighbours differ in one attribute only.

    Blocks filled in this order span fewer values than in any order by number: they are passed over more often.
    """
    bits = np.uint64(octant)
    bits ^= bits >> np.uint64(1)
    bits ^= bits >> np.uint64(2)
    return bits ^ (bits >> np.uint64(4))
