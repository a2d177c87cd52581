"""Markovian arrival processes: arrivals driven by a hidden Markov chain, and everything known about them.

A chain with generator Q = D0 + D1 moves between phases; transitions in D1 are arrivals, those in D0 are hidden
(Neuts 1979; MEAD section IV-A). With theta Q = 0, M = (-D0)^-1, P = M D1 and phi = theta D1 / rate:

* E[X^k] = k! phi M^k 1,
* E[X_0 X_k] = phi M P^k M 1,
* index of dispersion of counts, limit: 1 + 2 (theta D1 (1 theta - Q)^-1 D1 1 / rate - rate).
"""

from __future__ import annotations

from functools import cached_property
from math import factorial, sqrt

import numpy as np
from numpy.typing import ArrayLike, NDArray

from penstock.core.errors import PenstockError
from penstock.models.chain import is_irreducible, stationary
from penstock.models.map_sampler import MapSampler
from penstock.models.matrix_exponential import expm

Matrix = NDArray[np.float64]


class MAP:
    """A Markovian arrival process given by its hidden and visible transition rates.

    >>> bursts = MAP([[-10.0, 0.0], [0.0, -1.0]], [[9.9, 0.1], [0.05, 0.95]])
    >>> round(bursts.rate, 6), round(bursts.scv, 4), round(bursts.dispersion, 3)
    (4.0, 4.6, 61.0)
    >>> round(bursts.scaled(rate=100.0).rate, 9)
    100.0
    """

    def __init__(self, D0: ArrayLike, D1: ArrayLike) -> None:
        self.D0, self.D1 = _checked(D0, D1)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(order={self.order}, rate={self.rate:.6g}, scv={self.scv:.4g}, dispersion={self.dispersion:.4g})"

    @property
    def order(self) -> int:
        """Number of phases."""
        return len(self.D0)

    @cached_property
    def generator(self) -> Matrix:
        """Q = D0 + D1."""
        return self.D0 + self.D1

    @cached_property
    def phase(self) -> Matrix:
        """Distribution of the phase at an arbitrary time (theta)."""
        theta: Matrix = stationary(self.generator)
        return theta

    @cached_property
    def phase_at_arrivals(self) -> Matrix:
        """Distribution of the phase just after an arrival (phi)."""
        flow: Matrix = self.phase @ self.D1
        phi: Matrix = flow / flow.sum()
        return phi

    @cached_property
    def _stay(self) -> Matrix:
        """M = (-D0)^-1: mean time spent in each phase until the next arrival."""
        return np.asarray(np.linalg.inv(-self.D0), dtype=np.float64)

    @cached_property
    def _jump(self) -> Matrix:
        """P = M D1: the phase from one arrival to the next."""
        return self._stay @ self.D1

    @cached_property
    def rate(self) -> float:
        """Arrivals per second."""
        return float((self.phase @ self.D1).sum())

    @cached_property
    def mean(self) -> float:
        """Mean inter-arrival time in seconds."""
        return 1.0 / self.rate

    def moment(self, k: int) -> float:
        """E[X^k] of the inter-arrival times."""
        if k < 0:
            raise PenstockError(f"Moments have an order of zero or more, not {k}.")
        vector = np.ones(self.order)
        for _ in range(k):
            vector = self._stay @ vector
        return factorial(k) * float(self.phase_at_arrivals @ vector)

    @cached_property
    def variance(self) -> float:
        """Variance of the inter-arrival times."""
        return self.moment(2) - self.mean**2

    @cached_property
    def scv(self) -> float:
        """Squared coefficient of variation of the inter-arrival times; 1 for Poisson."""
        return self.variance / self.mean**2

    @cached_property
    def skewness(self) -> float:
        """Third standardised moment of the inter-arrival times; 2 for Poisson."""
        third = self.moment(3) - 3 * self.mean * self.moment(2) + 2 * self.mean**3
        return float(third / self.variance**1.5)

    @cached_property
    def decay(self) -> float:
        """The largest eigenvalue below 1 of P, by size: autocorrelations fall like decay^lag in the end."""
        rest = np.linalg.eigvals(self._jump - np.outer(np.ones(self.order), self.phase_at_arrivals))
        return float(np.real(rest[np.argmax(np.abs(rest))]))

    def autocorrelation(self, lags: ArrayLike) -> Matrix:
        """Correlation of X_0 and X_k for each lag k.

        The limit 1 phi is taken off P first: rho_k = phi M (P - 1 phi)^k M 1 / variance loses no digits where the
        correlation is small.
        """
        steps = np.atleast_1d(np.asarray(lags, dtype=np.int64))
        if np.any(steps < 0):
            raise PenstockError("Lags of an autocorrelation are zero or more.")
        centred = self._jump - np.outer(np.ones(self.order), self.phase_at_arrivals)
        row = self.phase_at_arrivals @ self._stay
        column, done = self._stay.sum(axis=1), 0
        values = {0: self.variance}
        for lag in np.unique(steps[steps > 0]).tolist():
            column = np.linalg.matrix_power(centred, lag - done) @ column
            done = lag
            values[lag] = float(row @ column)
        return np.array([values[lag] for lag in steps.tolist()]) / self.variance

    def bicovariance(self, first: int, second: int) -> float:
        """E[(X_0 - m)(X_a - m)(X_{a+b} - m)] for the lags a, b of three arrivals in a row."""
        if first < 1 or second < 1:
            raise PenstockError("Lags of a bicovariance are one or more.")
        centred = self._jump - np.outer(np.ones(self.order), self.phase_at_arrivals)
        deviation = self._stay - self.mean * np.eye(self.order)
        column = np.linalg.matrix_power(centred, second) @ self._stay.sum(axis=1)
        column = np.linalg.matrix_power(centred, first) @ (deviation @ column)
        return float(self.phase_at_arrivals @ self._stay @ column)

    @cached_property
    def _deviation(self) -> Matrix:
        """Integral over s of (e^{Qs} - 1 theta): how far the chain remembers its phase."""
        limit = np.outer(np.ones(self.order), self.phase)
        # Any factor before the limit will do; the rate keeps the two terms of one size in every unit of time.
        return np.linalg.inv(self.rate * limit - self.generator) - limit / self.rate

    @cached_property
    def dispersion(self) -> float:
        """Limit of the index of dispersion of counts; 1 for Poisson, hundreds for heavy bursts."""
        flow, rates = self.phase @ self.D1, self.D1.sum(axis=1)
        return 1.0 + 2.0 * float(flow @ self._deviation @ rates) / self.rate

    def dispersion_at(self, t: ArrayLike) -> Matrix:
        """Variance over mean of the number of arrivals in t seconds, for each t.

        Var N(t) = rate t + 2 theta D1 W(t) D1 1, where W(t) = t D - D^2 (I - e^{Qt}) and D is the deviation
        matrix; for t below the size of D, where that cancels, W(t) is read off a block exponential instead.
        """
        times = np.atleast_1d(np.asarray(t, dtype=np.float64))
        if not np.all(times > 0.0):
            raise PenstockError("Time scales of a dispersion are above zero.")
        flow, rates = self.phase @ self.D1, self.D1.sum(axis=1)
        pairs = np.array([float(flow @ self._weight(s) @ rates) for s in times.tolist()])
        return 1.0 + 2.0 * pairs / (self.rate * times)

    def _weight(self, t: float) -> Matrix:
        n, unit = self.order, np.eye(self.order)
        if t >= float(np.abs(self._deviation).max()):
            decayed = unit - expm(self.generator * t)
            return t * self._deviation - self._deviation @ self._deviation @ decayed
        block = np.zeros((3 * n, 3 * n))
        block[:n, :n], block[:n, n : 2 * n], block[n : 2 * n, 2 * n :] = self.generator, unit, unit
        twice: Matrix = expm(block * t)[:n, 2 * n :]
        return twice - 0.5 * t * t * np.outer(np.ones(n), self.phase)

    def sampler(self, rng: np.random.Generator, phase: int | None = None) -> MapSampler:
        """An endless stream of inter-arrival times in blocks; bursts cross the block boundaries."""
        return MapSampler(self, rng, phase)

    def sample(self, n: int, rng: np.random.Generator) -> Matrix:
        """``n`` inter-arrival times, starting just after an arbitrary arrival."""
        return self.sampler(rng).take(n)

    def scaled(self, rate: float) -> MAP:
        """The same process in another unit of time, so that it has this rate."""
        if not (rate > 0.0 and np.isfinite(rate)):
            raise PenstockError(f"A rate of {rate} per second is impossible; give a number above zero.")
        factor = rate / self.rate
        return MAP(self.D0 * factor, self.D1 * factor)

    def superpose(self, other: MAP) -> MAP:
        """Both streams merged: D0 and D1 are the Kronecker sums of the two."""
        left, right = np.eye(self.order), np.eye(other.order)
        return MAP(
            np.kron(self.D0, right) + np.kron(left, other.D0),
            np.kron(self.D1, right) + np.kron(left, other.D1),
        )

    def thinned(self, keep: float) -> MAP:
        """Each arrival kept with this probability, independently: a filter, or one of several random routes."""
        if not 0.0 < keep <= 1.0:
            raise PenstockError(f"A stream is thinned to a share above 0 up to 1, not {keep}.")
        return self if keep == 1.0 else MAP(self.D0 + (1.0 - keep) * self.D1, keep * self.D1)

    @property
    def cv(self) -> float:
        """Coefficient of variation of the inter-arrival times."""
        return sqrt(max(self.scv, 0.0))


def _checked(D0: ArrayLike, D1: ArrayLike) -> tuple[Matrix, Matrix]:
    hidden, visible = np.array(D0, dtype=np.float64), np.array(D1, dtype=np.float64)
    if (
        hidden.ndim != 2
        or hidden.shape[0] != hidden.shape[1]
        or hidden.shape != visible.shape
        or not hidden.size
    ):
        raise PenstockError(
            f"D0 and D1 of a MAP are two square matrices of one size, not {hidden.shape} and {visible.shape}."
        )
    if not (np.isfinite(hidden).all() and np.isfinite(visible).all()):
        raise PenstockError("D0 and D1 of a MAP hold finite numbers only; remove the NaN or infinity.")
    off = hidden - np.diag(np.diag(hidden))
    scale = float(np.abs(hidden).max())
    if min(float(off.min()), float(visible.min())) < -1e-12 * scale:
        raise PenstockError("A MAP has no negative rates: only the diagonal of D0 may be below zero.")
    if float(np.abs(hidden.sum(axis=1) + visible.sum(axis=1)).max()) > 1e-7 * scale:
        raise PenstockError(
            "Each row of D0 + D1 of a MAP adds up to zero; set the diagonal of D0 to minus the other rates of its row."
        )
    off, visible = np.maximum(off, 0.0), np.maximum(visible, 0.0)
    hidden = off - np.diag(off.sum(axis=1) + visible.sum(axis=1))
    if not is_irreducible(hidden + visible):
        raise PenstockError(
            "This MAP is reducible: some phase cannot reach some other one; leave out the phases that are never seen again."
        )
    if not visible.any():
        raise PenstockError("This MAP has no arrivals at all; D1 needs at least one rate above zero.")
    hidden.flags.writeable = visible.flags.writeable = False
    return hidden, visible
