import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.errors import PenstockError
from penstock.forecast.forecaster import trajectory
from penstock.forecast.holt import Holt
from penstock.forecast.holt_winters import HoltWinters
from penstock.forecast.last_value import LastValue
from penstock.forecast.moving_average import MovingAverage
from penstock.testing.forecaster_suite import check_forecaster

ALL = [
    LastValue(),
    MovingAverage(),
    Holt(),
    Holt(phi=0.9),
    HoltWinters(),
    HoltWinters(season=8),
    HoltWinters(season=3, alpha=(0.5,), beta=(0.1,), gamma=(0.2,)),
]


def fed(forecaster, series):
    state = forecaster.start()
    for value in series:
        state = forecaster.update(state, float(value))
    return state


def misses(forecaster, series, burn):
    state, squares = forecaster.start(), []
    for i, value in enumerate(series):
        if i >= burn:
            squares.append((forecaster.predict(state) - value) ** 2)
        state = forecaster.update(state, float(value))
    return float(np.mean(squares))


@pytest.mark.parametrize("forecaster", ALL, ids=lambda f: f"{f.name}-{ALL.index(f)}")
def test_every_forecaster_keeps_the_contract(forecaster):
    check_forecaster(forecaster)


@pytest.mark.parametrize("forecaster", [Holt(), HoltWinters(phi=1.0)])
def test_a_straight_line_is_continued(forecaster):
    state = fed(forecaster, 3 + 2 * np.arange(200))
    assert trajectory(forecaster, state, 3) == pytest.approx((403, 405, 407), rel=1e-6)


def test_a_season_is_learned():
    shape = np.array([0, 5, 9, 5, 0, -5, -9, -5]) * 10.0
    series = 500 + np.tile(shape, 30)
    forecaster = HoltWinters(season=8)
    state = fed(forecaster, series)
    assert trajectory(forecaster, state, 8) == pytest.approx(tuple(500 + shape), abs=1e-6)


@given(st.lists(st.floats(0, 1e6), min_size=3, max_size=30), st.floats(0.05, 1), st.floats(0, 1))
def test_one_candidate_without_season_is_holt(series, alpha, beta):
    ours = HoltWinters(alpha=(alpha,), beta=(beta,), gamma=(0.1,), phi=0.95)
    plain = Holt(alpha, beta, 0.95)
    a, b = ours.predict(fed(ours, series), 2), plain.predict(fed(plain, series), 2)
    assert a == pytest.approx(b, rel=1e-9, abs=1e-6)


@given(st.lists(st.floats(0, 1e6), min_size=12, max_size=40))
def test_the_filter_is_the_textbook_recursion(series):
    alpha, beta, gamma, m = 0.3, 0.2, 0.4, 4
    level, trend = float(np.mean(series[:m])), 0.0
    season = [v - level for v in series[:m]]
    for t, value in enumerate(series[m:], start=m):
        before = level
        level = alpha * (value - season[t % m]) + (1 - alpha) * (level + trend)
        trend = beta * (level - before) + (1 - beta) * trend
        season[t % m] = gamma * (value - level) + (1 - gamma) * season[t % m]
    expected = max(0.0, level + 3 * trend + season[(len(series) + 2) % m])
    ours = HoltWinters(season=m, alpha=(alpha,), beta=(beta,), gamma=(gamma,), phi=1.0)
    assert ours.predict(fed(ours, series), 3) == pytest.approx(expected, rel=1e-6, abs=1e-3)


def test_tuning_is_close_to_the_best_candidate_on_a_random_walk_and_on_noise():
    rng = np.random.default_rng(7)
    walk = 10_000 + np.cumsum(rng.normal(0, 20, 600))
    noise = 1000 + rng.normal(0, 50, 600)
    for series in (walk, noise):
        tuned = misses(HoltWinters(beta=(0.0,)), series, 100)
        fixed = [misses(HoltWinters(alpha=(a,), beta=(0.0,)), series, 100) for a in (0.1, 0.3, 0.6, 0.9)]
        assert tuned <= 1.1 * min(fixed)
        assert tuned < 0.9 * max(fixed)


def test_tuning_follows_a_change_of_regime():
    rng = np.random.default_rng(8)
    calm = 10_000 + rng.normal(0, 50, 300)
    wild = 10_000 + np.cumsum(rng.normal(0, 40, 300))
    forecaster = HoltWinters(beta=(0.0,))
    assert forecaster.chosen(fed(forecaster, calm))[0] <= 0.3
    assert forecaster.chosen(fed(forecaster, np.concatenate([calm, wild])))[0] >= 0.6


def test_impossible_parameters_are_refused():
    with pytest.raises(PenstockError):
        MovingAverage(0)
    with pytest.raises(PenstockError):
        Holt(alpha=0)
    with pytest.raises(PenstockError):
        HoltWinters(season=1)
    with pytest.raises(PenstockError):
        HoltWinters(alpha=())
