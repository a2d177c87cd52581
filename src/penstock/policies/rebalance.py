"""A routing of key groups that balances the load and moves little (MPC 3.3, Joker 3.3)."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from penstock.core.observation import KeyLoad

#: A replica above this utilisation, or a largest over smallest load above this ratio, calls for a new routing.
OVERLOAD, IMBALANCE = 1.1, 1.3


def loads(
    frequencies: Sequence[float], costs: Sequence[float], routing: Sequence[int], workers: int
) -> NDArray[np.float64]:
    """Load of every worker: frequency x cost, summed over its key groups."""
    weight = np.asarray(frequencies, dtype=float)
    if len(costs):
        weight = weight * np.asarray(costs, dtype=float)
    return np.bincount(np.asarray(routing, dtype=int), weights=weight, minlength=workers).astype(np.float64)


def needed(keys: KeyLoad, workers: int, utilisation: float) -> bool:
    """Whether the present routing is worth changing.

    ``utilisation`` is that of the whole operator; a replica's own is its share of the load times the workers.
    """
    if not keys.routing or workers < 2:
        return False
    if max(keys.routing) >= workers:
        return True
    each = loads(keys.frequencies, keys.costs, keys.routing, workers)
    mean = each.mean()
    if mean <= 0:
        return False
    overloaded = utilisation * each.max() / mean > OVERLOAD
    return bool(overloaded or each.max() > IMBALANCE * max(each.min(), 1e-12))


def rebalance(keys: KeyLoad, workers: int, tolerance: float = 0.05) -> tuple[int, ...]:
    """A new routing for so many workers.

    Groups of workers that are gone go to the emptiest worker, largest first. Then groups move from the fullest to
    the emptiest worker, always the one that evens the two best, until the fullest is within ``tolerance`` of the
    mean or no move helps. Groups that need not move stay.

    >>> rebalance(KeyLoad((0.4, 0.3, 0.2, 0.1), (), (0, 0, 0, 0)), 2)
    (1, 0, 0, 1)
    """
    weight = np.asarray(keys.frequencies, dtype=float)
    if keys.costs:
        weight = weight * np.asarray(keys.costs, dtype=float)
    routing = np.asarray(keys.routing or (workers,) * len(weight), dtype=int).copy()
    each = np.bincount(routing[routing < workers], weights=weight[routing < workers], minlength=workers)
    for group in sorted(np.flatnonzero(routing >= workers), key=lambda g: -weight[g]):
        routing[group] = int(np.argmin(each))
        each[routing[group]] += weight[group]
    goal = (1 + tolerance) * each.mean()
    for _ in range(4 * len(weight)):
        full, empty = int(np.argmax(each)), int(np.argmin(each))
        gap = each[full] - each[empty]
        mine = np.flatnonzero(routing == full)
        movable = mine[(weight[mine] < gap) & (weight[mine] > 0)]
        if each[full] <= goal or not len(movable):
            break
        group = movable[np.argmin(np.abs(weight[movable] - gap / 2))]
        routing[group] = empty
        each[full] -= weight[group]
        each[empty] += weight[group]
    return tuple(int(r) for r in routing)


def moved(before: Sequence[int], after: Sequence[int]) -> int:
    """How many key groups changed their worker."""
    return sum(a != b for a, b in zip(before, after, strict=True))
