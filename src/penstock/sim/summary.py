"""Figures of many single events: response times and arrivals."""

import numpy as np

from penstock.core.arrays import Floats
from penstock.core.observation import UNKNOWN, Latency


def latency_of(responses: Floats) -> Latency:
    """Mean and percentiles of response times; unknown where there are none.

    >>> latency_of(np.array([1.0, 2.0, 3.0])).p50
    2.0
    """
    if not len(responses):
        return UNKNOWN
    p50, p95, p99 = np.percentile(responses, [50.0, 95.0, 99.0])
    return Latency(float(responses.mean()), float(p50), float(p95), float(p99), float(responses.max()))


def scv_of(samples: Floats) -> float:
    """Squared coefficient of variation, not-a-number for fewer than two samples or a mean of zero."""
    if len(samples) < 2:
        return float("nan")
    mean = float(samples.mean())
    return float(samples.var()) / mean**2 if mean > 0 else float("nan")


def dispersion_of(arrivals: Floats, start: float, period: float, slots: int = 10) -> float:
    """Index of dispersion of the counts in ``slots`` equal parts of a period; not-a-number without arrivals."""
    if not len(arrivals) or period <= 0:
        return float("nan")
    counts, _ = np.histogram(arrivals, bins=slots, range=(start, start + period))
    mean = counts.mean()
    return float(counts.var() / mean) if mean > 0 else float("nan")
