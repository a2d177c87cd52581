import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.policies.search import shortest_path
from penstock_lab.searches import branch_and_bound, exhaustive


@st.composite
def instances(draw):
    shape = tuple(draw(st.lists(st.integers(1, 4), min_size=1, max_size=3)))
    horizon = draw(st.integers(1, 3 if np.prod(shape) <= 8 else 2))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    costs = [rng.exponential(3.0, shape) for _ in range(horizon)]
    if draw(st.booleans()) and costs[0].size > 1:  # some configurations are not allowed
        banned = rng.random(shape) < 0.3
        banned.flat[int(rng.integers(banned.size))] = False
        costs = [np.where(banned, np.inf, c) for c in costs]
    axes = [np.sort(rng.uniform(0, 9, n)) for n in shape]
    return costs, axes, [float(rng.uniform(0, 9)) for _ in shape], draw(st.sampled_from([0.0, 0.1, 0.4, 2.0]))


@given(instances())
@settings(max_examples=150, deadline=None)
def test_dynamic_programming_and_branch_and_bound_find_what_exhaustive_search_finds(instance):
    costs, axes, now, gamma = instance
    exact, quick, bounded = exhaustive(*instance), shortest_path(*instance), branch_and_bound(*instance)
    assert quick.cost == pytest.approx(exact.cost)
    assert bounded.cost == pytest.approx(exact.cost)
    for found in (quick, bounded):  # the trajectory really has that cost
        place, total = np.array(now), 0.0
        for cost, index in zip(costs, found.trajectory, strict=True):
            target = np.array([axis[i] for axis, i in zip(axes, index, strict=True)])
            total += cost[index] + gamma * float(((target - place) ** 2).sum())
            place = target
        assert total == pytest.approx(exact.cost)


def test_branch_and_bound_explores_a_part_and_dynamic_programming_the_layers_only():
    rng = np.random.default_rng(3)
    costs = [rng.exponential(1.0, (6, 4)) + 1 for _ in range(3)]
    axes = [np.arange(1.0, 7), np.arange(1.0, 5)]
    exact = exhaustive(costs, axes, [1.0, 1.0], 0.4)
    bounded = branch_and_bound(costs, axes, [1.0, 1.0], 0.4)
    assert exact.explored == 24**3
    assert bounded.explored < exact.explored / 5
    assert shortest_path(costs, axes, [1.0, 1.0], 0.4).explored == 3 * 24
