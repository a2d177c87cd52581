from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from strategies import point_sets

from penstock.preference import grid
from penstock.preference.grid import EMPTY, encode, fitted, gray_place, octant, padded


def coded(points):
    rows = np.arange(len(points))
    codes = np.zeros(len(points) * padded(points.shape[1]), dtype=np.uint8)
    nan = encode(points, rows, len(rows), fitted(points, rows, len(rows)), codes)
    return codes.reshape(len(points), -1), nan


@settings(max_examples=80, deadline=None)
@given(point_sets(max_rows=200))
def test_codes_are_never_out_of_order(points):
    if not len(points):
        return
    codes, nan = coded(points)
    assert not nan
    assert codes.max() < EMPTY
    for column in range(points.shape[1]):
        order = np.argsort(points[:, column], kind="stable")
        assert (np.diff(codes[order, column].astype(int)) >= 0).all()


def test_even_values_spread_over_most_codes():
    codes, _ = coded(np.random.default_rng(0).random((5000, 1)))
    assert len(np.unique(codes[:, 0])) > 200


def test_a_long_tail_does_not_crowd_all_rows_into_few_codes():
    codes, _ = coded(np.exp(3 * np.random.default_rng(0).normal(size=(5000, 1))))
    assert len(np.unique(codes[:, 0])) > 50


def test_nan_is_reported():
    assert coded(np.array([[1.0], [np.nan], [2.0]]))[1]


def test_octants_are_subsets_of_those_they_dominate():
    codes, _ = coded(np.random.default_rng(1).random((300, 5)))
    flat = codes.reshape(-1)
    bits = np.array([int(octant(flat, i * 8, 8)) for i in range(300)])
    beats = (codes[:, None] <= codes[None]).all(axis=2)
    assert ((bits[:, None] & ~bits[None, :])[beats] == 0).all()


def test_neighbours_in_the_gray_code_differ_in_one_attribute():
    order = sorted(range(256), key=lambda bits: int(gray_place(np.uint64(bits))))
    assert sorted(order) == list(range(256))
    assert all((a ^ b).bit_count() == 1 for a, b in pairwise(order))


def test_a_nan_has_a_place_in_the_table_like_any_other_value(monkeypatch):
    """Compiled code does not look where it writes, so this runs uncompiled: what became of a NaN was one past the end."""
    monkeypatch.setattr(grid, "_binned", grid._binned.py_func)
    points = np.random.default_rng(0).random((100, 3))
    points[7, 1] = np.nan
    lowest, scale, _ = fitted.py_func(points, np.arange(100), 100)
    assert np.isfinite(lowest).all()
    assert np.isfinite(scale).all()
