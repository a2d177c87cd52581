import numpy as np
import oracles
from hypothesis import given, settings
from strategies import point_sets

from penstock.preference.prefilter import survivors


@settings(max_examples=100, deadline=None)
@given(point_sets())
def test_only_dominated_rows_are_dropped(points):
    rows = np.empty(len(points), dtype=np.int64)
    kept = rows[: survivors(points, rows)]
    assert (np.diff(kept) > 0).all()
    assert np.isin(oracles.skyline(points), kept).all()


def test_most_rows_of_few_attributes_are_dropped():
    points = np.random.default_rng(0).random((50_000, 3))
    rows = np.empty(len(points), dtype=np.int64)
    assert survivors(points, rows) < 5_000


def test_rows_with_nan_survive_to_be_found():
    points = np.random.default_rng(0).random((5_000, 3)) + 1
    points[7] = 0.0
    points[4_000, 1] = np.nan
    rows = np.empty(len(points), dtype=np.int64)
    assert 4_000 in rows[: survivors(points, rows)]
