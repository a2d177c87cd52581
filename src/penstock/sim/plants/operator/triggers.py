"""Keyed streams with count-based windows: which tuples make an operator compute.

A window of a key is computed anew after every ``slide`` tuples of that key (MPC 5.1: a thousand quotes, a slide of 25).
Only these *triggering* tuples cost much, so they alone pass through the simulated operator, each carrying the small
cost of the tuples before it. Which tuples trigger depends on the stream alone: it is found once and shared by runs.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from penstock.core.arrays import Floats, Ints
from penstock.core.errors import PenstockError
from penstock.core.jit import jit


@dataclass(frozen=True, eq=False)
class Triggers:
    """Times and keys of the triggering tuples; how many keys there are and how long the stream is."""

    times: Floats
    keys: NDArray[np.int32]
    key_count: int
    seconds: float
    slide: int = 1

    def __post_init__(self) -> None:
        if len(self.times) != len(self.keys) or not len(self.times):
            raise PenstockError("A keyed stream needs at least one triggering tuple, and a key for each.")

    @property
    def rate(self) -> float:
        """Triggering tuples a second."""
        return len(self.times) / self.seconds


def triggers(
    blocks: Iterable[tuple[Floats, Ints]], key_count: int, slide: int, seconds: float, seed: int = 0
) -> Triggers:
    """The triggering tuples of a stream that is given in blocks of (arrivals, keys).

    Windows start with random fill, as in a stream that has been running.

    >>> made = triggers([(np.arange(6.0), np.array([0, 0, 1, 0, 1, 0]))], 2, 2, 6.0, seed=-1)
    >>> made.times.tolist(), made.keys.tolist()
    ([1.0, 4.0, 5.0], [0, 1, 0])
    """
    fill = np.zeros(key_count, dtype=np.int64)
    if seed >= 0:
        fill = np.random.default_rng(seed).integers(0, slide, key_count)
    times, owners = [], []
    for arrivals, keys in blocks:
        rows = _triggering(np.ascontiguousarray(keys, dtype=np.int64), fill, slide)
        times.append(arrivals[rows])
        owners.append(keys[rows].astype(np.int32))
    return Triggers(np.concatenate(times), np.concatenate(owners), key_count, seconds, slide)


@jit
def _triggering(keys: Ints, fill: Ints, slide: int) -> NDArray[np.bool_]:
    rows = np.zeros(len(keys), dtype=np.bool_)
    for i in range(len(keys)):
        fill[keys[i]] += 1
        if fill[keys[i]] >= slide:
            fill[keys[i]] = 0
            rows[i] = True
    return rows
