"""Block-nested-loop skylines that grow tuple by tuple, and count their comparisons.

Pools hold many partial results side by side: ``pool[slot, k, j]`` is attribute k of the j-th kept tuple of a slot. A new
tuple is compared with the kept ones in their order until one dominates it; if none does, it is kept and those
it dominates go. The number of comparisons is that of the plain algorithm (Boerzsoenyi et al. 2001, as in the papers'
code); how they are made is not: blocks of columns are compared at once, which is what makes a simulation of millions
of tuples bearable.
"""

import numpy as np
from numpy.typing import NDArray

from penstock.core.jit import jit

Pool = NDArray[np.float32]
Ints = NDArray[np.int64]

#: Tuples that are compared at once; capacities of slots are multiples of it.
BLOCK = 64


@jit(error_model="numpy")
def insert(
    columns: Pool,
    size: int,
    point: NDArray[np.float32],
    no_worse: NDArray[np.int32],
    no_better: NDArray[np.int32],
) -> tuple[int, int]:
    """Add a point to one slot's columns; (its new size, comparisons). A size that grew by one at the end means: kept."""
    width = columns.shape[0]
    blocks = (size + BLOCK - 1) // BLOCK
    removed = False
    for b in range(blocks):
        at = b * BLOCK
        for j in range(BLOCK):
            no_worse[j] = 1
            no_better[j] = 1
        for k in range(width):
            value = point[k]
            for j in range(BLOCK):
                other = columns[k, at + j]
                no_worse[j] &= other <= value
                no_better[j] &= other >= value
        found = 0
        for j in range(BLOCK):
            found |= no_worse[j] | no_better[j]
        if found == 0:
            continue
        for j in range(min(BLOCK, size - at)):
            if no_worse[j] == 1 and no_better[j] == 0:
                # Nothing can have been removed before: what the point dominates, its dominator would have.
                return size, at + j + 1
            if no_better[j] == 1 and no_worse[j] == 0:
                columns[0, at + j] = np.nan
                removed = True
    comparisons = size
    if removed:
        size = _close_gaps(columns, size)
    for k in range(width):
        columns[k, size] = point[k]
    return size + 1, comparisons


@jit
def _close_gaps(columns: Pool, size: int) -> int:
    kept = 0
    for j in range(size):
        if not np.isnan(columns[0, j]):
            if kept < j:
                for k in range(columns.shape[0]):
                    columns[k, kept] = columns[k, j]
            kept += 1
    return kept


@jit
def insert_all(pool: Pool, sizes: Ints, slots: Ints, points: NDArray[np.float32], comparisons: Ints) -> None:
    """Add each point to its slot, in order."""
    no_worse = np.empty(BLOCK, dtype=np.int32)
    no_better = np.empty(BLOCK, dtype=np.int32)
    for i in range(len(slots)):
        slot = slots[i]
        sizes[slot], comparisons[i] = insert(pool[slot], sizes[slot], points[i], no_worse, no_better)


@jit
def merge_into(columns: Pool, size: int, points: Pool) -> tuple[int, int]:
    """Add all tuples of a partial result (by columns) to a slot; (its new size, comparisons)."""
    no_worse = np.empty(BLOCK, dtype=np.int32)
    no_better = np.empty(BLOCK, dtype=np.int32)
    point = np.empty(points.shape[0], dtype=np.float32)
    total = 0
    for i in range(points.shape[1]):
        for k in range(points.shape[0]):
            point[k] = points[k, i]
        size, made = insert(columns, size, point, no_worse, no_better)
        total += made
    return size, total
