"""How far a MAP is from a trace, statistic by statistic, and the score that ranks fits."""

from math import log

import numpy as np
from numpy.typing import NDArray

from penstock.models.fitted import FittedMap
from penstock.models.map import MAP
from penstock.models.map_m1 import map_m1_response
from penstock.models.trace_statistics import PROBE_LOADS, TraceStatistics

Floats = NDArray[np.float64]

#: Weight of each error in the score; the rest is a small price for each phase, so that the smaller of two equally
#: good models wins.
WEIGHTS = {"response": 1.0, "dispersion": 0.2, "autocorrelation": 0.2, "scv": 0.1}
PRICE_OF_A_PHASE = 0.005


def judged(process: MAP, stats: TraceStatistics, notes: tuple[str, ...] = ()) -> FittedMap:
    """The process at the measured rate, with its errors and its score.

    Errors of SCV, dispersion and response are mean absolute logarithms of model over measured; those of the
    autocorrelation are absolute, of skewness and bicovariance relative.
    """
    unit = process.scaled(1.0)
    every = slice(None, None, 3)
    growth, measured = interval_dispersion(unit, stats.spans[every]), stats.growth[every]
    third, wanted = joint_thirds(unit, stats.pairs[every]), stats.third_order[every]
    lags = np.unique(np.sqrt(stats.first * stats.last).astype(np.int64))
    covariance = np.interp(lags, np.sqrt(stats.first * stats.last), stats.covariance)
    errors = {
        "mean": 0.0,
        "scv": abs(log(max(unit.scv, 1e-12) / max(stats.scv, 1e-12))),
        "skewness": abs(unit.skewness - stats.skewness) / max(abs(stats.skewness), 1.0),
        "autocorrelation": float(
            np.mean(np.abs(unit.autocorrelation(lags) * unit.scv - covariance)) / max(stats.scv, 1e-12)
        ),
        "bicovariance": float(np.mean(np.abs(third - wanted)) / max(float(np.mean(np.abs(wanted))), 0.1)),
        "dispersion": float(np.mean(np.abs(np.log(np.maximum(growth, 1e-3) / np.maximum(measured, 1e-3))))),
        "response": response_error(unit.D0, unit.D1, unit.rate, stats),
    }
    score = PRICE_OF_A_PHASE * unit.order + sum(weight * errors[name] for name, weight in WEIGHTS.items())
    factor = 1.0 / (unit.mean * stats.mean)
    return FittedMap(unit.D0 * factor, unit.D1 * factor, exact=False, notes=notes, errors=errors, score=score)


def response_error(hidden: Floats, visible: Floats, rate: float, stats: TraceStatistics) -> float:
    """Mean |log ratio| of predicted and measured response of the probe queue."""
    return float(np.mean(response_errors(hidden, visible, rate, stats)))


def worst_response_error(process: MAP, stats: TraceStatistics) -> float:
    """The same as a quadratic mean, in which the load that is furthest off counts most."""
    return float(np.sqrt(np.mean(response_errors(process.D0, process.D1, process.rate, stats) ** 2)))


def response_errors(hidden: Floats, visible: Floats, rate: float, stats: TraceStatistics) -> Floats:
    """The |log ratio| at each load."""
    services = [load / rate for load in PROBE_LOADS]
    predicted = np.array([map_m1_response(hidden, visible, service) / service for service in services])
    # A response is no shorter than a service; rounding in an extreme candidate may say so.
    return np.asarray(np.abs(np.log(np.maximum(predicted, 1.0) / stats.probe)), dtype=np.float64)


def interval_dispersion(unit: MAP, spans: Floats) -> Floats:
    """Var(X_1 + .. + X_n) / n for each span n; the autocorrelation is read at log-spaced lags."""
    longest = max(int(spans.max()), 2)
    lags = np.unique(np.geomspace(1, longest, 60).astype(np.int64))
    every = np.arange(1, longest)
    values = np.interp(every, lags, unit.autocorrelation(lags))
    plain, weighted = np.cumsum(values), np.cumsum(every * values)
    last = np.maximum(spans.astype(np.int64) - 2, 0)
    return np.asarray(unit.scv * (1.0 + 2.0 * (plain[last] - weighted[last] / spans)), dtype=np.float64)


def joint_thirds(unit: MAP, pairs: Floats) -> Floats:
    """E[X_0 X_u X_{u+v}] at unit mean for each pair of lags."""
    values = []
    for u, v in pairs.astype(np.int64).tolist():
        covariances = unit.autocorrelation([u, v, u + v]) * unit.scv
        values.append(unit.bicovariance(u, v) + float(covariances.sum()) + 1.0)
    return np.array(values)
