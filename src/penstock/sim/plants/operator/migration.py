"""Who gets which key, and what moving the state of keys costs."""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

Protocol = Literal["MP", "R-BLK", "S-BLK"]
PROTOCOLS: tuple[Protocol, ...] = ("MP", "R-BLK", "S-BLK")


def balanced(loads: Floats, workers: int) -> Ints:
    """A worker for each key: heaviest keys first, each to the least loaded worker.

    >>> balanced(np.array([3.0, 1.0, 2.0]), 2).tolist()
    [0, 1, 1]
    """
    routing = np.zeros(len(loads), dtype=np.int64)
    total = np.zeros(workers)
    for key in np.argsort(-loads, kind="stable"):
        worker = int(np.argmin(total))
        routing[key] = worker
        total[worker] += loads[key]
    return routing


def hand_over(old: Ints, new: Ints, free: Floats, now: float, each: float) -> tuple[Floats, Floats]:
    """When the state of each key is there, and when each replica is free again (MPC 4.2.2).

    A replica that loses keys first works off its queue, then gives them out one by one, ``each`` seconds a key.
    """
    available = np.full(len(old), -np.inf)
    after = free.copy()
    for replica in np.unique(old[old != new]):
        keys = np.flatnonzero((old == replica) & (new != replica))
        start = max(float(free[replica]), now)
        available[keys] = start + each * np.arange(1, len(keys) + 1)
        after[replica] = available[keys[-1]]
    return available, after
