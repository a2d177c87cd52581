import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.utilisation import utilisation


@given(st.integers(1, 8), st.floats(0.01, 1.0), st.floats(1e-4, 0.1))
def test_evenly_loaded_workers_have_the_plain_utilisation(workers, share, cost):
    rate = share / cost
    got = utilisation([rate] * workers, [rate] * workers, [share] * workers, 1.0)
    assert got == pytest.approx(share)


def test_an_overloaded_worker_lifts_the_factor_by_its_share_of_the_arrivals():
    # worker 0 gets 150 and manages 100, worker 1 gets 50 and is idle half of the time
    got = utilisation([150, 50], [100, 50], [1.0, 0.5], 1.0)
    assert got == pytest.approx(150**2 / (200 * 100) + 50**2 / (200 * 100))


def test_without_arrivals_the_factor_is_zero_and_without_work_unknown():
    assert utilisation([0, 0], [0, 0], [0, 0], 1.0) == 0
    assert utilisation([5], [0], [0], 1.0) != utilisation([5], [0], [0], 1.0)
