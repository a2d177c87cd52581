"""A first pass that drops most dominated rows at the speed of memory (the elimination filter of LESS).

A handful of strong rows, those of the smallest attribute sums so far, is kept; a row that one of them dominates is
dropped on sight. (Godfrey, Shipley, Gryz: Maximal vector computation in large data sets, 2005.)
"""

import numpy as np

from penstock.core.arrays import Floats
from penstock.core.jit import jit
from penstock.preference.blocks import lanes
from penstock.preference.points import Points, Rows
from penstock.preference.simd import le4, le8, lt4, lt8

STRONG = 16
#: Rows looked at before it is judged whether the filter is worth its time.
TRIAL = 1024


@jit
def survivors(points: Points, rows: Rows) -> int:
    """Write the rows that no strong row dominates to ``rows``; their number. NaN rows always survive."""
    count, width = points.shape
    step = lanes(width)
    flat = points.reshape(-1)
    strong = np.full(STRONG * step, np.inf)
    sums = np.full(STRONG, np.inf)
    stride = max(count // TRIAL, 1) * width
    for s in range(min(count, TRIAL)):
        _offer(flat, s * stride, width, strong, sums, step)
    # A row is read by whole lanes, beyond its end; the last ones of the array must not be.
    safe = count - (step + width - 1) // width
    kept, used = 0, STRONG
    for i in range(safe):
        if i == TRIAL and kept > 0.9 * TRIAL:
            used = 1
        if not _beaten(flat, i * width, width, strong, step, used):
            rows[kept] = i
            kept += 1
            _offer(flat, i * width, width, strong, sums, step)
    for i in range(max(safe, 0), count):
        rows[kept] = i
        kept += 1
    return kept


@jit(forceinline=True)
def _beaten(flat: Floats, at: int, width: int, strong: Floats, step: int, used: int) -> bool:
    """Whether one of the strong rows dominates the row at ``flat[at]``; lanes beyond the width do not count."""
    if step == 4:
        own = np.uint64((1 << width) - 1)
        for s in range(used):
            if (le4(strong, s * 4, flat, at) & own) == own and (lt4(strong, s * 4, flat, at) & own) != 0:
                return True
        return False
    if step == 8:
        own = np.uint64((1 << width) - 1)
        for s in range(used):
            if (le8(strong, s * 8, flat, at) & own) == own and (lt8(strong, s * 8, flat, at) & own) != 0:
                return True
        return False
    for s in range(used):
        if le8(strong, s * step, flat, at) == 255 and _wide_beaten(flat, at, width, strong, s * step):
            return True
    return False


@jit(forceinline=True)
def _wide_beaten(flat: Floats, at: int, width: int, strong: Floats, s: int) -> bool:
    """The same, attribute by attribute, for more than eight."""
    better = False
    for k in range(width):
        if strong[s + k] > flat[at + k] or flat[at + k] != flat[at + k]:
            return False
        better |= strong[s + k] < flat[at + k]
    return better


@jit(forceinline=True)
def _offer(flat: Floats, at: int, width: int, strong: Floats, sums: Floats, step: int) -> None:
    """Let a row take its place among the strong ones; they ascend by sum."""
    total = 0.0
    for k in range(width):
        total += flat[at + k]
    if total < sums[STRONG - 1]:
        place = STRONG - 1
        while place > 0 and sums[place - 1] > total:
            place -= 1
        # Rows of the sample come again in their turn; one place for each is enough.
        if place == 0 or sums[place - 1] != total:
            for s in range(STRONG - 1, place, -1):
                sums[s] = sums[s - 1]
                for k in range(step):
                    strong[s * step + k] = strong[(s - 1) * step + k]
            sums[place] = total
            for k in range(width):
                strong[place * step + k] = flat[at + k]
