import pytest

from penstock.core.errors import PenstockError
from penstock.models import Kingman
from penstock.models.phase_type import Exponential
from penstock.models.queue import TwoMoments


def test_it_is_exact_for_poisson_arrivals() -> None:
    assert Kingman(0.8, Exponential(1.0)).mean_response == pytest.approx(5.0)


def test_it_grows_with_the_variability_of_both_sides() -> None:
    calm = Kingman(TwoMoments(1.0, 0.0), TwoMoments(0.5, 0.0))
    wild = Kingman(TwoMoments(1.0, 9.0), TwoMoments(0.5, 1.0))
    assert (calm.mean_wait, wild.mean_wait) == pytest.approx((0.0, 2.5))


def test_it_says_that_it_knows_means_only() -> None:
    queue = Kingman(0.5, Exponential(1.0))
    assert "mean only" in queue.method
    with pytest.raises(PenstockError, match="means only"):
        queue.percentile(95)
    with pytest.raises(PenstockError, match="means only"):
        queue.variance
    assert Kingman(1.0, Exponential(1.0)).percentile(95) == float("inf")
