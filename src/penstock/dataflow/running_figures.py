"""Running figures by key, in one compiled pass: what most keyed operators of grain "table" are made of.

Each function takes the slots of the rows (which key a row belongs to) and, where it keeps a figure, the state column
that holds one value a key: the column is carried forward in place, and the value after each row is given back.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.core.arrays import Ints
from penstock.core.jit import jit


@jit
def running_count(slots: Ints, counts: NDArray[Any]) -> NDArray[Any]:
    """Count the rows of each key; the count after each row.

    >>> counts = np.array([10, 0])
    >>> running_count(np.array([0, 1, 0]), counts), counts
    (array([11,  1, 12]), array([12,  1]))
    """
    out = np.empty(len(slots), dtype=counts.dtype)
    for row in range(len(slots)):
        counts[slots[row]] += 1
        out[row] = counts[slots[row]]
    return out


@jit
def running_sum(slots: Ints, values: NDArray[Any], sums: NDArray[Any]) -> NDArray[Any]:
    """Add up a column by key; the sum after each row."""
    out = np.empty(len(slots), dtype=sums.dtype)
    for row in range(len(slots)):
        sums[slots[row]] += values[row]
        out[row] = sums[slots[row]]
    return out


@jit
def running_max(slots: Ints, values: NDArray[Any], largest: NDArray[Any]) -> NDArray[Any]:
    """The largest value of each key so far; the maximum after each row."""
    out = np.empty(len(slots), dtype=largest.dtype)
    for row in range(len(slots)):
        if values[row] > largest[slots[row]]:
            largest[slots[row]] = values[row]
        out[row] = largest[slots[row]]
    return out


@jit
def latest(slots: Ints, values: NDArray[Any], kept: NDArray[Any]) -> None:
    """Keep the newest value of each key."""
    for row in range(len(slots)):
        kept[slots[row]] = values[row]


@jit
def last_rows(slots: Ints, keys: int) -> Ints:
    """The number of each key's last row; -1 where a key has none."""
    out = np.full(keys, -1, dtype=np.int64)
    for row in range(len(slots)):
        out[slots[row]] = row
    return out


@jit
def rank_in_key(slots: Ints, keys: int) -> Ints:
    """The how-manieth row of its key each row is, from 0."""
    seen = np.zeros(keys, dtype=np.int64)
    out = np.empty(len(slots), dtype=np.int64)
    for row in range(len(slots)):
        out[row] = seen[slots[row]]
        seen[slots[row]] += 1
    return out
