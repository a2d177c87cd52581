"""Skylines that grow tuple by tuple, and what that costs the plain algorithm.

A :class:`Pool` holds many partial results side by side, a slot each. A new tuple is compared with the kept ones of its slot; if
none dominates it, it is kept and those it dominates go.

What is charged is the work of the papers' own implementation of the block-nested loop: a new tuple is compared with every
kept one, also after one that dominates it was met ("the processing time per tuple depends on the current cardinality of the
result", PPQ 4.1.2), and a result that is merged into another is compared with what that held before, not with itself.
What is computed here is less: a byte for each attribute, 64 tuples at once, tells nearly all of them apart, and a dominated
tuple needs no further look. That is what makes a simulation of millions of tuples bearable.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from penstock.core.arrays import Bytes, Floats, Ints
from penstock.core.jit import jit
from penstock.preference.blocks import not_above_all
from penstock.preference.cross import dominated_by
from penstock.preference.grid import padded
from penstock.preference.simd import lowest_bit

Points = NDArray[np.float32]
Rows = Floats

#: Tuples that are compared at once; capacities of slots are multiples of it.
BLOCK = 64


class Pool(NamedTuple):
    """Kept tuples by slot and place; their codes by slot, in blocks of 64 places, attribute by attribute; and 255 less those."""

    rows: Points
    low: Bytes
    high: Bytes

    @classmethod
    def of(cls, slots: int, capacity: int, dims: int) -> "Pool":
        """Room for at least ``capacity`` tuples in each slot."""
        places = -(-capacity // BLOCK) * BLOCK
        codes = (slots, places * padded(dims))
        rows = np.empty((slots, places, dims), dtype=np.float32)
        return cls(rows, np.zeros(codes, dtype=np.uint8), np.zeros(codes, dtype=np.uint8))

    def copied(self, slots: int, capacity: int, sizes: Ints) -> "Pool":
        """A larger pool with the same tuples."""
        dims = self.rows.shape[2]
        made = Pool.of(slots, capacity, dims)
        for slot in np.flatnonzero(sizes):
            full = -(-sizes[slot] // BLOCK) * BLOCK
            made.rows[slot, :full] = self.rows[slot, :full]
            made.low[slot, : full * padded(dims)] = self.low[slot, : full * padded(dims)]
            made.high[slot, : full * padded(dims)] = self.high[slot, : full * padded(dims)]
        return made


@jit
def insert(
    rows: Points, low: Bytes, high: Bytes, size: int, point: NDArray[np.float32], codes: Bytes, counter: Bytes
) -> int:
    """Add a point to one slot; its new size. The plain algorithm makes as many comparisons as the old size.

    ``codes`` and ``counter`` are room for the point's codes, zero beyond its attributes.
    """
    width = rows.shape[1]
    depth = padded(width)
    for k in range(width):
        codes[k] = min(255, max(0, int(point[k] * 256)))
        counter[k] = 255 - codes[k]
    removed = False
    for block in range((size + BLOCK - 1) // BLOCK):
        at = block * BLOCK
        hits = not_above_all(low, at * depth, codes, 0, depth) | not_above_all(
            high, at * depth, counter, 0, depth
        )
        if size - at < BLOCK:
            hits &= (np.uint64(1) << np.uint64(size - at)) - np.uint64(1)
        while hits:
            place = at + lowest_bit(hits)
            hits &= hits - np.uint64(1)
            worse, better = False, False
            for k in range(width):
                worse |= rows[place, k] > point[k]
                better |= rows[place, k] < point[k]
            if better and not worse:
                # Nothing can have been removed before: what the point dominates, its dominator would have.
                return size
            if worse and not better:
                rows[place, 0] = np.nan
                removed = True
    if removed:
        size = _close_gaps(rows, low, high, size)
    for k in range(width):
        rows[size, k] = point[k]
        lane = (size // BLOCK * depth + k) * BLOCK + size % BLOCK
        low[lane], high[lane] = codes[k], counter[k]
    return size + 1


@jit
def _close_gaps(rows: Points, low: Bytes, high: Bytes, size: int) -> int:
    width = rows.shape[1]
    depth = padded(width)
    kept = 0
    for j in range(size):
        if not np.isnan(rows[j, 0]):
            if kept < j:
                for k in range(width):
                    rows[kept, k] = rows[j, k]
                    to = (kept // BLOCK * depth + k) * BLOCK + kept % BLOCK
                    lane = (j // BLOCK * depth + k) * BLOCK + j % BLOCK
                    low[to], high[to] = low[lane], high[lane]
            kept += 1
    return kept


@jit
def insert_all(
    rows: Points, low: Bytes, high: Bytes, sizes: Ints, slots: Ints, points: Points, comparisons: Ints
) -> None:
    """Add each point to its slot, in order; ``comparisons`` of the plain algorithm for each."""
    codes = np.zeros(padded(rows.shape[2]), dtype=np.uint8)
    counter = np.zeros_like(codes)
    for i in range(len(slots)):
        slot = slots[i]
        comparisons[i] = sizes[slot]
        sizes[slot] = insert(rows[slot], low[slot], high[slot], sizes[slot], points[i], codes, counter)


def merged(left: Rows, right: Rows) -> tuple[Rows, int]:
    """The skyline of two skylines, and the comparisons: each right row with the left ones that are still there.

    The left rows that go are taken to go evenly over the right ones, so that on average half of them have gone.
    """
    if not len(left) or not len(right):
        return (left if len(left) else right), 0
    staying = left[~dominated_by(left, right)]
    added = right[~dominated_by(right, left)]
    return np.concatenate([staying, added]), len(right) * (len(left) + len(staying)) // 2
