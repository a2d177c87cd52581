import numpy as np
import oracles
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import pairs_of_point_sets, point_sets

from penstock import PenstockError
from penstock.preference import skyline
from penstock.preference.cross import NEVER, dominated_by, latest_dominator, merge_skylines


def expected(candidates, reference, panes, classes=None):
    beats = oracles.dominance(reference, candidates)
    if classes is not None:
        beats &= classes[1][:, None] == classes[0][None, :]
    return np.where(beats, panes[:, None], NEVER).max(axis=0, initial=NEVER)


@settings(max_examples=150, deadline=None)
@given(pairs_of_point_sets(), st.sampled_from([1, 3, 50, 2**60]), st.integers(0, 2**32 - 1))
def test_the_latest_dominator_is_the_newest_pane_that_beats_a_row(pair, spread, seed):
    candidates, reference = pair
    panes = np.random.default_rng(seed).integers(-spread, spread, len(reference))
    want = expected(candidates, reference, panes)
    np.testing.assert_array_equal(latest_dominator(candidates, reference, panes), want)
    np.testing.assert_array_equal(dominated_by(candidates, reference), want != NEVER)


@settings(max_examples=80, deadline=None)
@given(pairs_of_point_sets(), st.integers(1, 40), st.integers(0, 2**32 - 1))
def test_classes_keep_rows_apart(pair, count, seed):
    candidates, reference = pair
    rng = np.random.default_rng(seed)
    panes = rng.integers(0, 9, len(reference))
    classes = rng.integers(0, count, len(candidates)), rng.integers(0, count, len(reference)) + count // 2
    want = expected(candidates, reference, panes, classes)
    np.testing.assert_array_equal(latest_dominator(candidates, reference, panes, *classes), want)
    np.testing.assert_array_equal(dominated_by(candidates, reference, *classes), want != NEVER)


def test_an_equal_row_does_not_dominate():
    same = np.ones((300, 4))
    assert not dominated_by(same, same).any()


@pytest.mark.parametrize("rows", [2, 400])
def test_nan_is_refused_on_either_side(rows):
    good, bad = np.ones((rows, 2)), np.ones((rows, 2))
    bad[-1, 0] = np.nan
    for pair in ((good, bad), (bad, good)):
        with pytest.raises(PenstockError, match="NaN"):
            dominated_by(*pair)


def test_sets_of_different_width_are_refused():
    with pytest.raises(PenstockError, match="same columns"):
        dominated_by(np.ones((2, 2)), np.ones((2, 3)))


@settings(max_examples=80, deadline=None)
@given(pairs_of_point_sets())
def test_two_merged_skylines_are_the_skyline_of_both(pair):
    left, right = (points[skyline(points)] for points in pair)
    kept, added = merge_skylines(left, right)
    both = np.concatenate([left, right])
    np.testing.assert_array_equal(np.append(kept, added + len(left)), oracles.skyline(both))


@settings(max_examples=50, deadline=None)
@given(point_sets(max_rows=200), st.integers(1, 50))
def test_batch_after_batch_gives_the_skyline_of_all(points, size):
    ids = np.zeros(0, dtype=np.int64)
    for start in range(0, len(points), size):
        batch = np.arange(start, min(start + size, len(points)))
        best = batch[skyline(points[batch])]
        kept, added = merge_skylines(points[ids], points[best])
        ids = np.append(ids[kept], best[added])
    assert sorted(ids.tolist()) == oracles.skyline(points).tolist()
