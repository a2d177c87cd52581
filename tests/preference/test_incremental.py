import numpy as np
import oracles
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import pairs_of_point_sets, point_sets

from penstock.preference import skyline
from penstock.preference.incremental import add_batch, merge_skylines


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
        kept, added = add_batch(points[ids], points[batch])
        ids = np.append(ids[kept], batch[added])
    assert sorted(ids.tolist()) == oracles.skyline(points).tolist()
