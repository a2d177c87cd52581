"""Self-similar arrivals: Pareto counts per slot that remember the past (Elastic-PPQ section 5.2).

The number of arrivals in a slot (1 ms) is Pareto-distributed with shape a = 3 - 2H, cut off at a peak. The papers
draw the slots independently, which gives wild slots but a Hurst estimate of 0.5; here the slots are also tied
together by Gaussian noise z of Hurst parameter H, count = round(quantile(Phi(z))), so that the stream has the
Hurst parameter it is asked for. The memory decides in the long run: sums of n independent slots spread like
n^(1/a), those of dependent ones like n^H, and 1/(3 - 2H) < H for every H between 1/2 and 1.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import eval_hermitenorm, gammaln, ndtr, ndtri

from penstock.core.errors import PenstockError
from penstock.core.jit import jit
from penstock.traffic.memory import LongMemory, long_memory
from penstock.traffic.pareto import CutPareto
from penstock.traffic.process import BLOCK, BlockProcess, State, Times, check_rate

Floats = NDArray[np.float64]
_HERMITE_TERMS = 40
_QUADRATURE = 200_000


@dataclass(frozen=True)
class SelfSimilar(BlockProcess):
    """Pareto counts per slot with Hurst parameter ``hurst``.

    Parameters
    ----------
    mean_rate
        Arrivals per second.
    hurst
        0.5 (no memory) up to, not including, 1.
    slot
        Length of a slot in seconds.
    peak
        The most arrivals in a slot, in multiples of the mean: the line rate. Without one the variance is infinite.
    independent
        Draw the slots independently, as the papers do.

    >>> stream = SelfSimilar(20_000, hurst=0.8)
    >>> times = stream.sample(1.0, seed=3)
    >>> bool(np.all(np.diff(times) >= 0)), stream.dispersion
    (True, inf)
    """

    mean_rate: float
    hurst: float
    slot: float = 1e-3
    peak: float = 50.0
    independent: bool = False

    def __post_init__(self) -> None:
        hurst, slot, peak = self.hurst, self.slot, self.peak
        check_rate(self.mean_rate)
        if not 0.5 <= hurst < 1.0:
            raise PenstockError(
                f"A Hurst parameter of {hurst:g} is impossible here; give a number from 0.5 up to, not including, 1."
            )
        if not (slot > 0.0 and np.isfinite(slot)):
            raise PenstockError(f"A slot of {slot} seconds is impossible; give a number above zero.")
        if not (peak > 1.0 and np.isfinite(peak)):
            raise PenstockError(f"A peak of {peak:g} times the mean is impossible; give a number above 1.")

    @property
    def rate(self) -> float:
        """Arrivals per second."""
        return self.mean_rate

    @cached_property
    def _law(self) -> CutPareto:
        return CutPareto(3.0 - 2.0 * self.hurst, self.peak)

    @cached_property
    def _memory(self) -> LongMemory:
        return long_memory(0.5 if self.independent else self.hurst)

    @property
    def dispersion(self) -> float:
        """Infinite under long memory; otherwise variance over mean of a slot's count."""
        if self.hurst > 0.5 and not self.independent:
            return float("inf")
        return float(self.dispersion_at([self.slot])[0])

    @cached_property
    def _hermite(self) -> Floats:
        """Squared coefficients c_m^2 of the quantile in Hermite polynomials: cov(x_0, x_k) = sum_m c_m^2 r_k^m."""
        step = 1.0 / _QUADRATURE
        u = np.arange(0.5 * step, 1.0, step)
        z, x = ndtri(u), self._law.quantile(u)
        m = np.arange(1, _HERMITE_TERMS + 1)
        scale = np.exp(-0.5 * gammaln(m + 1.0))
        return np.array([(np.mean(x * eval_hermitenorm(int(k), z)) * s) ** 2 for k, s in zip(m, scale, strict=True)])

    @cached_property
    def _slot_variance(self) -> float:
        """Variance of one count: of the Pareto value, plus that of rounding x up with probability frac(x)."""
        mean = self.rate * self.slot
        u = np.arange(0.5 / _QUADRATURE, 1.0, 1.0 / _QUADRATURE)
        part = np.mod(mean * self._law.quantile(u), 1.0)
        return float(mean**2 * (self._law.moment(2) - 1.0) + np.mean(part * (1.0 - part)))

    def dispersion_at(self, seconds: ArrayLike) -> Times:
        """Index of dispersion of counts in windows of whole slots.

        Var N_n = n v + 2 sum_k (n - k) cov_k; the sum is exact to lag 1000 and an integral over log k beyond.
        """
        windows = np.atleast_1d(np.asarray(seconds, dtype=np.float64))
        return np.array([self._dispersion_of(max(1, round(float(s) / self.slot))) for s in windows])

    def _dispersion_of(self, n: int) -> float:
        mean = self.rate * self.slot
        near = np.arange(1.0, min(n, 1001))
        total = float(((n - near) * self._covariance(near)).sum())
        if n > 1001:
            far = np.geomspace(1000.5, n - 0.5, 2000)
            total += float(np.trapezoid((n - far) * self._covariance(far), far))
        return (n * self._slot_variance + 2.0 * mean**2 * total) / (n * mean)

    def _covariance(self, lags: Floats) -> Floats:
        r = self._memory.correlation(lags)
        powers = r[:, None] ** np.arange(1, _HERMITE_TERMS + 1)
        return np.asarray(powers @ self._hermite)

    def start(self, rng: np.random.Generator) -> State:
        """The memory in equilibrium."""
        return (0.0, *self._memory.start(rng).tolist())

    def block(self, state: State, rng: np.random.Generator) -> tuple[Times, State]:
        """A fixed number of slots."""
        mean = self.rate * self.slot
        n = int(np.clip(BLOCK / mean, 16, BLOCK))
        first = round(state[0] / self.slot)
        noise, parts = self._memory.take(n, np.array(state[1:]), rng)
        counts = mean * self._law.quantile(ndtr(noise)) + rng.random(n)
        times = np.empty(int(np.floor(counts).sum()))
        _spread(rng, counts, first, self.slot, times)
        return times, ((first + n) * self.slot, *parts.tolist())


@jit
def _spread(
    rng: np.random.Generator, counts: Floats, first: int, slot: float, times: Floats
) -> None:  # pragma: no cover - compiled
    """Place the arrivals of each slot uniformly, in order: partial sums of exponentials over their total."""
    at = 0
    for index in range(counts.size):
        n = int(counts[index])
        total = 0.0
        for i in range(n):
            total += rng.standard_exponential()
            times[at + i] = total
        total += rng.standard_exponential()
        begin, end = (first + index) * slot, (first + index + 1) * slot
        for i in range(n):
            times[at + i] = min(begin + slot * times[at + i] / total, end)
        at += n
