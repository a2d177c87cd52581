"""Arrivals of a Markovian arrival process: Poisson, the papers' MAP(2) bursts, or any fitted MAP."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from penstock.core.errors import PenstockError
from penstock.models import MAP, Poisson, fit_map2
from penstock.traffic.process import BLOCK, BlockProcess, State, Times, check_rate


@dataclass(frozen=True)
class MapArrivals(BlockProcess):
    """The arrivals of a MAP; its theory and its sampler are those of :class:`penstock.models.MAP`.

    >>> bursts = map2(rate=10_000, dispersion=1000)
    >>> round(bursts.rate), round(bursts.dispersion), len(bursts.sample(seconds=1.0, seed=1)) > 0
    (10000, 1000, True)
    """

    model: MAP

    @cached_property
    def _unit(self) -> MAP:
        """The same process with one arrival per unit of time: dispersion has no unit, and loses no digits there."""
        return self.model.scaled(1.0)

    @property
    def rate(self) -> float:
        """Arrivals per second."""
        return self.model.rate

    @property
    def scv(self) -> float:
        """Squared coefficient of variation of the inter-arrival times."""
        return self.model.scv

    @property
    def dispersion(self) -> float:
        """Limit of the index of dispersion of counts."""
        return self._unit.dispersion

    def autocorrelation(self, lags: ArrayLike) -> Times:
        """Correlation of inter-arrival times so many arrivals apart."""
        return self.model.autocorrelation(lags)

    def dispersion_at(self, seconds: ArrayLike) -> Times:
        """Index of dispersion of counts in windows of these lengths."""
        return self._unit.dispersion_at(np.asarray(seconds, dtype=np.float64) * self.rate)

    def start(self, rng: np.random.Generator) -> State:
        """An arrival at an arbitrary phase just before time 0."""
        return 0.0, float(self.model.sampler(rng).phase)

    def block(self, state: State, rng: np.random.Generator) -> tuple[Times, State]:
        """A fixed number of arrivals; the phase after the last one is the state."""
        sampler = self.model.sampler(rng, int(state[1]))
        times = sampler.take(BLOCK)
        np.cumsum(times, out=times)
        times += state[0]
        return times, (float(times[-1]), float(sampler.phase))


def poisson(rate: float) -> MapArrivals:
    """Arrivals without memory."""
    check_rate(rate)
    return MapArrivals(Poisson(rate))


def map2(rate: float, dispersion: float) -> MapArrivals:
    """The burst generator of the papers: a fast and a slow phase, fitted to a rate and an index of dispersion.

    Elastic-PPQ section 5.2, PPQ section 4.3.2; here by a direct solve. A dispersion of 1 is Poisson.
    """
    check_rate(rate)
    if not 1.0 <= dispersion <= 1e6:
        raise PenstockError(
            f"An index of dispersion of {dispersion:g} is impossible for bursts; give a number from 1 (Poisson) to 1,000,000."
        )
    return MapArrivals(fit_map2(1.0 / rate, dispersion=dispersion))
