"""The searches that dynamic programming replaces (MPC 3.3.2), with the costs and axes of :mod:`penstock.policies.search`."""

from collections.abc import Sequence
from itertools import product

import numpy as np

from penstock.core.arrays import Floats
from penstock.policies.search import SearchResult


def _positions(axes: Sequence[Floats]) -> tuple[list[tuple[int, ...]], Floats]:
    indices = list(product(*(range(len(axis)) for axis in axes)))
    return indices, np.array([[axis[i] for axis, i in zip(axes, index, strict=True)] for index in indices])


def exhaustive(
    costs: Sequence[Floats], axes: Sequence[Floats], now: Sequence[float], gamma: float
) -> SearchResult:
    """Every trajectory, one after the other: the reference for tests."""
    indices, places = _positions(axes)
    flat = [np.asarray(c, dtype=float).ravel() for c in costs]
    best, explored = np.inf, 0
    chosen: tuple[tuple[int, ...], ...] = ()
    for options in product(range(len(indices)), repeat=len(costs)):
        explored += 1
        total, place = 0.0, np.asarray(now, dtype=float)
        for cost, option in zip(flat, options, strict=True):
            total += cost[option] + gamma * float(((places[option] - place) ** 2).sum())
            place = places[option]
        if total < best:
            best, chosen = total, tuple(indices[o] for o in options)
    return SearchResult(chosen, float(best), explored)


def branch_and_bound(
    costs: Sequence[Floats], axes: Sequence[Floats], now: Sequence[float], gamma: float, ordered: bool = True
) -> SearchResult:
    """The paper's search (3.3.2): a subtree is entered only while its cost so far is below the best leaf.

    Costs must not be negative. ``ordered`` tries the cheapest child first, which finds a good leaf early; the paper does
    not say in which order it goes. ``explored`` counts the configurations whose cost was worked out.
    """
    indices, places = _positions(axes)
    flat = [np.asarray(c, dtype=float).ravel() for c in costs]
    best: tuple[float, tuple[int, ...]] = (np.inf, ())
    explored = 0

    def visit(depth: int, place: Floats, spent: float, chosen: tuple[int, ...]) -> None:
        nonlocal best, explored
        reach = spent + flat[depth] + gamma * ((places - place) ** 2).sum(axis=1)
        explored += len(reach)
        if depth + 1 == len(flat):
            option = int(np.argmin(reach))
            if reach[option] < best[0]:
                best = (float(reach[option]), (*chosen, option))
            return
        for option in np.argsort(reach, kind="stable") if ordered else range(len(reach)):
            if reach[option] < best[0]:
                visit(depth + 1, places[option], float(reach[option]), (*chosen, int(option)))

    visit(0, np.asarray(now, dtype=float), 0.0, ())
    return SearchResult(tuple(indices[o] for o in best[1]), best[0], explored)
