"""Skylines that grow: two results joined, or a batch of new rows added to a result.

Rows already known not to dominate each other are never compared again: a merge makes cross tests only.
"""

import numpy as np
from numpy.typing import ArrayLike

from penstock.preference.cross import dominated_by
from penstock.preference.points import Rows, as_classes, as_points
from penstock.preference.skyline import skyline


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


def add_batch(result: ArrayLike, batch: ArrayLike) -> tuple[Rows, Rows]:
    """What stays of a skyline and of any new rows when they are joined: (rows of result, rows of batch).

    >>> [rows.tolist() for rows in add_batch([[1, 4]], [[5, 5], [4, 1], [0, 9]])]
    [[0], [1, 2]]
    """
    new = as_points(batch)
    chosen = skyline(new)
    kept, added = merge_skylines(result, new[chosen])
    return kept, chosen[added]
