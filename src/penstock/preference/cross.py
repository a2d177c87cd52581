"""Tests of one set of points against another: the work of every merge and of every sliding window.

Rows already known not to dominate each other are never compared again: a merge makes cross tests only.
"""

import numpy as np
from numpy.typing import ArrayLike

from penstock.core.arrays import Bytes, Floats, Ints
from penstock.core.jit import jit
from penstock.preference.blocks import (
    copy_row,
    filled_store,
    first_dominator,
    lanes,
    not_above_all,
    row_dominates,
)
from penstock.preference.grid import encode, fitted, gray_place, octant, padded
from penstock.preference.ordering import radix_order
from penstock.preference.points import (
    Codes,
    Mask,
    Points,
    Rows,
    as_classes,
    as_points,
    no_nan,
    same_width,
    segments,
)
from penstock.preference.simd import lowest_bit
from penstock.preference.skyline import dominates

#: The answer of :func:`latest_dominator` for a row that nothing dominates.
NEVER = int(np.iinfo(np.int64).min)

#: Up to so many pairs are compared one by one; building a store would cost more.
FEW_PAIRS = 4096

Numbers = Ints


def dominated_by(
    candidates: ArrayLike,
    reference: ArrayLike,
    candidate_classes: ArrayLike | None = None,
    reference_classes: ArrayLike | None = None,
) -> Mask:
    """Which candidates are dominated by at least one reference row.

    A row dominates another if it is nowhere worse and somewhere better. With classes (of both sides, or of none) rows
    are compared only within their class.

    >>> dominated_by([[1, 1], [2, 3]], [[2, 2], [1, 1]]).tolist()
    [False, True]
    """
    panes = np.zeros(len(np.asarray(reference)), dtype=np.int64)
    latest = latest_dominator(candidates, reference, panes, candidate_classes, reference_classes)
    return np.not_equal(latest, NEVER)


def latest_dominator(
    candidates: ArrayLike,
    reference: ArrayLike,
    reference_panes: ArrayLike,
    candidate_classes: ArrayLike | None = None,
    reference_classes: ArrayLike | None = None,
) -> Numbers:
    """For each candidate the largest pane number among the reference rows that dominate it, else :data:`NEVER`.

    >>> latest_dominator([[2, 2], [0, 9]], [[1, 1], [2, 1]], [5, 7]).tolist() == [7, NEVER]
    True
    """
    left, right = as_points(candidates), as_points(reference)
    same_width(left, right)
    panes = np.ascontiguousarray(reference_panes, dtype=np.int64)
    left_classes = as_classes(candidate_classes, len(left))
    right_classes = as_classes(reference_classes, len(right))
    latest = np.full(len(left), NEVER, dtype=np.int64)
    if len(left) == 0 or len(right) == 0 or left.shape[1] == 0:
        return latest
    if left_classes is None or right_classes is None:
        no_nan(_latest(left, right, panes, latest))
        return latest
    left_order, right_order, spans = _matched(left_classes, right_classes)
    ordered = latest.copy()
    no_nan(_latest_of_spans(left[left_order], right[right_order], panes[right_order], spans, ordered))
    latest[left_order] = ordered
    return latest


def merge_skylines(
    left: ArrayLike,
    right: ArrayLike,
    left_classes: ArrayLike | None = None,
    right_classes: ArrayLike | None = None,
) -> tuple[Rows, Rows]:
    """What stays of two skylines when they are joined: (rows of left, rows of right).

    A right row that some left row dominates is dominated by a left row that stays: whatever dominates that left row
    is on the right and would dominate the right row too. So the second pass looks only at the left rows that stay.

    >>> [rows.tolist() for rows in merge_skylines([[1, 4], [3, 3]], [[2, 2], [1, 5]])]
    [[0], [0]]
    """
    a, b = as_points(left), as_points(right)
    a_classes, b_classes = as_classes(left_classes, len(a)), as_classes(right_classes, len(b))
    kept = np.flatnonzero(~dominated_by(a, b, a_classes, b_classes))
    of_kept = None if a_classes is None else a_classes[kept]
    return kept, np.flatnonzero(~dominated_by(b, a[kept], b_classes, of_kept))


def _matched(left: Codes, right: Codes) -> tuple[Rows, Rows, Rows]:
    """Both sides ordered by class, and for each common class where it begins and ends on either side."""
    left_order, left_offsets, left_keys = segments(left)
    right_order, right_offsets, right_keys = segments(right)
    _, at_left, at_right = np.intersect1d(left_keys, right_keys, assume_unique=True, return_indices=True)
    spans = np.column_stack(
        [
            left_offsets[at_left],
            left_offsets[at_left + 1],
            right_offsets[at_right],
            right_offsets[at_right + 1],
        ]
    )
    return left_order, right_order, spans.astype(np.int64)


@jit
def _latest_of_spans(left: Points, right: Points, panes: Numbers, spans: Rows, latest: Numbers) -> bool:
    nan = False
    for s in range(spans.shape[0]):
        a, b, c, d = spans[s, 0], spans[s, 1], spans[s, 2], spans[s, 3]
        nan |= _latest(left[a:b], right[c:d], panes[c:d], latest[a:b])
    return nan


@jit
def _latest(left: Points, right: Points, panes: Numbers, latest: Numbers) -> bool:
    """Fill in the latest dominators; True if there was a NaN.

    Both sides go by octant: neighbours of the reference share blocks, and neighbours among the candidates meet the
    same blocks one after the other, which the processor learns to foresee.
    """
    if len(left) * len(right) <= FEW_PAIRS:
        return _pair_by_pair(left, right, panes, latest)
    width = left.shape[1]
    depth, step = padded(width), lanes(width)
    everyone = np.arange(max(len(left), len(right)))
    grid = fitted(right, everyone, len(right))
    codes = np.zeros(len(right) * depth, dtype=np.uint8)
    tested = np.zeros(len(left) * depth, dtype=np.uint8)
    if encode(right, everyone, len(right), grid, codes) or encode(left, everyone, len(left), grid, tested):
        return True
    order = _by_octant(codes, len(right), width)
    columns, smallest, rows = filled_store(right, codes, order)
    stored_panes = panes[order]
    newest = _newest_of_blocks(stored_panes)
    one_pane = panes.min() == panes.max()
    flat = left.reshape(-1)
    row = np.zeros(step)
    for i in _by_octant(tested, len(left), width):
        copy_row(row, 0, flat, i * width, width)
        if one_pane:
            place = first_dominator(
                columns, smallest, rows, len(right), tested, i * depth, row, 0, depth, step
            )
            if place >= 0:
                latest[i] = panes[0]
        else:
            latest[i] = _latest_in(
                columns, smallest, rows, stored_panes, newest, tested, i * depth, row, depth, step
            )
    return False


@jit
def _by_octant(codes: Bytes, count: int, width: int) -> Numbers:
    """Rows in the order of the Gray code of their octants."""
    depth = padded(width)
    keys = np.empty(count, dtype=np.uint64)
    for i in range(count):
        keys[i] = gray_place(octant(codes, i * depth, depth))
    return radix_order(keys, 8)[0]


@jit
def _newest_of_blocks(panes: Numbers) -> Numbers:
    """The newest pane of each block, and of all at the end."""
    newest = np.full((len(panes) + 63) // 64 + 1, NEVER, dtype=np.int64)
    for place in range(len(panes)):
        newest[place >> 6] = max(newest[place >> 6], panes[place])
    for block in range(len(newest) - 1):
        newest[-1] = max(newest[-1], newest[block])
    return newest


@jit(forceinline=True)
def _latest_in(
    columns: Bytes,
    smallest: Bytes,
    rows: Floats,
    panes: Numbers,
    newest: Numbers,
    codes: Bytes,
    c: int,
    row: Floats,
    depth: int,
    step: int,
) -> int:
    """The latest pane of a dominator of the row; blocks without anything newer than the best so far are left out."""
    best = NEVER
    supers = (((len(panes) + 63) >> 6) + 63) >> 6
    for s in range(supers):
        blocks = not_above_all(smallest, s * depth * 64, codes, c, depth)
        while blocks:
            block = s * 64 + lowest_bit(blocks)
            blocks &= blocks - np.uint64(1)
            if newest[block] <= best:
                continue
            hits = not_above_all(columns, block * depth * 64, codes, c, depth)
            while hits:
                place = block * 64 + lowest_bit(hits)
                hits &= hits - np.uint64(1)
                if panes[place] > best and row_dominates(rows, place * step, row, 0, step):
                    best = int(panes[place])
                    if best == newest[-1]:
                        return best
    return best


@jit
def _pair_by_pair(left: Points, right: Points, panes: Numbers, latest: Numbers) -> bool:
    width = left.shape[1]
    for i in range(len(left)):
        for k in range(width):
            if left[i, k] != left[i, k]:
                return True
    for j in range(len(right)):
        for k in range(width):
            if right[j, k] != right[j, k]:
                return True
        for i in range(len(left)):
            if panes[j] > latest[i] and dominates(right[j], left[i]):
                latest[i] = panes[j]
    return False
