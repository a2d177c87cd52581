import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.observation import KeyLoad
from penstock.dataflow.routing import loads_of, moved
from penstock.policies.rebalance import needed, rebalance, weights


@given(st.integers(0, 2**32 - 1), st.integers(1, 8), st.integers(1, 8), st.floats(0, 1.5))
def test_a_new_routing_uses_all_workers_and_is_never_less_even(seed, before, after, skew):
    rng = np.random.default_rng(seed)
    shares = np.arange(1, 65) ** -skew
    shares /= shares.sum()
    keys = KeyLoad(tuple(shares), (), tuple(int(r) for r in rng.integers(0, before, 64)))
    routing = rebalance(keys, after)
    each = loads_of(routing, weights(keys), after)
    assert set(routing) <= set(range(after))
    # no worse than the greatest single key forces, plus a little
    assert each.max() <= max(1.05 / after + 1 / 64, shares.max() + 1 / after * 0.5) + 1e-9
    if before == after and not needed(keys, after, 0.5):
        assert len(moved(keys.routing, routing)) <= 64


def test_going_from_n_to_n_plus_one_moves_about_one_share():
    even = tuple([1 / 256] * 256)
    for n in (2, 3, 7):
        keys = KeyLoad(even, (), tuple(i % n for i in range(256)))
        assert len(moved(keys.routing, rebalance(keys, n + 1))) <= 256 / (n + 1) + 2


def test_going_back_moves_only_the_groups_of_the_worker_that_left():
    keys = KeyLoad(tuple([1 / 256] * 256), (), tuple(i % 4 for i in range(256)))
    routing = rebalance(keys, 3)
    assert len(moved(keys.routing, routing)) == 64


def test_an_even_routing_is_left_alone():
    keys = KeyLoad((0.25, 0.25, 0.25, 0.25), (), (0, 1, 0, 1))
    assert not needed(keys, 2, 0.9)
    assert rebalance(keys, 2) == keys.routing


def test_an_overloaded_replica_or_a_large_ratio_calls_for_a_new_routing():
    assert needed(KeyLoad((0.56, 0.44), (), (0, 1)), 2, 1.0)  # 1.12 on the first
    assert not needed(KeyLoad((0.56, 0.44), (), (0, 1)), 2, 0.9)
    assert needed(KeyLoad((0.6, 0.4), (), (0, 1)), 2, 0.1)  # 1.5 to 1
    assert not needed(KeyLoad((1.0,), (), (0,)), 1, 5.0)


def test_costs_of_keys_count():
    keys = KeyLoad((0.25, 0.25, 0.25, 0.25), (3.0, 1.0, 1.0, 1.0), (0, 0, 1, 1))
    routing = rebalance(keys, 2)
    assert loads_of(routing, weights(keys), 2).tolist() == [0.75, 0.75]
