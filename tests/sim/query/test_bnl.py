import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from penstock.preference import skyline
from penstock.sim.query.bnl import insert_all, merge_into


def plain(points):
    """Block nested loop, one comparison at a time."""
    window, made = [], []
    for p in points:
        count, dominated = 0, False
        for q in window:
            count += 1
            if (q <= p).all() and (q < p).any():
                dominated = True
                break
        if not dominated:
            window = [q for q in window if not ((p <= q).all() and (p < q).any())] + [p]
        made.append(count)
    return window, made


@settings(max_examples=60, deadline=None)
@given(
    arrays.arrays(
        np.float32, st.tuples(st.integers(1, 300), st.integers(1, 4)), elements=st.integers(0, 20).map(float)
    )
)
def test_survivors_and_comparisons_are_those_of_the_plain_algorithm(points):
    pool = np.empty((1, points.shape[1], 448), dtype=np.float32)
    sizes, made = np.zeros(1, dtype=np.int64), np.zeros(len(points), dtype=np.int64)
    insert_all(pool, sizes, np.zeros(len(points), dtype=np.int64), points, made)
    window, expected = plain(points)
    assert made.tolist() == expected
    assert np.array_equal(pool[0, :, : sizes[0]].T, np.array(window))


def test_merging_parts_gives_the_skyline_of_all():
    points = np.random.default_rng(3).random((1500, 5)).astype(np.float32)
    columns, size = np.empty((5, 2048), dtype=np.float32), 0
    for part in np.split(points, 5):
        size, _ = merge_into(columns, size, np.ascontiguousarray(part[skyline(part)].T))
    assert size == len(skyline(points))
