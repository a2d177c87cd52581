import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from penstock.preference import skyline
from penstock.sim.plants.query.bnl import Pool, insert_all, merged


def plain(points):
    """Each point against all that are kept, one comparison at a time."""
    window, made = [], []
    for p in points:
        made.append(len(window))
        if not any((q <= p).all() and (q < p).any() for q in window):
            window = [q for q in window if not ((p <= q).all() and (p < q).any())] + [p]
    return window, made


@settings(max_examples=60, deadline=None)
@given(
    arrays.arrays(
        np.float32,
        st.tuples(st.integers(1, 300), st.integers(1, 4)),
        elements=st.integers(0, 20).map(lambda v: v / 16),
    )
)
def test_survivors_and_comparisons_are_those_of_the_plain_algorithm(points):
    pool = Pool.of(1, len(points) + 1, points.shape[1])
    sizes, made = np.zeros(1, dtype=np.int64), np.zeros(len(points), dtype=np.int64)
    insert_all(*pool, sizes, np.zeros(len(points), dtype=np.int64), points, made)
    window, expected = plain(points)
    assert made.tolist() == expected
    assert np.array_equal(pool.rows[0, : sizes[0]], np.array(window))


def test_a_pool_that_grows_keeps_its_tuples():
    points = np.random.default_rng(2).random((500, 6)).astype(np.float32)
    pool, sizes = Pool.of(1, 640, 6), np.zeros(1, dtype=np.int64)
    slots, made = np.zeros(250, dtype=np.int64), np.zeros(250, dtype=np.int64)
    insert_all(*pool, sizes, slots, points[:250], made)
    pool, sizes = pool.copied(2, 1000, sizes), np.append(sizes, 0)
    insert_all(*pool, sizes, slots, points[250:], made)
    assert sizes.tolist() == [len(skyline(points)), 0]


def test_merging_parts_gives_the_skyline_of_all():
    points = np.random.default_rng(3).random((1500, 5))
    kept = np.empty((0, 5))
    for part in np.split(points, 5):
        kept, _ = merged(kept, part[skyline(part)])
    assert len(kept) == len(skyline(points))


def test_a_merge_compares_the_new_with_what_was_there():
    left, right = np.array([[1.0, 4.0], [4.0, 1.0]]), np.array([[2.0, 2.0], [3.0, 1.5], [0.5, 5.0]])
    assert merged(left, right)[1] == 2 * 3
    assert merged(np.empty((0, 2)), right)[1] == 0
