"""Which replica has which key group: a table, and how it changes with as few moves as possible.

Growing from n to n + 1 replicas moves about 1/(n+1) of the groups, all of them to the new replica; shrinking moves
only the groups of the replicas that go. As in Joker, partitions go from the fullest to the emptiest replica until all
are within one. A second function moves hot groups when the replicas are unevenly loaded (MPC 3.3 asks for it when the
largest load is more than 1.3 times the smallest).
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from penstock.core.errors import PenstockError

#: The replica of each key group.
Routing = tuple[int, ...]

UNEVEN = 1.3


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
    _check(routing, replicas)
    held: list[list[int]] = [[] for _ in range(replicas)]
    homeless: list[int] = []
    for group, replica in enumerate(routing):
        (held[replica] if replica < replicas else homeless).append(group)
    for group in homeless:
        _emptiest(held).append(group)
    while True:
        fullest, emptiest = max(held, key=len), _emptiest(held)
        if len(fullest) - len(emptiest) <= 1:
            break
        emptiest.append(fullest.pop())
    table = [0] * len(routing)
    for replica, groups in enumerate(held):
        for group in groups:
            table[group] = replica
    return tuple(table)


def loads_of(routing: Routing, weights: Sequence[float], replicas: int) -> NDArray[np.float64]:
    """The load of each replica: the sum of its groups' weights."""
    sums = np.bincount(np.asarray(routing), weights=np.asarray(weights, dtype=float), minlength=replicas)
    return sums.astype(np.float64)


def rebalance(routing: Routing, weights: Sequence[float], replicas: int, uneven: float = UNEVEN) -> Routing:
    """Move groups from the most to the least loaded replica while the largest load is too far above the smallest.

    Each step moves the heaviest group that fits into half the gap, or else swaps nothing and stops: one group that is
    hotter than all others together cannot be made lighter by moving it.

    >>> rebalance((0, 0, 1, 1), (5, 3, 1, 1), 2)
    (0, 1, 1, 1)
    """
    _check(routing, replicas)
    table = np.asarray(routing).copy()
    weight = np.asarray(weights, dtype=float)
    for _ in range(len(table)):
        loads = loads_of(tuple(table.tolist()), weights, replicas)
        high, low = int(loads.argmax()), int(loads.argmin())
        if loads[high] <= uneven * loads[low] or loads[high] == 0:
            break
        own = np.flatnonzero((table == high) & (weight > 0) & (weight < loads[high] - loads[low]))
        if not len(own):
            break
        best = own[np.abs(weight[own] - (loads[high] - loads[low]) / 2).argmin()]
        table[best] = low
    return tuple(table.tolist())


def is_uneven(routing: Routing, weights: Sequence[float], replicas: int, uneven: float = UNEVEN) -> bool:
    """Whether the largest load is more than ``uneven`` times the smallest."""
    loads = loads_of(routing, weights, replicas)
    return bool(len(loads) > 1 and loads.max() > uneven * loads.min())


def moved(before: Routing, after: Routing) -> list[int]:
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


def _emptiest(held: list[list[int]]) -> list[int]:
    return min(held, key=len)


def _check(routing: Routing, replicas: int) -> None:
    if not 1 <= replicas <= len(routing):
        raise PenstockError(
            f"{len(routing)} key groups can have 1 to {len(routing)} replicas, not {replicas}."
        )
