"""Exponential gaps whose mean takes a lognormal random walk: trends up and down (Elastic-PPQ section 5.3, RW-DS).

Every 3 to 5 seconds the mean gap g becomes g exp(sigma Z), kept between a shortest and a longest gap. The logarithm
of g is a Markov chain on an interval; its equilibrium p, found on a fine grid, gives the theory:

    rate = E[1/g],   SCV = 2 E[g] E[1/g] - 1,
    I = 1 + (E[L^2] var(r) + 2 E[L]^2 sum_k cov(r_0, r_k)) / (E[L] rate),   r = 1/g, L the time between changes.
"""

from dataclasses import dataclass
from functools import cached_property
from math import exp, log

import numpy as np
from scipy.special import ndtr

from penstock.core.arrays import Floats
from penstock.core.errors import PenstockError
from penstock.traffic.process import BLOCK, BlockProcess, State, Times, check_rate

_GRID = 300


@dataclass(frozen=True)
class RandomWalk(BlockProcess):
    """A random walk of the rate around a mean.

    ``spread`` is the longest mean gap over the shortest (300 / 16 microseconds in the papers), ``every`` the range
    of seconds between two changes.

    >>> walk = RandomWalk(10_000)
    >>> round(walk.rate), walk.scv > 1.0, walk.dispersion > 1000
    (10000, True, True)
    """

    mean_rate: float
    sigma: float = 0.4
    every: tuple[float, float] = (3.0, 5.0)
    spread: float = 300.0 / 16.0

    def __post_init__(self) -> None:
        check_rate(self.mean_rate)
        if not (self.sigma > 0.0 and np.isfinite(self.sigma)):
            raise PenstockError(f"A walk with sigma {self.sigma} is impossible; give a number above zero.")
        if not 0.0 < self.every[0] <= self.every[1] < np.inf:
            raise PenstockError(
                "The rate of a walk changes every so many seconds: two numbers above zero, the smaller first."
            )
        if not 1.0 < self.spread < np.inf:
            raise PenstockError(
                f"A walk with a spread of {self.spread:g} is impossible; give a number above 1."
            )

    @cached_property
    def _chain(self) -> tuple[Floats, Floats, Floats]:
        """Logarithms of the gap relative to the shortest, the moves between them, their equilibrium."""
        levels = np.linspace(0.0, log(self.spread), _GRID)
        edges = np.concatenate([[-np.inf], (levels[1:] + levels[:-1]) / 2.0, [np.inf]])
        moves = np.diff(ndtr((edges[None, :] - levels[:, None]) / self.sigma), axis=1)
        system = np.vstack([(moves.T - np.eye(_GRID))[:-1], np.ones(_GRID)])
        equilibrium = np.linalg.solve(system, np.append(np.zeros(_GRID - 1), 1.0))
        return levels, moves, equilibrium

    @cached_property
    def _shortest(self) -> float:
        """The shortest mean gap, such that the mean rate comes out."""
        levels, _, weights = self._chain
        return float(weights @ np.exp(-levels)) / self.mean_rate

    @property
    def rate(self) -> float:
        """Arrivals per second in the long run."""
        return self.mean_rate

    @property
    def scv(self) -> float:
        """Squared coefficient of variation (the few gaps that straddle a change are left out of account)."""
        levels, _, weights = self._chain
        return 2.0 * float(weights @ np.exp(levels)) * self._shortest * self.rate - 1.0

    @cached_property
    def dispersion(self) -> float:
        """Limit of the index of dispersion of counts."""
        levels, moves, weights = self._chain
        low, high = self.every
        mean_length, square = (low + high) / 2.0, (low * low + low * high + high * high) / 3.0
        rates = np.exp(-levels) / self._shortest - self.rate
        limit = np.outer(np.ones(_GRID), weights)
        later = np.linalg.solve(np.eye(_GRID) - moves + limit, moves @ rates)
        excess = square * float(weights @ rates**2) + 2.0 * mean_length**2 * float((weights * rates) @ later)
        return 1.0 + excess / (mean_length * self.rate)

    def start(self, rng: np.random.Generator) -> State:
        """A gap in equilibrium, somewhere between two changes."""
        levels, _, weights = self._chain
        level = float(rng.choice(levels, p=np.maximum(weights, 0.0) / np.maximum(weights, 0.0).sum()))
        return 0.0, level, float(rng.random() * rng.uniform(*self.every))

    def block(self, state: State, rng: np.random.Generator) -> tuple[Times, State]:
        """Arrivals up to the next change of the mean, or fewer if those are many."""
        clock, level, change = state
        gap = self._shortest * exp(level)
        end = min(change, clock + BLOCK * gap)
        n = int(rng.poisson((end - clock) / gap))
        times = clock + (end - clock) * np.sort(rng.random(n))
        if end >= change:
            level = float(np.clip(level + self.sigma * rng.standard_normal(), 0.0, log(self.spread)))
            change = end + float(rng.uniform(*self.every))
        return times, (end, level, change)
