"""Disorder: each tuple is delayed, and the stream is delivered in order of the delayed times.

All delays have a bound: whoever goes on in the middle of a stream needs to look back no further than that.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from penstock.core.arrays import Floats
from penstock.core.errors import PenstockError, unknown
from penstock.traffic.pareto import CutPareto
from penstock.traffic.seeds import Seeds


class DelayModel(Protocol):
    """A law of delays."""

    @property
    def longest(self) -> float:
        """No delay reaches this many seconds."""

    def delays(self, times: Floats, seeds: Seeds, slot: int) -> Floats:
        """The delay of each event of one slot of the stream."""


@dataclass(frozen=True)
class UniformDelay:
    """Uniform on [0, 2 mean), as in the papers.

    >>> UniformDelay(0.2).longest
    0.4
    """

    mean: float

    def __post_init__(self) -> None:
        _check_mean(self.mean)

    @property
    def longest(self) -> float:
        """Twice the mean."""
        return 2.0 * self.mean

    def delays(self, times: Floats, seeds: Seeds, slot: int) -> Floats:
        """Independent delays."""
        return 2.0 * self.mean * seeds.rng(slot).random(times.size)


@dataclass(frozen=True)
class HeavyDelay:
    """Most tuples hardly late, a few very late: Pareto of the given shape, cut at ``most`` times the mean.

    The smallest value of the Pareto law is taken off, so that delays start at 0.
    """

    mean: float
    shape: float = 1.5
    most: float = 100.0

    def __post_init__(self) -> None:
        _check_mean(self.mean)
        if not (self.shape > 1.0 and np.isfinite(self.shape) and self.most > 1.0 and np.isfinite(self.most)):
            raise PenstockError(
                "Heavy-tailed delays need a shape above 1 and a longest delay above the mean."
            )

    @cached_property
    def _law(self) -> tuple[CutPareto, float]:
        law = CutPareto(self.shape, self.most)
        return law, self.mean / (1.0 - law.least)

    @property
    def longest(self) -> float:
        """The cut, in seconds."""
        law, scale = self._law
        return scale * (self.most - law.least)

    def delays(self, times: Floats, seeds: Seeds, slot: int) -> Floats:
        """Independent delays."""
        law, scale = self._law
        return np.asarray(scale * (law.quantile(seeds.rng(slot).random(times.size)) - law.least))


@dataclass(frozen=True)
class BurstyDelay:
    """Delays that come in clusters: the network stops now and then and delivers what it held back (PPQ 6.1).

    Time is cut into epochs of ``10 w`` seconds; each has one outage at a random place, its length uniform on
    [w/2, 3w/2). What happens in an outage is delivered at its end; every tuple has a small uniform delay besides,
    of a quarter of the mean. An outage of length l costs l/2 on average to a share l / (10 w) of the tuples, so
    that w = 0.75 mean / (13/240) gives the mean. The longest delay is some 21 means (20 in the stream Game8).
    """

    mean: float

    def __post_init__(self) -> None:
        _check_mean(self.mean)

    @property
    def outage(self) -> float:
        """Mean length of an outage, w."""
        return 0.75 * self.mean * 240.0 / 13.0

    @property
    def epoch(self) -> float:
        """One outage in so many seconds."""
        return 10.0 * self.outage

    @property
    def longest(self) -> float:
        """The longest outage and the longest small delay."""
        return 1.5 * self.outage + 0.5 * self.mean

    def delays(self, times: Floats, seeds: Seeds, slot: int) -> Floats:
        """Small delays, plus the rest of the outage for those caught in one."""
        small = 0.5 * self.mean * seeds.rng(slot).random(times.size)
        epochs = np.floor(times / self.epoch).astype(np.int64)
        for number in np.unique(epochs):
            begin, end = self.outage_in(int(number), seeds)
            caught = (epochs == number) & (times >= begin) & (times < end)
            small[caught] += end - times[caught]
        return small

    def outage_in(self, epoch: int, seeds: Seeds) -> tuple[float, float]:
        """Begin and end of the outage of an epoch; it lies within the epoch."""
        place, length = seeds.child(0).rng(epoch).random(2)
        lasts = self.outage * (0.5 + length)
        begin = epoch * self.epoch + place * (self.epoch - lasts)
        return begin, begin + lasts


def disorder(kind: str, mean: float) -> DelayModel | None:
    """The law for a word; none for a mean of 0."""
    kinds = {"uniform": UniformDelay, "heavy": HeavyDelay, "bursty": BurstyDelay}
    if kind not in kinds:
        raise unknown("kind of delay", kind, kinds)
    if mean == 0.0:
        return None
    law: DelayModel = kinds[kind](mean)
    return law


def _check_mean(mean: float) -> None:
    if not (mean > 0.0 and np.isfinite(mean)):
        raise PenstockError(f"A mean delay of {mean} seconds is impossible; give a number above zero.")
