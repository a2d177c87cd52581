"""Self-similar arrivals: Pareto counts per slot that remember the past (Elastic-PPQ section 5.2).

The number of arrivals in a slot (1 ms) is Pareto-distributed with shape a = 3 - 2H, cut off at a peak. The papers
draw the slots independently, which gives wild slots but a Hurst estimate of 0.5; here the slots are also tied
together: count = round(quantile(Phi(z))), z standard normal noise whose correlations are chosen so that those of the
counts are the ones of fractional noise, r_k ~ H (2H-1) k^(2H-2). The counts then have the Hurst parameter they are
asked for at every scale, I(n slots) = I(slot) n^(2H-1).

The link between the two correlations is Mehler's: with c_m the coefficients of the quantile in normalised Hermite
polynomials, cov(x_0, x_k) = sum_m c_m^2 corr(z_0, z_k)^m, a rising function that is inverted by a table.
"""

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import eval_hermitenorm, gammaln, ndtr, ndtri

from penstock.core.arrays import Floats
from penstock.core.errors import PenstockError
from penstock.core.jit import jit
from penstock.traffic.memory import WHITE, LongMemory, fit_memory, fractional_noise_correlation
from penstock.traffic.pareto import CutPareto
from penstock.traffic.process import BLOCK, BlockProcess, State, Times, check_rate

_HERMITE_TERMS = 40
_QUADRATURE = 200_000
#: Below this Hurst parameter, correlations of a thousandth and less are left out.
_HARDLY_ANY = 0.501


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
    peak: float = 10.0
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
        if self.independent or self.hurst < _HARDLY_ANY:
            return WHITE
        return _memory_of(self.hurst, self.peak)

    @property
    def dispersion(self) -> float:
        """Infinite under long memory; otherwise variance over mean of a slot's count."""
        if self.hurst > 0.5 and not self.independent:
            return float("inf")
        return float(self.dispersion_at([self.slot])[0])

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
        return np.asarray(_powers(r) @ _hermite(self._law))

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


@lru_cache
def _hermite(law: CutPareto) -> Floats:
    """c_m^2 for m = 1, 2, ..., by the midpoint rule over the quantile."""
    u = np.arange(0.5 / _QUADRATURE, 1.0, 1.0 / _QUADRATURE)
    z, x = ndtri(u), law.quantile(u)
    orders = range(1, _HERMITE_TERMS + 1)
    scale = np.exp(-0.5 * gammaln(np.arange(2.0, _HERMITE_TERMS + 2)))
    projections = np.array([float(np.mean(x * eval_hermitenorm(m, z))) for m in orders])
    return np.asarray((projections * scale) ** 2)


def _powers(r: Floats) -> Floats:
    return np.asarray(r[:, None] ** np.arange(1, _HERMITE_TERMS + 1))


@lru_cache
def _memory_of(hurst: float, peak: float) -> LongMemory:
    """The memory of z that gives the counts the correlations of fractional noise."""
    squares = _hermite(CutPareto(3.0 - 2.0 * hurst, peak))
    r = np.concatenate([[0.0], np.geomspace(1e-9, 1.0, 4000)])
    counts = _powers(r) @ squares / squares.sum()
    return fit_memory(lambda lags: np.interp(fractional_noise_correlation(hurst, lags), counts, r))


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
