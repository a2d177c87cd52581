import numpy as np
import pytest

from penstock_lab import recorded_traces
from penstock_lab.recorded_traces import load

# Recorded data stays out of the repository; the generators are tested everywhere.
needs_data = pytest.mark.skipif(
    recorded_traces.folder() is None, reason="the real traces are not here (PENSTOCK_DATA)"
)


@needs_data
@pytest.mark.parametrize("name", recorded_traces.TRACES)
def test_real_traces_are_loads(name):
    made = load(name)
    assert np.all(np.diff(made.arrivals) >= 0)
    assert made.work is None or np.isclose(made.work.mean(), 1.0)
