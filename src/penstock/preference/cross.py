"""Tests of one set of points against another: the work of every merge."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from penstock.core.jit import jit
from penstock.preference.points import Codes, Mask, Points, as_classes, as_points, same_width, segments

#: The answer of :func:`latest_dominator` for a row that nothing dominates.
NEVER = np.iinfo(np.int64).min


def dominated_by(
    candidates: ArrayLike,
    reference: ArrayLike,
    candidate_classes: ArrayLike | None = None,
    reference_classes: ArrayLike | None = None,
) -> Mask:
    """Which candidates are dominated by at least one reference row.

    A row dominates another if it is nowhere worse and somewhere better.

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
) -> NDArray[np.int64]:
    """For each candidate the largest pane number among the reference rows that dominate it, else :data:`NEVER`.

    >>> latest_dominator([[2, 2], [0, 9]], [[1, 1], [2, 1]], [5, 7]).tolist() == [7, NEVER]
    True
    """
    left, right = as_points(candidates), as_points(reference)
    same_width(left, right)
    panes = np.ascontiguousarray(reference_panes, dtype=np.int64)
    left_classes = as_classes(candidate_classes, len(left))
    right_classes = as_classes(reference_classes, len(right))
    if left_classes is None or right_classes is None:
        return _latest(left, right, panes)
    latest = np.full(len(left), NEVER, dtype=np.int64)
    for rows, others in _matched(left_classes, right_classes):
        latest[rows] = _latest(left[rows], right[others], panes[others])
    return latest


def _matched(left: Codes, right: Codes):  # type: ignore[no-untyped-def]
    left_order, left_offsets, left_keys = segments(left)
    right_order, right_offsets, right_keys = segments(right)
    _, at_left, at_right = np.intersect1d(left_keys, right_keys, return_indices=True)
    for i, j in zip(at_left, at_right, strict=True):
        yield (
            left_order[left_offsets[i] : left_offsets[i + 1]],
            right_order[right_offsets[j] : right_offsets[j + 1]],
        )


@jit
def _latest(left: Points, right: Points, panes: NDArray[np.int64]) -> NDArray[np.int64]:
    latest = np.full(left.shape[0], NEVER, dtype=np.int64)
    for i in range(left.shape[0]):
        for j in range(right.shape[0]):
            if panes[j] > latest[i] and dominates(right[j], left[i]):
                latest[i] = panes[j]
    return latest


@jit
def dominates(better: Points, worse: Points) -> bool:
    """Whether the first row is nowhere worse and somewhere better than the second."""
    strict = False
    for k in range(better.shape[0]):
        if better[k] > worse[k]:
            return False
        strict |= better[k] < worse[k]
    return strict
