"""Lateness of a stream: how far behind the newest event time seen each tuple comes."""

from dataclasses import dataclass

import numpy as np

from penstock.core.arrays import Floats


@dataclass(frozen=True)
class Lateness:
    """Share of tuples whose event time is behind one seen before, and by how many seconds, over all tuples."""

    share: float
    mean: float
    p50: float
    p99: float
    p999: float
    largest: float


def lateness(event_time: Floats) -> Lateness:
    """Measure event times given in order of arrival.

    >>> lateness(np.array([0.0, 2.0, 1.0, 3.0])).share
    0.25
    """
    behind = np.maximum.accumulate(event_time) - event_time
    p50, p99, p999 = np.percentile(behind, [50.0, 99.0, 99.9]).tolist()
    return Lateness(
        share=float(np.mean(behind > 0.0)),
        mean=float(behind.mean()),
        p50=p50,
        p99=p99,
        p999=p999,
        largest=float(behind.max()),
    )
