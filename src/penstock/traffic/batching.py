"""Whether a trace shows batches rather than arrivals: many rows with one time, as clocks that tick and pollers make them."""

from dataclasses import dataclass

import numpy as np

from penstock.core.arrays import Floats

#: Share of arrivals at the very time of the one before from which on a trace counts as batched.
ENOUGH = 0.2


@dataclass(frozen=True)
class Batching:
    """How a trace is batched: the share of arrivals that share their time, the median seconds between batches."""

    share: float
    period: float

    @property
    def blur(self) -> float:
        """Seconds below which counts tell of the batches, not of the stream."""
        return 10.0 * self.period


def batching(arrival: Floats) -> Batching | None:
    """The batches of a trace; None where arrivals have times of their own.

    >>> batching(np.repeat(np.arange(10.0), 5))
    Batching(share=0.8163265306122449, period=1.0)
    >>> batching(np.arange(50.0)) is None
    True
    """
    gaps = np.diff(arrival)
    together = gaps <= 0.0
    share = float(together.mean()) if gaps.size else 0.0
    if share < ENOUGH or bool(together.all()):
        return None
    return Batching(share, float(np.median(gaps[~together])))
