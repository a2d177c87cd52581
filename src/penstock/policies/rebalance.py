"""When the routing of a stage's keys is worth changing (MPC 3.3); the new one is :mod:`penstock.dataflow.routing`'s."""

import numpy as np

from penstock.core.arrays import Floats
from penstock.core.observation import KeyLoad
from penstock.dataflow import routing

#: A replica above this utilisation calls for a new routing, as does an uneven load.
OVERLOAD = 1.1


def weights(keys: KeyLoad) -> Floats:
    """Work of every key group: frequency times cost."""
    frequencies = np.asarray(keys.frequencies, dtype=float)
    return frequencies * np.asarray(keys.costs, dtype=float) if keys.costs else frequencies


def needed(keys: KeyLoad, workers: int, utilisation: float) -> bool:
    """Whether the present routing is worth changing.

    ``utilisation`` is that of the whole operator; a replica's own is its share of the load times the workers.
    """
    if not keys.routing or workers < 2:
        return False
    if max(keys.routing) >= workers:
        return True
    each = routing.loads_of(keys.routing, weights(keys), workers)
    mean = each.mean()
    if mean <= 0:
        return False
    overloaded = utilisation * each.max() / mean > OVERLOAD
    return bool(overloaded) or routing.is_uneven(keys.routing, weights(keys), workers)


def rebalance(keys: KeyLoad, workers: int) -> tuple[int, ...]:
    """A routing for so many workers that balances their load and moves little.

    >>> rebalance(KeyLoad((0.4, 0.3, 0.2, 0.1), (), (0, 0, 0, 0)), 2)
    (1, 0, 0, 1)
    """
    if not keys.routing:
        return routing.dealt(weights(keys), workers)
    return routing.rebalance(keys.routing, weights(keys), workers)
