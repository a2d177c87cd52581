"""Where to cut a chain of operators into pipelines."""

from collections.abc import Sequence
from itertools import accumulate


def split_utility(costs: Sequence[float], at: int) -> float:
    """Predicted throughput after over before a split before operator ``at`` (Joker 4.2).

        overhead = 1 - sum(costs)
        utility  = 1 / (overhead + max(costs before, costs from there on))

    Costs are shares of the pipeline's CPU time; what is missing to 1 is its overhead, which both parts will have.

    >>> round(split_utility((0.2, 0.1, 0.4), 1), 4), round(split_utility((0.2, 0.1, 0.4), 2), 4)
    (1.25, 1.4286)
    """
    overhead = max(0.0, 1.0 - sum(costs))
    return 1.0 / max(1e-12, overhead + max(sum(costs[:at]), sum(costs[at:])))


def best_split(costs: Sequence[float]) -> tuple[int, float]:
    """The operator before which a split is worth most, and its utility; (0, 1) for a single operator."""
    options = [(split_utility(costs, at), -at) for at in range(1, len(costs))]
    if not options:
        return 0, 1.0
    utility, at = max(options)
    return -at, utility


def partition(weights: Sequence[float], parts: int, overhead: float = 0.0) -> tuple[float, tuple[int, ...]]:
    """Cut a chain into at most so many parts so that the heaviest (weight + overhead) is lightest.

    Gives that weight and the first operator of each part. Exact: the heaviest part is one of the O(n^2) sums of
    neighbours, and for a bound the cutting is greedy.

    >>> partition([3.0, 1.0, 4.0, 2.0], 2)
    (6.0, (0, 2))
    """
    sums = [0.0, *accumulate(weights)]
    bounds = sorted({sums[j] - sums[i] for i in range(len(weights)) for j in range(i + 1, len(weights) + 1)})
    low, high = 0, len(bounds) - 1
    while low < high:
        middle = (low + high) // 2
        starts = _greedy(weights, bounds[middle])
        low, high = (low, middle) if starts is not None and len(starts) <= parts else (middle + 1, high)
    return bounds[low] + overhead, _greedy(weights, bounds[low]) or (0,)


def _greedy(weights: Sequence[float], bound: float) -> tuple[int, ...] | None:
    """Fewest parts of at most the bound each; None where one operator alone is heavier."""
    starts, load = [0], 0.0
    for i, weight in enumerate(weights):
        if weight > bound * (1 + 1e-12):
            return None
        if load + weight > bound * (1 + 1e-12):
            starts.append(i)
            load = 0.0
        load += weight
    return tuple(starts)
