"""Which replica has which key group: a table, and how it changes with as few moves as possible.

Growing from n to n + 1 replicas moves about 1/(n+1) of the groups, all of them to the new replica; shrinking moves
only the groups of the replicas that go. As in Joker, partitions go from the fullest to the emptiest replica until all
are within one. The same moves, weighted by the groups' loads, even replicas out that are unevenly loaded (MPC 3.3 asks
for it when the largest load is more than 1.3 times the smallest).
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from penstock.core.allocation import deal
from penstock.core.arrays import Floats
from penstock.core.errors import PenstockError

#: The replica of each key group.
Routing = tuple[int, ...]

#: A largest load above so many times the smallest calls for a new table; it is then balanced to within this of the mean.
UNEVEN = 1.3
TOLERANCE = 0.05


def spread(groups: int, replicas: int) -> Routing:
    """A first table: group g goes to replica g * replicas / groups, so that neighbours stay together.

    >>> spread(4, 2)
    (0, 0, 1, 1)
    """
    return tuple(g * replicas // groups for g in range(groups))


def rescale(routing: Routing, replicas: int) -> Routing:
    """The table for another number of replicas, with the fewest groups moved and all replicas within one group.

    >>> rescale((0, 0, 0, 0, 1, 1, 1, 1), 3)
    (0, 0, 0, 2, 1, 1, 1, 2)
    >>> rescale((0, 0, 1, 2), 2)
    (0, 0, 1, 1)
    """
    if not 1 <= replicas <= len(routing):
        raise PenstockError(
            f"{len(routing)} key groups can have 1 to {len(routing)} replicas, not {replicas}."
        )
    return rebalance(routing, np.ones(len(routing)), replicas, tolerance=0.0)


def loads_of(routing: Sequence[int], weights: ArrayLike, replicas: int) -> Floats:
    """The load of each replica: the sum of its groups' weights; groups of replicas that are gone count for nobody."""
    table, weight = np.asarray(routing, dtype=int), np.asarray(weights, dtype=float)
    there = table < replicas
    return np.bincount(table[there], weights=weight[there], minlength=replicas).astype(np.float64)


def dealt(weights: ArrayLike, replicas: int) -> Routing:
    """A table from nothing: heaviest groups first, each to the least loaded replica.

    >>> dealt((3.0, 1.0, 2.0), 2)
    (0, 1, 1)
    """
    return tuple(deal(weights, np.zeros(replicas)).tolist())


def rebalance(
    routing: Sequence[int], weights: ArrayLike, replicas: int, tolerance: float = TOLERANCE
) -> Routing:
    """A table that balances the load of the replicas and moves little (MPC 3.3, Joker 3.3).

    Groups of replicas that are gone go to the least loaded one, heaviest first. Then groups move from the most to the
    least loaded replica, always the one that evens the two best, until the largest load is within ``tolerance`` of the
    mean or no move helps: a group that is hotter than all others together cannot be made lighter by moving it.

    >>> rebalance((0, 0, 1, 1), (5, 3, 1, 1), 2)
    (0, 1, 1, 1)
    """
    table, weight = np.asarray(routing, dtype=int).copy(), np.asarray(weights, dtype=float)
    loads = loads_of(table.tolist(), weight, replicas)
    gone = np.flatnonzero(table >= replicas)
    table[gone] = deal(weight[gone], loads)
    goal = (1 + tolerance) * loads.mean()
    for _ in range(4 * len(table)):
        high, low = int(loads.argmax()), int(loads.argmin())
        gap = loads[high] - loads[low]
        own = np.flatnonzero((table == high) & (weight > 0) & (weight < gap))[::-1]
        if loads[high] <= goal or not len(own):
            break
        best = own[np.abs(weight[own] - gap / 2).argmin()]
        table[best] = low
        loads[high] -= weight[best]
        loads[low] += weight[best]
    return tuple(table.tolist())


def is_uneven(routing: Sequence[int], weights: ArrayLike, replicas: int, uneven: float = UNEVEN) -> bool:
    """Whether the largest load is more than ``uneven`` times the smallest."""
    loads = loads_of(routing, weights, replicas)
    return bool(len(loads) > 1 and loads.max() > uneven * loads.min())


def moved(before: Sequence[int], after: Sequence[int]) -> list[int]:
    """Groups that have another replica now."""
    return [g for g, (a, b) in enumerate(zip(before, after, strict=True)) if a != b]


def check_routing(routing: Routing, groups: int, replicas: int, region: str) -> None:
    """Raise unless the table names a replica that exists for every group."""
    if len(routing) != groups:
        raise PenstockError(
            f"The routing of region '{region}' has {len(routing)} entries for {groups} key groups."
        )
    if min(routing) < 0 or max(routing) >= replicas:
        raise PenstockError(f"The routing of region '{region}' names a replica outside 0..{replicas - 1}.")
