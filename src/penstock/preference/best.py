"""Top-k: the rows with the k smallest scores."""

import numpy as np
from numpy.typing import ArrayLike

from penstock.core.arrays import Floats
from penstock.core.errors import PenstockError
from penstock.preference.points import Codes, Mask, Rows, as_classes


def top_k(scores: ArrayLike, k: int, *, exactly: bool = False, classes: ArrayLike | None = None) -> Rows:
    """Rows with the k smallest scores, as sorted row numbers.

    Rows that share the k-th score all stay; ``exactly`` keeps the first of them, k rows in all.

    >>> top_k([3.0, 1.0, 2.0, 1.0], 1).tolist()
    [1, 3]
    >>> top_k([3.0, 1.0, 2.0, 1.0], 1, exactly=True).tolist()
    [1]
    """
    values = np.ascontiguousarray(scores, dtype=np.float64)
    if values.ndim != 1:
        raise PenstockError(
            f"Scores must be one number a row, not an array of {values.ndim} axes; give one axis."
        )
    if k < 1:
        raise PenstockError(f"k is {k}; ask for at least 1 row.")
    if np.isnan(values).any():
        raise PenstockError("Scores hold NaN, which has no place in an order; remove those rows first.")
    codes = as_classes(classes, len(values))
    if codes is not None:
        return np.flatnonzero(_best_of_classes(values, codes, k, exactly))
    if len(values) <= k:
        return np.arange(len(values))
    worst = np.partition(values, k - 1)[k - 1]
    if not exactly:
        return np.flatnonzero(values <= worst)
    better, equal = np.flatnonzero(values < worst), np.flatnonzero(values == worst)
    return np.sort(np.append(better, equal[: k - len(better)]))


def _best_of_classes(scores: Floats, classes: Codes, k: int, exactly: bool) -> Mask:
    """Ordered by class, score and row: a row stays if it is among its class's first k or equals the k-th."""
    n = len(scores)
    order = np.lexsort((scores, classes))
    ordered_class, ordered_score = classes[order], scores[order]
    first = np.r_[True, ordered_class[1:] != ordered_class[:-1]] if n else np.zeros(0, bool)
    start = np.maximum.accumulate(np.where(first, np.arange(n), 0))
    stays = np.arange(n) - start < k
    if not exactly and n:
        end = np.append(np.flatnonzero(first)[1:], n)[np.cumsum(first) - 1]
        stays |= ordered_score <= ordered_score[np.minimum(start + k, end) - 1]
    keep = np.zeros(n, dtype=np.bool_)
    keep[order] = stays
    return keep
