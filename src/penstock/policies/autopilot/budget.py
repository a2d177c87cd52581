"""How many rows were really late so far, and how many may be from now on."""

from dataclasses import dataclass
from itertools import pairwise
from math import exp, isfinite

from penstock.core.observation import Latency, Observation

#: Share of the rows that may be late which is really used.
USED = 0.8


@dataclass(frozen=True, slots=True)
class Budget:
    """Rows that got their result in the real run, and those of them that were late; what is long ago counts less.

    >>> budget = Budget(rows=1000.0, late=45.0)
    >>> round(budget.allowed(0.05), 3)  # nearly too many so far: fewer from now on
    0.03
    """

    rows: float = 0.0
    late: float = 0.0

    def after(self, observation: Observation, rows: float, target: float, memory: float) -> "Budget":
        """With what another observation tells of so many rows."""
        kept = exp(-observation.period / memory) if memory > 0 else 0.0
        late = rows * late_share(observation.latency, target)
        return Budget(kept * self.rows + rows, kept * self.late + late)

    def allowed(self, share: float) -> float:
        """The share that may be late from now on, so that half as many rows as so far bring all to four fifths of it.

        The fifth is for what no rehearsal has: executors that are on their way when the leader changes. Never more than
        the share itself: rows that were in time are no reason to be late now. A tenth of it at least.
        """
        own = self.late / self.rows if self.rows > 0 else 0.0
        return min(share, max(0.1 * share, 3 * USED * share - 2 * own))


def late_share(latency: Latency, target: float) -> float:
    """The share of rows beyond the target, between the percentiles that are known; by the mean alone all or none.

    >>> round(late_share(Latency(mean=3.0, p50=2.0, p95=6.0, p99=8.0, maximum=9.0), 4.0), 3)
    0.275
    """
    told = ((0.5, latency.p50), (0.95, latency.p95), (0.99, latency.p99), (1.0, latency.maximum))
    known = [(0.0, 0.0), *((share, value) for share, value in told if isfinite(value))]
    if len(known) == 1:
        return 1.0 if latency.mean > target else 0.0
    for (share, value), (above, more) in pairwise(known):
        if more > target:
            return 1.0 - (share + (above - share) * max(0.0, target - value) / (more - value))
    return 0.0
