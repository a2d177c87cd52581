import numpy as np
import oracles
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import point_sets

from penstock.preference.grid import encode, fitted, padded
from penstock.preference.ordering import dominance_order, radix_order


@settings(max_examples=100, deadline=None)
@given(point_sets(max_rows=200, max_width=12))
def test_no_row_is_dominated_by_a_later_one_and_equals_are_neighbours(points):
    count = len(points)
    if not count:
        return
    rows = np.arange(count)
    codes = np.zeros(count * padded(points.shape[1]), dtype=np.uint8)
    encode(points, rows, count, fitted(points, rows, count), codes)
    order = dominance_order(points, rows, count, codes)
    assert sorted(order.tolist()) == rows.tolist()
    beats = oracles.dominance(points[order])
    assert not np.tril(beats).any()
    ordered = points[order]
    _, groups = np.unique(ordered, axis=0, return_inverse=True)
    assert (np.diff(groups) != 0).sum() + 1 == len(np.unique(groups))


@given(st.lists(st.integers(0, 2**40 - 1), max_size=200))
def test_the_radix_sort_is_stable(keys):
    order, ordered = radix_order(np.array(keys, dtype=np.uint64), 40)
    assert order.tolist() == sorted(range(len(keys)), key=lambda i: (keys[i], i))
    assert ordered.tolist() == sorted(keys)
