"""The contract suite that every forecaster must pass."""

import copy
import pickle
from collections.abc import Sequence
from math import isfinite, isnan, nan
from typing import Any

import numpy as np

from penstock.forecast.forecaster import Forecaster
from penstock.testing.equality import same


def check_forecaster(forecaster: Forecaster[Any]) -> None:
    """Raise AssertionError unless the forecaster keeps its contract.

    Nothing seen gives ``nan``; a constant series is forecast as that constant; any finite series gives finite
    forecasts; missing values are survived; a step changes neither the forecaster nor the state it was given;
    the same series gives the same forecasts, also when continued from a pickled state; and rates are never
    forecast below zero.
    """
    assert forecaster.name, "a forecaster has a name for tables"
    assert isnan(forecaster.predict(forecaster.start())), "before the first value the forecast is nan"
    constant = _feed(forecaster, [7.5] * 60)
    for steps in (1, 2, 10):
        assert abs(forecaster.predict(constant, steps) - 7.5) < 1e-6, "a constant is forecast as itself"
    rng = np.random.default_rng(5)
    for series in ([0.0] * 20, list(rng.exponential(100, 200)), [1e9, 0.0] * 30, list(range(100, 0, -1))):
        state = _feed(forecaster, [float(v) for v in series])
        forecasts = [forecaster.predict(state, steps) for steps in (1, 3, 20)]
        assert all(isfinite(f) and f >= 0 for f in forecasts), f"{forecaster.name}: {forecasts}"
    gaps = _feed(forecaster, [5.0, nan, nan, 5.0, nan, 5.0, 5.0, nan])
    assert isfinite(forecaster.predict(gaps)), "missing values are survived"
    _check_resumable(forecaster, [float(v) for v in rng.exponential(100, 100)])


def _feed(forecaster: Forecaster[Any], series: Sequence[float], state: Any = None) -> Any:
    state = forecaster.start() if state is None else state
    for value in series:
        kept, before = copy.deepcopy(state), copy.deepcopy(forecaster)
        after = forecaster.update(state, value)
        assert same(kept, state), f"{forecaster.name}: an update changed the state it was given"
        assert same(before, forecaster), f"{forecaster.name}: an update changed the forecaster"
        state = after
    return state


def _check_resumable(forecaster: Forecaster[Any], series: list[float]) -> None:
    whole = _feed(forecaster, series)
    half = pickle.loads(pickle.dumps(_feed(forecaster, series[:50])))
    assert same(_feed(forecaster, series[50:], half), whole), (
        f"{forecaster.name}: a pickled state went on otherwise"
    )
