"""The best trajectory over a horizon, by exact dynamic programming.

    J = sum_i L_i(u_i) + gamma sum_i |u_i - u_(i-1)|^2,    u_(-1) the present configuration       (MPC Expr. 10, 15)

The configurations form a grid, one axis a knob (replicas, frequency, ...), and the squared distance is a sum over
the axes. So the minimum over all next configurations is taken one axis after the other: a step costs
O(options x sum of axis lengths) instead of O(options^2), and h steps h times that.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from penstock.core.arrays import Floats


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The best trajectory (grid indices, step by step), its cost, and how many nodes were looked at."""

    trajectory: tuple[tuple[int, ...], ...]
    cost: float
    explored: int


def shortest_path(
    costs: Sequence[Floats], axes: Sequence[Floats], now: Sequence[float], gamma: float
) -> SearchResult:
    """Exact dynamic programming.

    ``costs``: one array a step, with one axis a knob; ``inf`` marks what is not allowed. ``axes``: the positions of
    the options along each axis, in the units of the switching cost. ``now``: the present position.

    >>> found = shortest_path([np.array([3.0, 1.0, 0.0])] * 2, [np.array([0.0, 1.0, 2.0])], [0.0], gamma=0.6)
    >>> found.trajectory, round(found.cost, 6)
    (((1,), (2,)), 2.2)
    """
    penalties = [gamma * (axis[:, None] - axis[None, :]) ** 2 for axis in axes]
    ahead = [np.asarray(costs[-1], dtype=float)]
    for cost in reversed(costs[:-1]):
        ahead.append(cost + _cheapest_next(ahead[-1], penalties))
    ahead.reverse()
    position, total = np.asarray(now, dtype=float), np.nan
    path: list[tuple[int, ...]] = []
    for step in ahead:
        entry = step + _distance(axes, position, gamma, step.shape)
        best = np.unravel_index(int(np.argmin(entry)), step.shape)
        total = float(entry[best]) if not path else total
        path.append(tuple(int(i) for i in best))
        position = np.array([axis[i] for axis, i in zip(axes, best, strict=True)])
    explored = sum(c.size for c in costs)
    return SearchResult(tuple(path), total, explored)


def _cheapest_next(value: Floats, penalties: Sequence[Floats]) -> Floats:
    """min over v of (penalty(u, v) + value(v)) for every u, one axis at a time."""
    for axis, penalty in enumerate(penalties):
        lines = np.moveaxis(value, axis, -1)
        value = np.moveaxis((lines[..., None, :] + penalty).min(axis=-1), -1, axis)
    return value


def _distance(axes: Sequence[Floats], position: Floats, gamma: float, shape: tuple[int, ...]) -> Floats:
    total = np.zeros(shape)
    for axis, (levels, place) in enumerate(zip(axes, position, strict=True)):
        line = gamma * (levels - place) ** 2
        total += line.reshape([-1 if i == axis else 1 for i in range(len(shape))])
    return total
