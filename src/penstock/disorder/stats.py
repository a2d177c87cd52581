"""What a micro-batch says about disorder: one small value per input partition that merges exactly."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from penstock.core.arrays import Ints
from penstock.core.errors import PenstockError

#: Delays below this are counted exactly; above, each doubling has as many buckets: 3 % wide.
_FINE = 32

Histogram = tuple[tuple[int, float], ...]


@dataclass(frozen=True)
class BatchStats:
    """Event times of a batch, or of a part of it: counts, the largest time, delays against the running maximum.

    ``delays`` is a sparse histogram, pairs of (bucket, rows); merging two adds the counts, in any order.
    """

    rows: int = 0
    late: int = 0
    t_max: int | None = None
    max_delay: int = 0
    delays: Histogram = ()

    def merge(self, other: "BatchStats") -> "BatchStats":
        """Both together.

        >>> a, b = partition_stats([10, 7]), partition_stats([4, 9])
        >>> a.merge(b).t_max, a.merge(b).max_delay, a.merge(b) == b.merge(a)
        (10, 3, True)
        """
        times = [t for t in (self.t_max, other.t_max) if t is not None]
        return BatchStats(
            self.rows + other.rows,
            self.late + other.late,
            max(times) if times else None,
            max(self.max_delay, other.max_delay),
            add_histograms(self.delays, other.delays),
        )

    def to_json(self) -> dict[str, Any]:
        """Plain numbers."""
        return {**vars(self), "delays": [list(pair) for pair in self.delays]}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "BatchStats":
        """The value that ``to_json`` gave."""
        return cls(**{**value, "delays": tuple((int(b), int(n)) for b, n in value["delays"])})


def partition_stats(
    times_us: ArrayLike, seen: int | None = None, punctuation: int | None = None
) -> BatchStats:
    """Statistics of one input partition's rows in order of arrival.

    delay of a row = max(seen, times up to and with the row) - its time, where ``seen`` is the largest time of the
    stream before this batch; a row is late if its time is below ``punctuation``, the last one committed. Both are
    part of the committed state, so a replayed batch gives the same value.

    >>> partition_stats([5, 9, 6, 10, 2], punctuation=3)
    BatchStats(rows=5, late=1, t_max=10, max_delay=8, delays=((0, 3), (3, 1), (8, 1)))
    """
    times = np.ascontiguousarray(times_us, dtype=np.int64)
    if len(times) == 0:
        return BatchStats(t_max=None)
    highest = np.maximum.accumulate(times)
    if seen is not None:
        np.maximum(highest, seen, out=highest)
    delays = highest - times
    buckets, counts = np.unique(bucket_of(delays), return_counts=True)
    return BatchStats(
        rows=len(times),
        late=0 if punctuation is None else int(np.count_nonzero(times < punctuation)),
        t_max=int(times.max()),
        max_delay=int(delays.max()),
        delays=tuple(zip(buckets.tolist(), counts.tolist(), strict=True)),
    )


def bucket_of(delays_us: ArrayLike) -> Ints:
    """The histogram bucket of each delay: exact below 32, then 32 buckets a doubling.

    >>> bucket_of([0, 31, 32, 63, 64, 66]).tolist()
    [0, 31, 32, 63, 64, 65]
    """
    delays = np.asarray(delays_us, dtype=np.int64)
    # The exponent of a float64 is exact here: a delay of 2^53 us would be 285 years.
    shift = np.maximum(np.frexp(delays.astype(np.float64))[1] - 6, 0)
    buckets: Ints = (shift * _FINE + (delays >> shift)).astype(np.int64)
    return buckets


def largest_of(bucket: int) -> int:
    """The largest delay that falls into a bucket.

    >>> all(bucket_of([largest_of(b)])[0] == b and bucket_of([largest_of(b) + 1])[0] == b + 1 for b in range(999))
    True
    """
    shift = max(bucket // _FINE - 1, 0)
    return ((bucket - shift * _FINE + 1) << shift) - 1


def add_histograms(left: Histogram, right: Histogram, keep: float = 1.0) -> Histogram:
    """The sum of two histograms, the left one weighted by ``keep``; buckets of less than half a row are left out.

    Counts are no whole numbers then: rounded to these, a few rows would never fade.

    >>> add_histograms(((5, 4),), (), keep=0.9)
    ((5, 3.6),)
    """
    counts = {bucket: rows * keep if keep != 1.0 else rows for bucket, rows in left}
    for bucket, rows in right:
        counts[bucket] = counts.get(bucket, 0) + rows
    return tuple(sorted((bucket, round(rows, 3)) for bucket, rows in counts.items() if rows >= 0.5))


def quantile(delays: Histogram, share: float) -> int:
    """The smallest bucket bound that covers at least this share of the rows; 0 for no rows.

    >>> quantile(((0, 98), (10, 1), (20, 1)), 0.99)
    10
    """
    if not 0 <= share <= 1:
        raise PenstockError(f"A share of {share} is no share; choose one from 0 to 1.")
    total = sum(rows for _, rows in delays)
    covered = 0.0
    for bucket, rows in delays:
        covered += rows
        if covered >= share * total:
            return largest_of(bucket)
    return 0
