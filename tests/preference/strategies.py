"""Points that hurt: ties, duplicates, infinities, constant columns, heavy tails, one or many attributes."""

import numpy as np
from hypothesis import strategies as st

KINDS = ("uniform", "few values", "heavy tail", "plane", "infinite", "duplicates", "constant")


def points_of_kind(kind, rows, width, seed):
    rng = np.random.default_rng(seed)
    points = rng.random((rows, width))
    if kind == "few values":
        points = rng.integers(0, 3, (rows, width)).astype(float)
    elif kind == "heavy tail":
        points = np.exp(20 * rng.normal(size=(rows, width)))
    elif kind == "plane":
        points = rng.integers(0, 50, (rows, width)).astype(float)
        points[:, 0] = 1000.0 - points[:, 1:].sum(axis=1)
    elif kind == "infinite":
        points[rng.random(points.shape) < 0.1] = np.inf
        points[rng.random(points.shape) < 0.1] = -np.inf
        points[rng.random(points.shape) < 0.1] = 1e308
    elif kind == "duplicates":
        points = points[rng.integers(0, max(rows // 4, 1), rows)] if rows else points
    elif kind == "constant":
        points[:, : max(width // 2, 1)] = 1.0
    return points


@st.composite
def point_sets(draw, max_rows=300, max_width=18):
    """A set of points of some kind."""
    return points_of_kind(
        draw(st.sampled_from(KINDS)),
        draw(st.integers(0, max_rows)),
        draw(st.integers(1, max_width)),
        draw(st.integers(0, 2**32 - 1)),
    )


@st.composite
def pairs_of_point_sets(draw):
    """Two sets of points of the same width, of any kinds."""
    width, seed = draw(st.integers(1, 18)), draw(st.integers(0, 2**32 - 1))
    sets = [
        points_of_kind(draw(st.sampled_from(KINDS)), draw(st.integers(0, 300)), width, seed + i)
        for i in (0, 1)
    ]
    return sets[0], sets[1]
