import pytest

from penstock.core.errors import PenstockError
from penstock.models import Erlang, Mg1, fit_map2
from penstock.models.mg1 import MM1
from penstock.models.phase_type import Exponential
from penstock.models.queue import TwoMoments


def test_pollaczek_khinchine_and_its_limits() -> None:
    assert Mg1(0.5, Exponential(1.0)).mean_wait == pytest.approx(1.0)
    assert Mg1(0.5, TwoMoments(1.0, 0.0)).mean_wait == pytest.approx(0.5)
    assert MM1(0.9, 1.0).mean_response == pytest.approx(10.0)


def test_only_the_rate_of_bursty_arrivals_is_seen() -> None:
    assert Mg1(fit_map2(1.0, dispersion=500.0), Erlang(2, 0.5)).mean_wait == pytest.approx(
        Mg1(1.0, Erlang(2, 0.5)).mean_wait
    )


def test_constant_service_has_percentiles_by_a_close_phase_type_law() -> None:
    queue = Mg1(0.5, TwoMoments(1.0, scv=0.0))
    assert queue.percentile(0.5) == pytest.approx(1.2, abs=0.1)
    assert queue.percentile(0.99) < MM1(0.5, 1.0).percentile(0.99)


def test_little_holds_and_overload_is_infinite() -> None:
    queue = MM1(0.5, 1.0)
    assert queue.mean_queue == pytest.approx(1.0)
    assert queue.mean_waiting == pytest.approx(0.5)
    assert MM1(2.0, 1.0).mean_queue == float("inf")
    assert MM1(2.0, 1.0).percentile(95) == float("inf")
    assert MM1(1.0, 1.0).variance == float("inf")


def test_impossible_times_are_refused() -> None:
    with pytest.raises(PenstockError):
        TwoMoments(0.0)
    with pytest.raises(PenstockError):
        TwoMoments(1.0, scv=-1.0)
    with pytest.raises(PenstockError):
        Mg1(-1.0, Exponential(1.0))
