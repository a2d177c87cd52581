import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.errors import PenstockError
from penstock.dataflow.routing import (
    check_routing,
    dealt,
    is_uneven,
    loads_of,
    moved,
    rebalance,
    rescale,
    spread,
)


@given(st.integers(8, 300), st.integers(1, 8), st.lists(st.integers(1, 8), min_size=1, max_size=6))
def test_replicas_stay_within_one_group_and_every_group_has_one(groups, first, sizes):
    table = spread(groups, first)
    for replicas in sizes:
        table = rescale(table, replicas)
        counts = np.bincount(table, minlength=replicas)
        assert len(table) == groups
        assert len(counts) == replicas  # none has a replica that is gone
        assert counts.max() - counts.min() <= 1


@given(st.integers(1, 15))
def test_growing_by_one_moves_about_one_in_n_plus_one_and_only_to_the_new_replica(n):
    before = spread(256, n)
    after = rescale(before, n + 1)
    gone = moved(before, after)
    assert {after[g] for g in gone} == {n}
    assert len(gone) in (256 // (n + 1), -(-256 // (n + 1)))


@given(st.integers(2, 16))
def test_shrinking_by_one_moves_only_the_groups_of_the_replica_that_goes(n):
    before = spread(256, n)
    assert all(before[g] == n - 1 for g in moved(before, rescale(before, n - 1)))


@given(st.lists(st.floats(0, 100), min_size=16, max_size=64), st.integers(2, 6))
def test_rebalancing_never_makes_the_largest_load_larger(weights, replicas):
    before = spread(len(weights), replicas)
    after = rebalance(before, weights, replicas)
    assert loads_of(after, weights, replicas).max() <= loads_of(before, weights, replicas).max() + 1e-9


@given(st.lists(st.floats(0.01, 10.0), min_size=1, max_size=40), st.integers(1, 6))
def test_a_table_from_nothing_is_within_one_group_of_even(weights, n):
    totals = loads_of(dealt(weights, n), weights, n)
    assert totals.max() <= sum(weights) / n + max(weights) + 1e-9


def test_a_hot_group_gets_a_replica_with_little_else():
    weights = [100.0, *([1.0] * 15)]
    after = rebalance(spread(16, 2), weights, 2)
    assert not any(replica == after[0] for replica in after[1:])
    assert is_uneven(after, weights, 2)  # one group cannot be parted


def test_more_replicas_than_groups_are_refused():
    with pytest.raises(PenstockError, match="4 key groups can have 1 to 4 replicas, not 5"):
        rescale(spread(4, 2), 5)
    assert rescale(spread(4, 2), 4) == (0, 2, 1, 3)


def test_groups_move_only_as_far_as_the_tolerance_asks():
    before, weights = (0, 0, 0, 1, 1), (4.0, 4.0, 1.0, 4.0, 4.5)  # 9 and 8.5: within a twentieth of the mean
    assert rebalance(before, weights, 2) == before
    assert rebalance(before, weights, 2, tolerance=0.0) == before  # no move helps
    uneven = (4.0, 4.0, 1.0, 4.0, 3.0)  # 9 and 7
    assert rebalance(before, uneven, 2, tolerance=0.2) == before
    assert rebalance(before, uneven, 2) == (0, 0, 1, 1, 1)


def test_tables_of_different_length_are_not_compared():
    with pytest.raises(ValueError, match="shorter"):
        moved((0, 1), (0,))


def test_loads_are_uneven_from_their_limit_on():
    even = (0, 1)
    assert not is_uneven(even, (1.0, 1.3), 2)
    assert is_uneven(even, (1.0, 1.31), 2)
    assert not is_uneven(even, (1.0, 2.0), 2, uneven=2.0)
    assert is_uneven(even, (2.1, 1.0), 2, uneven=2.0)
    assert not is_uneven((0, 0), (5.0, 1.0), 1)  # one replica is as even as can be
    assert is_uneven((0, 0), (5.0, 1.0), 2)


def test_a_routing_that_names_no_replica_or_too_few_groups_is_refused():
    check_routing((0, 1, 1, 0), 4, 2, "count")
    with pytest.raises(PenstockError, match="region 'count' has 3 entries for 4 key groups"):
        check_routing((0, 1, 1), 4, 2, "count")
    for wrong in ((0, 2, 1, 0), (0, -1, 1, 0)):
        with pytest.raises(PenstockError, match=r"region 'count' names a replica outside 0\.\.1\."):
            check_routing(wrong, 4, 2, "count")


def test_the_group_that_evens_two_replicas_best_is_moved_and_weightless_ones_are_not():
    assert rebalance((0, 0, 0, 1), (6.0, 3.0, 1.0, 2.0), 2, tolerance=0.2) == (0, 1, 0, 1)
    assert rebalance((0, 0, 0, 1), (5.0, 2.5, 2.5, 2.0), 2, tolerance=0.2) == (1, 0, 0, 1)
    assert rebalance((0, 0, 1, 1), (4.0, 0.0, 1.0, 1.0), 2) == (0, 0, 1, 1)
