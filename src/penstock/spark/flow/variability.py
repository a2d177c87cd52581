"""How uneven arrivals and costs of a pipeline are, from the batches seen lately.

Both are read off the differences between batches, of n tuples at a mean cost of s each:

    arrivals   sum (n - rate gap)^2 / sum (rate gap)     dispersion of counts; 1 for Poisson arrivals
    service    sum n (s - mean)^2 / (sum n) / mean^2     0 where all batches cost the same a tuple

Costs that differ inside of a batch only do not show, and need not: a batch averages them, and nobody waits longer for them.
"""

from collections import deque
from dataclasses import dataclass, field
from math import nan

import numpy as np

#: Batches that are looked at, and how many it takes to say something.
MEMORY, ENOUGH = 60, 8


@dataclass
class Variability:
    """The last batches of one pipeline: tuples, seconds in which they came, CPU seconds."""

    seen: deque[tuple[float, float, float]] = field(default_factory=lambda: deque(maxlen=MEMORY))

    def add(self, tuples: float, gap: float, cpu: float) -> None:
        """One batch more."""
        if gap > 0:
            self.seen.append((tuples, gap, cpu))

    @property
    def arrival_scv(self) -> float:
        """Squared coefficient of variation of the gaps, as counts of batches tell it.

        >>> even = Variability()
        >>> for _ in range(10):
        ...     even.add(100.0, 1.0, 0.1)
        >>> even.arrival_scv, even.service_scv
        (0.0, 0.0)
        """
        if len(self.seen) < ENOUGH:
            return nan
        tuples, gaps, _ = np.array(self.seen).T
        expected = gaps * tuples.sum() / gaps.sum()
        return float(((tuples - expected) ** 2).sum() / expected.sum()) if expected.sum() > 0 else nan

    @property
    def service_scv(self) -> float:
        """Squared coefficient of variation of a tuple's cost, from batch to batch."""
        busy = [(n, cpu) for n, _, cpu in self.seen if n > 0]
        if len(busy) < ENOUGH:
            return nan
        tuples, cpu = np.array(busy).T
        mean = cpu.sum() / tuples.sum()
        if mean <= 0:
            return nan
        return float((tuples * (cpu / tuples - mean) ** 2).sum() / tuples.sum() / mean**2)
