"""What a fit looks at: moments, autocorrelation, bicovariances and a probe queue of measured inter-arrival times."""

from dataclasses import dataclass
from math import ceil

import numpy as np
import scipy.fft
from numpy.typing import ArrayLike, NDArray

from penstock.core.errors import PenstockError
from penstock.core.jit import jit
from penstock.models.lindley import simulate_queue

Floats = NDArray[np.float64]

#: Below this, third moments and correlations are noise.
MIN_GAPS = 100
#: Loads at which the probe queue (exponential service) is run.
PROBE_LOADS = (0.4, 0.6, 0.8, 0.9)
_PROBE_RUNS = 4
_BICOVARIANCE_LAGS = 5


@dataclass(frozen=True)
class TraceStatistics:
    """Figures of a trace in units of its mean gap.

    ``covariance[b]`` is the mean of E[X_0 X_k] - 1 over the lags ``first[b]`` to ``last[b]``; the bins grow
    geometrically, which averages the noise of long lags away. ``third_order[i]`` is E[X_0 X_u X_{u+v}] for the i-th
    pair of ``pairs``; ``growth[i]`` is the index of dispersion for intervals, Var(X_1 + .. + X_n) / n, over
    n = ``spans[i]`` arrivals, and ``weights`` is how it adds up from the bins: SCV + 2 weights @ covariance;
    ``probe`` is the mean response of a queue with exponential service at the ``PROBE_LOADS``, in service times.
    """

    count: int
    mean: float
    scv: float
    skewness: float
    first: Floats
    last: Floats
    covariance: Floats
    pairs: Floats
    third_order: Floats
    spans: Floats
    weights: Floats
    growth: Floats
    probe: Floats

    @property
    def reduced_third(self) -> float:
        """r3 = E[X^3] / 6 at unit mean."""
        return float(self.skewness * self.scv**1.5 + 3.0 * self.scv + 1.0) / 6.0


def clean_gaps(gaps: ArrayLike, at_least: int = MIN_GAPS) -> Floats:
    """Inter-arrival times that can be worked with: finite, enough of them, none below zero.

    Gaps of zero are ties of a coarse clock and stay. A negative gap is a clock that stepped back: time stands still
    until the clock has caught up, so that the total stays right.

    >>> clean_gaps([1.0, 2.0, -1.0, 3.0], at_least=2).tolist()
    [1.0, 2.0, 0.0, 2.0]
    """
    values = np.asarray(gaps, dtype=np.float64)
    if values.ndim != 1 or not np.isfinite(values).all():
        raise PenstockError("Inter-arrival times are one row of finite numbers; remove the NaN or infinity.")
    if values.size < at_least:
        raise PenstockError(
            f"A fit needs at least {at_least} inter-arrival times and this trace has {values.size}; record a longer one."
        )
    if values.min() < 0.0:
        values = np.diff(np.maximum.accumulate(np.concatenate([[0.0], np.cumsum(values)])))
    if not values.sum() > 0.0:
        raise PenstockError(
            "All inter-arrival times are zero, so there is no rate to fit; use a finer clock."
        )
    return np.ascontiguousarray(values)


def trace_statistics(gaps: Floats, seed: int = 0) -> TraceStatistics:
    """All figures of a trace; ``seed`` draws the service times of the probe queue."""
    mean = float(gaps.mean())
    x = gaps / mean
    deviation = x - 1.0
    scv = float(np.mean(deviation**2))
    skewness = float(np.mean(deviation**3)) / scv**1.5 if scv > 0.0 else 0.0
    covariances = _covariances(deviation, max(x.size // 10, 10))
    first, last = _log_bins(covariances.size - 1)
    sums = np.concatenate([[0.0], np.cumsum(covariances[1:])])
    binned = (sums[last] - sums[first - 1]) / (last - first + 1)
    spans = np.unique(np.geomspace(2, covariances.size - 1, 12).astype(np.int64))
    weights = _span_weights(first, last, spans)
    pairs = _lag_pairs(x.size)
    return TraceStatistics(
        count=x.size, mean=mean, scv=scv, skewness=skewness,
        first=first.astype(np.float64), last=last.astype(np.float64), covariance=binned,
        pairs=pairs.astype(np.float64), third_order=_third_order(x, pairs),
        spans=spans.astype(np.float64), weights=weights, growth=scv + 2.0 * weights @ binned,
        probe=probe_queue(x, seed),
    )  # fmt: skip


def _covariances(deviation: Floats, lags: int) -> Floats:
    """Covariances at lags 0 to ``lags`` by one Fourier transform."""
    n = deviation.size
    spectrum = scipy.fft.rfft(deviation, scipy.fft.next_fast_len(n + lags + 1))
    products = scipy.fft.irfft(np.abs(spectrum) ** 2, scipy.fft.next_fast_len(n + lags + 1))
    return np.asarray(products[: lags + 1] / (n - np.arange(lags + 1)), dtype=np.float64)


def _log_bins(longest: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    edges = np.unique(np.geomspace(1, longest + 1, 48).astype(np.int64))
    return edges[:-1], edges[1:] - 1


def _lag_pairs(n: int) -> NDArray[np.int64]:
    lags = np.unique(np.geomspace(1, max(ceil(n / 100), 2), _BICOVARIANCE_LAGS).astype(np.int64))
    return np.array([(u, v) for u in lags for v in lags], dtype=np.int64)


@jit
def _third_order(x: Floats, pairs: NDArray[np.int64]) -> Floats:  # pragma: no cover - compiled
    """E[X_0 X_u X_{u+v}] at each pair of lags."""
    values = np.empty(pairs.shape[0])
    for i in range(pairs.shape[0]):
        u, v = pairs[i, 0], pairs[i, 1]
        total, count = 0.0, x.size - u - v
        for k in range(count):
            total += x[k] * x[k + u] * x[k + u + v]
        values[i] = total / count
    return values


def _span_weights(first: NDArray[np.int64], last: NDArray[np.int64], spans: NDArray[np.int64]) -> Floats:
    """Sum over the lags k < n of a bin of (1 - k/n), for each span n."""
    n, low = spans[:, None], np.minimum(first, spans[:, None])
    high = np.minimum(last, n - 1)
    count = np.maximum(high - low + 1, 0)
    return np.asarray(count * (1.0 - (low + high) / (2.0 * n)), dtype=np.float64)


def probe_queue(x: Floats, seed: int = 0) -> Floats:
    """Mean response, in service times, of the trace through a queue with exponential service at each probe load."""
    rng = np.random.default_rng(seed)
    totals = np.zeros(len(PROBE_LOADS))
    for _ in range(_PROBE_RUNS):
        service = rng.standard_exponential(x.size)
        for i, load in enumerate(PROBE_LOADS):
            totals[i] += simulate_queue(x, service * load).mean() / load
    return totals / _PROBE_RUNS
