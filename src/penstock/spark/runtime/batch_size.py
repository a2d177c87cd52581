"""How many rows a batch takes of a source that has more: as many as are worked off within some triggers.

A run that falls behind and takes all that waits has longer and longer batches. No policy sees or changes anything before
they end, and the first one after a rest of an hour holds an hour's rows. Where shorter batches cost throughput (much of a
batch is there whatever its rows are, or keys come more than once in long ones), they become longer again.
"""

from dataclasses import dataclass, replace
from math import inf

#: Rows of the first batch, of which nobody knows yet how long they take.
FIRST = 200_000
#: How long a batch may take: so many triggers, and no less than some seconds.
TRIGGERS, LEAST = 4, 2.0
#: Share of the rate of longer batches that shorter ones must reach.
KEPT = 0.9
#: A batch has at most so many times the rows of the one before while some are held back.
GROWTH = 4.0
#: Share of the rows that it may take from which on a batch counts as full: some of its rows may not be counted.
FULL = 0.9


@dataclass(frozen=True)
class BatchSize:
    """What the next batch may be.

    ``usual``: seconds that batches may take. ``seconds``: what the next one may, where that costs too much. ``rows``: most
    of its rows, infinite where none have to be held back. ``best``: rows a second of the batches so far. ``tried``: rows, and
    rows a second, of the batch after which more seconds were allowed.

    >>> size = BatchSize.of(trigger=0.5).after(rows=60_000, seconds=6.0)
    >>> size.rows, size.after(rows=20_000, seconds=1.6).rows, size.after(rows=5_000, seconds=0.5).rows
    (20000.0, 25000.0, inf)
    """

    usual: float
    seconds: float
    rows: float = FIRST
    best: float = 0.0
    tried: tuple[float, float] | None = None

    @classmethod
    def of(cls, trigger: float) -> "BatchSize":
        """That of the first batch."""
        usual = max(TRIGGERS * trigger, LEAST)
        return cls(usual, usual)

    def filled(self, rows: float) -> bool:
        """Whether a batch took all it could, so that more may wait."""
        return rows >= FULL * self.rows

    def after(self, rows: float, seconds: float) -> "BatchSize":
        """The size of the next batch, after one of so many rows and seconds; 0 rows: nobody knows how many."""
        if not rows or (not self.filled(rows) and seconds <= self.usual):
            return BatchSize(self.usual, self.usual, inf)
        rate = rows / max(seconds, 1e-3)
        judged = self._judged(rows, rate) if self.rows < inf else replace(self, best=rate)
        return replace(judged, rows=max(1.0, rows * min(judged.seconds / max(seconds, 1e-3), GROWTH)))

    def _judged(self, rows: float, rate: float) -> "BatchSize":
        """Longer batches where short ones are slow, unless a longer one was as slow: then it is the run that has become so."""
        if rate >= KEPT * self.best:
            needed = max(self.usual, rows / rate) if self.tried else inf
            return replace(self, seconds=min(self.seconds, needed), best=max(self.best, rate), tried=None)
        before, slow = self.tried or (rows, rate)
        longer, faster = rows >= 2 * before, KEPT * rate > slow
        if longer and not faster:
            return replace(self, seconds=self.usual, best=rate, tried=None)
        compared = (rows, rate) if longer or rows < before else (before, slow)
        return replace(self, seconds=2 * self.seconds, tried=compared)
