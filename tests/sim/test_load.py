import numpy as np
import pytest

from penstock.core.errors import PenstockError
from penstock.sim import load
from penstock.sim.load import GENERATORS
from penstock.traffic.trace import Trace, write_trace


@pytest.mark.parametrize("name", GENERATORS)
def test_generators_give_ascending_arrivals_that_depend_on_the_seed(name):
    one, same, other = load(name, 20.0, 1), load(name, 20.0, 1), load(name, 20.0, 2)
    assert np.all(np.diff(one.arrivals) >= 0)
    assert np.array_equal(one.arrivals, same.arrivals)
    assert not np.array_equal(one.arrivals[:50], other.arrivals[:50])
    assert one.arrivals[-1] <= 20.0


def test_a_trace_file_is_a_load(tmp_path):
    path = tmp_path / "t.csv"
    write_trace(path, Trace(np.array([0.0, 1.0, 2.0, 8.0])))
    assert load(str(path)).seconds == 8.0
    assert len(load(str(path), seconds=1.5).arrivals) == 2


def test_unknown_loads_and_parameters_are_named():
    with pytest.raises(PenstockError, match="nonsense"):
        load("nonsense")
    with pytest.raises(PenstockError, match="burst"):
        load("poisson:burst=3")
    with pytest.raises(PenstockError, match="no number"):
        load("poisson:rate=fast")
