import csv
import gzip

import numpy as np
import oracles
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import point_sets

from penstock import PenstockError
from penstock.preference import skyline


@settings(max_examples=150, deadline=None)
@given(point_sets())
def test_the_skyline_is_what_no_other_row_dominates(points):
    np.testing.assert_array_equal(skyline(points), oracles.skyline(points))


@settings(max_examples=60, deadline=None)
@given(point_sets(max_width=6), st.integers(1, 5), st.integers(0, 2**32 - 1))
def test_rows_are_compared_within_their_class_only(points, classes, seed):
    codes = np.random.default_rng(seed).integers(-classes, classes, len(points))
    np.testing.assert_array_equal(skyline(points, classes=codes), oracles.skyline(points, codes))


@pytest.mark.parametrize(("rows", "width"), [(3000, 8), (5000, 4), (20000, 2), (2000, 12), (70000, 3)])
def test_a_large_skyline_agrees_with_an_independent_library(rows, width):
    moocore = pytest.importorskip("moocore")
    points = np.random.default_rng(rows).random((rows, width))
    np.testing.assert_array_equal(
        skyline(points), np.flatnonzero(moocore.is_nondominated(points, keep_weakly=True))
    )


def test_ties_stay_unless_distinct():
    points = [[2.0, 2.0], [1.0, 3.0], [2.0, 2.0], [2.0, 2.5]]
    assert skyline(points).tolist() == [0, 1, 2]
    assert skyline(points, distinct=True).tolist() == [0, 1]


def test_positive_and_negative_zero_are_the_same_number():
    assert skyline([[0.0], [-0.0]]).tolist() == [0, 1]
    assert skyline([[0.0], [-0.0]], distinct=True).tolist() == [0]


def test_sums_that_round_to_the_same_number_do_not_hide_a_dominator():
    big = np.full((200, 2), 2.0**53)
    big[:, 1] = np.arange(200)[::-1] * 2.0**-20
    assert skyline(big).tolist() == [199]


def test_no_rows_have_an_empty_skyline():
    assert skyline(np.zeros((0, 3))).tolist() == []


@pytest.mark.parametrize("rows", [3, 500, 20000])
def test_nan_is_refused_in_one_sentence(rows):
    points = np.random.default_rng(1).random((rows, 3))
    points[rows // 2, 1] = np.nan
    with pytest.raises(PenstockError, match="NaN"):
        skyline(points)


def test_points_need_two_axes():
    with pytest.raises(PenstockError, match="reshape"):
        skyline([1.0, 2.0])


def columns(path, *names):
    with gzip.open(path, "rt") as lines:
        return np.array([[float(row[n]) for n in names] for row in csv.DictReader(lines)])


@pytest.mark.parametrize(("width", "size"), [(8, 387), (6, 199), (4, 84), (2, 1)])
def test_the_skylines_of_basketball_players_are_those_of_the_definition(recorded, width, size):
    points = columns(recorded / "nba_8d_17264.csv.gz", *[f"d{i}" for i in range(width)])
    found = skyline(points)
    np.testing.assert_array_equal(found, oracles.skyline(points))
    assert len(found) == size


def test_the_skyline_of_diamonds_is_that_of_the_definition(recorded):
    points = columns(recorded / "diamonds_53940.csv.gz", "carat", "price") * [-1, 1]
    found = skyline(points)
    np.testing.assert_array_equal(found, oracles.skyline(points))
    assert len(skyline(points, distinct=True)) == len(np.unique(points[found], axis=0)) == 24
