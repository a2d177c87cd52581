import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from penstock.sim.histogram import Histogram


@given(st.lists(st.floats(1e-6, 1e4), min_size=1, max_size=300), st.floats(1.0, 99.0))
def test_percentiles_are_within_a_bucket_of_the_exact_ones(values, share):
    h = Histogram()
    h.add(np.array(values[: len(values) // 2]))
    h.add(np.array(values[len(values) // 2 :]))
    exact = np.percentile(values, share, method="inverted_cdf")
    assert abs(h.percentile(share) / exact - 1) < 0.0201
    assert np.isclose(h.mean, np.mean(values))
