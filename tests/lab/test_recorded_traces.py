import numpy as np
import pytest

from penstock_lab import recorded_traces
from penstock_lab.recorded_traces import load


@pytest.mark.parametrize("name", recorded_traces.TRACES)
def test_real_traces_are_loads(recorded, name):
    made = load(name)
    assert len(made.arrivals) >= 1500
    assert np.all(np.diff(made.arrivals) >= 0)
    assert made.work is None or np.isclose(made.work.mean(), 1.0)
