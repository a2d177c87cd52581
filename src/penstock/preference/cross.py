"""Tests of one set of points against another: the work of every merge and of every sliding window."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from penstock.core.jit import jit
from penstock.preference.blocks import first_dominator, lanes, new_store, put
from penstock.preference.grid import OCTANT_RANK, encode, fitted, octant, padded
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
from penstock.preference.skyline import dominates

#: The answer of :func:`latest_dominator` for a row that nothing dominates.
NEVER = int(np.iinfo(np.int64).min)

#: Up to so many pairs are compared one by one; building a store would cost more.
FEW_PAIRS = 4096

Numbers = NDArray[np.int64]


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

    The store has the newest pane first and each pane by octant, so the first dominator found is the latest.
    """
    if len(left) * len(right) <= FEW_PAIRS:
        return _pair_by_pair(left, right, panes, latest)
    width = left.shape[1]
    depth, step = padded(width), lanes(width)
    everyone = np.arange(max(len(left), len(right)))
    grid = fitted(right, everyone, len(right))
    codes = np.zeros((len(right), depth), dtype=np.uint8)
    tested = np.zeros((len(left), depth), dtype=np.uint8)
    if encode(right, everyone, len(right), grid, codes) or encode(left, everyone, len(left), grid, tested):
        return True
    order = _newest_first(panes, codes, width)
    columns, smallest, rows = new_store(len(right), width)
    flat_codes, flat = codes.reshape(-1), right.reshape(-1)
    for place in range(len(order)):
        i = order[place]
        put(columns, smallest, rows, place, flat_codes, i * depth, flat, i * width, width)
    flat_codes, flat = tested.reshape(-1), left.reshape(-1)
    row = np.zeros(step)
    for i in range(len(left)):
        for k in range(width):
            row[k] = flat[i * width + k]
        place = first_dominator(
            columns, smallest, rows, len(right), flat_codes, i * depth, row, 0, depth, step
        )
        if place >= 0:
            latest[i] = panes[order[place]]
    return False


@jit
def _newest_first(panes: Numbers, codes: NDArray[np.uint8], width: int) -> Numbers:
    """Places by pane, newest first, and by octant within a pane."""
    newest = panes.max()
    bits = 0
    while (newest - panes.min()) >> bits:
        bits += 1
    keys = np.empty(len(panes), dtype=np.uint64)
    if bits > 55:  # panes spread over more than 2^55: the pane alone decides, octants would only be faster
        return np.argsort(-panes, kind="mergesort")
    for i in range(len(panes)):
        rank = np.uint64(OCTANT_RANK[octant(codes[i], width)])
        keys[i] = (np.uint64(newest - panes[i]) << np.uint64(8)) | rank
    return radix_order(keys, bits + 8)[0]


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
