"""Gaussian noise with long memory, as a sum of short memories that can be stopped and resumed.

Fractional Gaussian noise of Hurst parameter H has correlations r_k = (|k+1|^2H - 2 k^2H + |k-1|^2H) / 2, which fall
like k^(2H-2) for ever, so an exact generator must remember everything. A sum of first-order processes,

    z_t = sum_i sqrt(w_i) y_i(t),   y_i(t+1) = d_i y_i(t) + sqrt(1 - d_i^2) e_i(t),   r_k = sum_i w_i d_i^k,

with time constants in a geometric row and weights fitted to r_k comes within a few per cent of it over eight
decades of lags and remembers a dozen numbers (the mixture view of long memory: Granger 1980).
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls

from penstock.core.arrays import Floats, Ints
from penstock.core.jit import jit

#: The memory reaches so many steps back; beyond, correlations die out.
REACH = 1e8


@dataclass(frozen=True)
class LongMemory:
    """Weights and decays of a mixture.

    >>> memory = fit_memory(lambda lags: fractional_noise_correlation(0.8, lags))
    >>> [round(float(r), 2) for r in memory.correlation(np.array([1, 10, 100]))]
    [0.51, 0.19, 0.08]
    """

    weights: Floats
    decays: Floats

    def correlation(self, lags: Ints | Floats) -> Floats:
        """The correlation at these lags."""
        with np.errstate(under="ignore"):
            return np.asarray(
                (self.weights * self.decays ** np.asarray(lags, dtype=float)[:, None]).sum(axis=1)
            )

    def start(self, rng: np.random.Generator) -> Floats:
        """The parts in equilibrium."""
        return rng.standard_normal(self.weights.size)

    def take(self, n: int, parts: Floats, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """The next ``n`` values, standard normal each, and the parts after them."""
        after, out = parts.copy(), np.empty(n)
        _mix(rng, np.sqrt(self.weights), self.decays, np.sqrt(1.0 - self.decays**2), after, out)
        return out, after


def fit_memory(correlation: Callable[[Floats], Floats]) -> LongMemory:
    """The mixture closest to a correlation function, by non-negative least squares on relative errors.

    The function is looked at over all decades of lags up to ``REACH``; it must be positive there.
    """
    lags = np.unique(np.concatenate([np.arange(1, 20), np.geomspace(20, REACH, 120).round()]))
    decays = np.concatenate([[0.0], np.exp(-1.0 / np.geomspace(0.4, 2.0 * REACH, 18))])
    with np.errstate(under="ignore"):
        table = decays ** lags[:, None] / correlation(lags)[:, None]
    heavy = 1e4  # the weights must add up to one: a variance of one is not negotiable
    system = np.vstack([table, heavy * np.ones(decays.size)])
    weights, _ = nnls(system, np.concatenate([np.ones(lags.size), [heavy]]), maxiter=10_000)
    kept = weights > 0.0
    return LongMemory(weights[kept] / weights.sum(), decays[kept])


def fractional_noise_correlation(hurst: float, lags: Floats) -> Floats:
    """Correlation of fractional Gaussian noise; by its limit H (2H-1) k^(2H-2) where the difference would cancel."""
    k, h2 = np.asarray(lags, dtype=float), 2.0 * hurst
    exact = 0.5 * ((k + 1.0) ** h2 - 2.0 * k**h2 + np.abs(k - 1.0) ** h2)
    return np.where(k > 1000.0, hurst * (h2 - 1.0) * k ** (h2 - 2.0), exact)


#: No memory at all.
WHITE = LongMemory(np.ones(1), np.zeros(1))


@jit
def _mix(
    rng: np.random.Generator, scale: Floats, decay: Floats, fresh: Floats, parts: Floats, out: Floats
) -> None:  # pragma: no cover - compiled
    for step in range(out.size):
        total = 0.0
        for i in range(parts.size):
            parts[i] = decay[i] * parts[i] + fresh[i] * rng.standard_normal()
            total += scale[i] * parts[i]
        out[step] = total
