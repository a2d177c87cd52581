import numpy as np
import pytest

from penstock.core.errors import PenstockError
from penstock.models import Poisson, fit_map2
from penstock.models.online import OnlineFit, OnlineFitConfig


def test_steady_traffic_is_fitted_once_and_followed_in_its_rate() -> None:
    rng, online = np.random.default_rng(0), OnlineFit(OnlineFitConfig(buffer=5000))
    for step in range(6):
        online.add(Poisson(100.0 + 10 * step).sample(5000, rng))
        models = online.look(now=5.0 * step)
    assert online.fits == 1
    assert models[0].rate == pytest.approx(150.0, rel=0.05)


def test_a_change_of_character_is_fitted_anew() -> None:
    rng, online = np.random.default_rng(0), OnlineFit(OnlineFitConfig(buffer=5000, cpu_share=1.0))
    online.add(Poisson(100.0).sample(5000, rng))
    online.look(now=0.0)
    online.add(fit_map2(0.01, dispersion=100.0).sample(5000, rng))
    assert online.look(now=5.0)[0].scv > 2.0
    assert online.fits == 2


def test_fits_wait_until_they_are_affordable() -> None:
    ticks = iter(np.arange(0.0, 1e6, 10.0))  # each reading of the clock costs ten seconds
    rng, online = (
        np.random.default_rng(0),
        OnlineFit(OnlineFitConfig(buffer=2000), clock=lambda: float(next(ticks))),
    )
    online.add(Poisson(100.0).sample(2000, rng))
    online.look(now=0.0)
    online.add(fit_map2(0.01, dispersion=100.0).sample(2000, rng))
    online.look(now=5.0)
    assert online.fits == 1


def test_nothing_is_done_between_two_periods_or_on_too_little_data() -> None:
    online = OnlineFit()
    online.add([1.0, 2.0])
    assert online.look(now=0.0) == []
    online.add(np.ones(200))
    first = online.look(now=1.0)
    assert online.look(now=2.0) is first


def test_impossible_settings_are_refused() -> None:
    with pytest.raises(PenstockError):
        OnlineFitConfig(buffer=10)
    with pytest.raises(PenstockError):
        OnlineFitConfig(period=0.0)
