import numpy as np
import oracles
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import point_sets

from penstock import PenstockError
from penstock.preference import dominance_factor, k_dominant, skyline, top_delta
from penstock.preference.factor import factors_among


@settings(max_examples=100, deadline=None)
@given(point_sets(max_rows=150, max_width=12))
def test_the_factor_is_the_smallest_k_that_nothing_k_dominates(points):
    np.testing.assert_array_equal(dominance_factor(points), oracles.factors(points))


@settings(max_examples=40, deadline=None)
@given(point_sets(max_rows=120, max_width=5), st.integers(0, 2**32 - 1))
def test_factors_are_found_within_classes(points, seed):
    classes = np.random.default_rng(seed).integers(0, 3, len(points))
    np.testing.assert_array_equal(dominance_factor(points, classes=classes), oracles.factors(points, classes))


@settings(max_examples=60, deadline=None)
@given(point_sets(max_rows=150, max_width=12), st.integers(1, 5))
def test_the_factors_of_slices_of_a_skyline_are_those_of_the_whole(points, slices):
    rows = skyline(points)
    found = np.zeros(len(rows), dtype=np.int32)
    for number in range(slices):
        mine = np.arange(number, len(rows), slices)
        found[mine] = factors_among(points[rows], mine)
    np.testing.assert_array_equal(found, oracles.factors(points)[rows])


@settings(max_examples=60, deadline=None)
@given(point_sets(max_rows=120, max_width=6), st.integers(1, 6))
def test_k_dominant_rows_are_those_no_row_k_dominates(points, k):
    if k > points.shape[1]:
        with pytest.raises(PenstockError, match="choose k"):
            k_dominant(points, k)
        return
    not_worse = (points[:, None, :] <= points[None, :, :]).sum(axis=2)
    better = (points[:, None, :] < points[None, :, :]).any(axis=2)
    np.testing.assert_array_equal(
        k_dominant(points, k), np.flatnonzero(~((not_worse >= k) & better).any(axis=0))
    )


@settings(max_examples=80, deadline=None)
@given(point_sets(max_rows=120, max_width=6), st.integers(1, 40))
def test_top_delta_takes_the_smallest_k_with_more_than_delta_rows(points, delta):
    factors = oracles.factors(points)
    rows = top_delta(points, delta)
    for k in range(1, points.shape[1] + 1):
        chosen = np.flatnonzero((factors > 0) & (factors <= k))
        if len(chosen) > delta:
            np.testing.assert_array_equal(rows, chosen)
            break
    else:
        np.testing.assert_array_equal(rows, skyline(points))


@settings(max_examples=50, deadline=None)
@given(point_sets(max_rows=120, max_width=6), st.integers(1, 40))
def test_exactly_delta_rows_are_those_of_the_smallest_factors(points, delta):
    factors = oracles.factors(points)
    rows = top_delta(points, delta, exactly=True)
    assert len(rows) == min(delta, (factors > 0).sum())
    left_out = np.setdiff1d(np.flatnonzero(factors), rows)
    assert not len(rows) or not len(left_out) or factors[rows].max() <= factors[left_out].min()


def test_delta_below_one_is_refused():
    with pytest.raises(PenstockError, match="at least 1"):
        top_delta(np.ones((2, 2)), 0)
