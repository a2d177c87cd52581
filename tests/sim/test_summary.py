"""Percentiles are those of numpy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.sim.summary import percentiles

SHARES = (0.0, 50.0, 95.0, 99.0, 100.0)


@given(st.lists(st.floats(0.0, 1e6), min_size=1, max_size=300))
def test_they_are_those_of_numpy(values):
    assert percentiles(np.array(values), SHARES) == pytest.approx(
        list(np.percentile(values, SHARES)), rel=1e-9, abs=1e-12
    )
