"""What moving the state of keys costs."""

from typing import Literal

import numpy as np

from penstock.core.arrays import Floats, Ints

Protocol = Literal["MP", "R-BLK", "S-BLK"]
PROTOCOLS: tuple[Protocol, ...] = ("MP", "R-BLK", "S-BLK")


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
