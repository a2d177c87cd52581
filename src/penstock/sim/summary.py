"""Figures of many single events: response times and arrivals."""

from collections.abc import Sequence

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
    p50, p95, p99 = percentiles(responses, (50.0, 95.0, 99.0))
    return Latency(float(responses.mean()), p50, p95, p99, float(responses.max()))


def percentiles(values: Floats, shares: Sequence[float]) -> list[float]:
    """What ``np.percentile`` gives for a few shares, without its fixed cost, which a simulated step would pay each time.

    >>> percentiles(np.array([1.0, 2.0, 4.0]), (50.0, 75.0))
    [2.0, 3.0]
    """
    last = len(values) - 1
    places = [min(max(0.01 * share * last, 0.0), last) for share in shares]
    wanted = sorted({at for place in places for at in (int(place), min(int(place) + 1, last))})
    parted = np.partition(values, wanted)
    found = []
    for place in places:
        low = int(place)
        below, above = float(parted[low]), float(parted[min(low + 1, last)])
        found.append(below + (above - below) * (place - low))
    return found


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
