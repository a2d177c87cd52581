"""Keys of tuples: Zipf or given frequencies, which may drift over time."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from penstock.core.arrays import Floats, Ints
from penstock.core.errors import PenstockError


def zipf_frequencies(keys: int, exponent: float) -> Floats:
    """Frequencies proportional to 1 / rank^exponent.

    >>> zipf_frequencies(3, 1.0).round(3).tolist()
    [0.545, 0.273, 0.182]
    """
    if not 1 <= keys <= 100_000_000:
        raise PenstockError(f"A stream with {keys} keys is impossible; give a number from 1 to 100,000,000.")
    if not (exponent >= 0.0 and np.isfinite(exponent)):
        raise PenstockError(f"A Zipf exponent of {exponent} is impossible; give a number of zero or more.")
    weights = np.arange(1, keys + 1, dtype=np.float64) ** -exponent
    return np.asarray(weights / weights.sum())


@dataclass(frozen=True, eq=False)
class Keys:
    """Keys 0, 1, 2, ... with given frequencies (they need not add up to 1).

    Parameters
    ----------
    frequencies
        How often each key comes, at time 0.
    towards
        How often it comes at time ``drift``; in between, frequencies move in straight lines.
    drift
        Seconds from ``frequencies`` to ``towards``. Without ``towards``: every so many seconds all keys change
        places by one, so that another key is the hottest.

    >>> moving = Keys(np.array([9.0, 1.0]), drift=10.0)
    >>> moving.frequencies_at(5.0).tolist(), moving.frequencies_at(15.0).tolist()
    ([0.9, 0.1], [0.1, 0.9])
    """

    frequencies: Floats
    towards: Floats | None = None
    drift: float | None = None

    def __post_init__(self) -> None:
        for weights in (self.frequencies, self.towards):
            if weights is not None and (
                weights.ndim != 1
                or not np.isfinite(weights).all()
                or np.any(weights < 0.0)
                or not weights.sum() > 0.0
            ):
                raise PenstockError(
                    "Key frequencies are numbers of zero or more, at least one of them above zero."
                )
        if self.towards is not None and (self.drift is None or self.towards.size != self.frequencies.size):
            raise PenstockError(
                "Frequencies to drift towards need as many keys, and the seconds it takes (drift)."
            )
        if self.drift is not None and not (self.drift > 0.0 and np.isfinite(self.drift)):
            raise PenstockError(f"A drift of {self.drift} seconds is impossible; give a number above zero.")

    @cached_property
    def _cumulated(self) -> tuple[Floats, Floats | None]:
        return _cumulate(self.frequencies), None if self.towards is None else _cumulate(self.towards)

    def frequencies_at(self, time: float) -> Floats:
        """The frequencies in force at one time; they add up to 1."""
        first: Floats = self.frequencies / self.frequencies.sum()
        if self.drift is None:
            return first
        if self.towards is None:
            return np.roll(first, int(time // self.drift) % first.size)
        share = min(max(time / self.drift, 0.0), 1.0)
        return np.asarray((1.0 - share) * first + share * self.towards / self.towards.sum())

    def draw(self, times: Floats, rng: np.random.Generator) -> Ints:
        """One key for each event time.

        Between two sets of frequencies, each tuple comes from the second with the share of the way gone: a mixture
        of two laws is the straight line between them, at no cost per key.
        """
        first, second = self._cumulated
        u = rng.random(times.size)
        keys = np.searchsorted(first, u, side="right").astype(np.int64)
        if second is not None and self.drift is not None:
            moved = rng.random(times.size) < times / self.drift
            keys = np.where(moved, np.searchsorted(second, u, side="right"), keys)
        elif self.drift is not None:
            keys = (keys + (times // self.drift).astype(np.int64)) % self.frequencies.size
        return keys


def zipf(keys: int, exponent: float = 1.0, drift: float | None = None) -> Keys:
    """Keys with Zipf frequencies; every ``drift`` seconds another key is the hottest."""
    return Keys(zipf_frequencies(keys, exponent), drift=drift)


def _cumulate(weights: Floats) -> Floats:
    total = np.cumsum(weights / weights.sum())
    return total[:-1]  # the last edge is 1 up to rounding, and no number drawn must fall beyond it
