"""All response times of a run in a few thousand counters: exact mean and maximum, percentiles to within one percent."""

import numpy as np

from penstock.core.arrays import Floats

_SHORTEST, _WIDTH, _BUCKETS = 1e-7, np.log(1.02), 1500


class Histogram:
    """Counts in buckets that are each 2 % wider than the one before, from 0.1 microseconds to days.

    >>> h = Histogram()
    >>> h.add(np.array([1.0, 2.0, 4.0]))
    >>> h.count, round(h.mean, 3), h.maximum, abs(h.percentile(50) / 2.0 - 1) < 0.011
    (3, 2.333, 4.0, True)
    """

    def __init__(self) -> None:
        self._counts = np.zeros(_BUCKETS, dtype=np.int64)
        self.count, self._sum, self.maximum = 0, 0.0, 0.0

    def add(self, values: Floats) -> None:
        """Take response times in."""
        if not len(values):
            return
        bucket = np.log(np.maximum(values, _SHORTEST) / _SHORTEST) / _WIDTH
        self._counts += np.bincount(np.minimum(bucket.astype(np.int64), _BUCKETS - 1), minlength=_BUCKETS)
        self.count += len(values)
        self._sum += float(values.sum())
        self.maximum = max(self.maximum, float(values.max()))

    @property
    def mean(self) -> float:
        """The mean; not-a-number before anything was added."""
        return self._sum / self.count if self.count else float("nan")

    def percentile(self, share: float) -> float:
        """The middle of the bucket in which this percentile lies."""
        if not self.count:
            return float("nan")
        rank = np.searchsorted(np.cumsum(self._counts), self.count * share / 100.0)
        return min(float(_SHORTEST * np.exp((rank + 0.5) * _WIDTH)), self.maximum)

    def above(self, value: float) -> float:
        """How many are above a value; within the bucket that holds it, in proportion.

        >>> h = Histogram()
        >>> h.add(np.array([1.0, 2.0, 4.0]))
        >>> h.above(3.0)
        1.0
        """
        if value <= _SHORTEST or value >= self.maximum:
            return float(self.count) if value <= _SHORTEST else 0.0
        place = np.log(value / _SHORTEST) / _WIDTH
        bucket = min(int(place), _BUCKETS - 1)
        return float(self._counts[bucket + 1 :].sum() + self._counts[bucket] * (bucket + 1 - place))

    def since(self, before: "Histogram") -> "Histogram":
        """What was added after a copy was made; the maximum stays that of the whole."""
        rest = Histogram()
        rest._counts = self._counts - before._counts
        rest.count, rest._sum, rest.maximum = self.count - before.count, self._sum - before._sum, self.maximum
        return rest

    def copied(self) -> "Histogram":
        """One that does not change when this one does."""
        return self.since(Histogram())
