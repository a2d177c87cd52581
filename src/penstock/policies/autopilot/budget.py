"""How many rows were really late so far, and how many may be from now on."""

from dataclasses import dataclass
from itertools import pairwise
from math import exp, isfinite

from penstock.core.observation import Latency

#: Share of the rows that may be late which is really used.
USED = 0.7
#: Rows to come that are thought of, over those so far.
AHEAD = 0.5
#: The most and the least that may be late from now on, over the share asked for.
MOST, LEAST = 1.5, 0.1


@dataclass(frozen=True, slots=True)
class Budget:
    """Rows that got their result in the real run, and those of them that were late; what is long ago counts less.

    >>> round(Budget(rows=1000.0, late=45.0).allowed(0.05), 3)  # nearly too many so far: fewer from now on
    0.015
    >>> round(Budget(rows=1000.0, late=1.0).allowed(0.05), 3)  # hardly any: more than the share, for a while
    0.075
    """

    rows: float = 0.0
    late: float = 0.0

    def after(self, rows: float, told: Latency, target: float, seconds: float, memory: float) -> "Budget":
        """With the response times of so many rows more, of so many seconds."""
        kept = exp(-seconds / memory) if memory > 0 else 0.0
        late = rows * late_share(told, target)
        return Budget(kept * self.rows + rows, kept * self.late + late)

    def allowed(self, share: float) -> float:
        """The share that may be late from now on: with half as many rows to come, all together use seven tenths of it.

            allowed = (USED share (1 + AHEAD) - own) / AHEAD,     within LEAST and MOST times the share

        ``own`` is the share that was late so far. The rest is for what no rehearsal has: executors that are on their way
        when the leader changes, and bursts that nobody has met yet. Where hardly any row was late so far, up to one and a half times the share may be: a number
        of executors that is a little too small is made good by the next larger one as soon as too many were late.
        """
        own = self.late / self.rows if self.rows > 0 else 0.0
        return min(MOST * share, max(LEAST * share, (USED * share * (1 + AHEAD) - own) / AHEAD))


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
