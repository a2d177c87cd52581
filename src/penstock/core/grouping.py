"""Rows by small whole numbers (panes, workers): in the order of the numbers without comparing rows with each other."""

import numpy as np

from penstock.core.arrays import Ints

#: Numpy sorts whole numbers of 16 bits by counting them; of wider ones it compares pairs, ten times slower.
_COUNTED = 1 << 16


def numbered(values: Ints) -> tuple[Ints, Ints]:
    """The distinct values in ascending order, and the number of each row's value among them.

    >>> [part.tolist() for part in numbered(np.array([70, 20, 70]))]
    [[20, 70], [1, 0, 1]]
    """
    if not len(values):
        return values, np.zeros(0, dtype=np.int64)
    low = int(values.min())
    if int(values.max()) - low >= _COUNTED:
        distinct, index = np.unique(values, return_inverse=True)
        return distinct, index
    above = values - low
    found = np.flatnonzero(np.bincount(above))
    number = np.zeros(int(found[-1]) + 1, dtype=np.int64)
    number[found] = np.arange(len(found))
    return found + low, number[above]


def stable_order(numbers: Ints, count: int) -> Ints:
    """The rows in the order of their numbers, which are below ``count``; equal ones as they came.

    >>> stable_order(np.array([1, 0, 1]), count=2).tolist()
    [1, 0, 2]
    """
    keys = numbers.astype(np.uint16) if count <= _COUNTED else numbers
    order: Ints = np.argsort(keys, kind="stable")
    return order


def places_of(values: Ints) -> list[tuple[int, Ints]]:
    """Each distinct value, ascending, with the rows that have it.

    >>> [(value, rows.tolist()) for value, rows in places_of(np.array([70, 20, 70]))]
    [(20, [1]), (70, [0, 2])]
    """
    if not len(values):
        return []
    distinct, number = numbered(values)
    ends = np.cumsum(np.bincount(number))
    return list(zip(distinct.tolist(), np.split(stable_order(number, len(distinct)), ends[:-1]), strict=True))
