"""The Pareto law cut off at a peak, with its mean kept.

On [m, c]: P(X > x) = ((m/x)^a - (m/c)^a) / K with K = 1 - (m/c)^a, quantile m (1 - K u)^(-1/a), and
E[X^k] = a m^a (m^(k-a) - c^(k-a)) / ((a - k) K).
"""

from dataclasses import dataclass
from functools import cached_property
from math import log

import numpy as np
from scipy.optimize import brentq

from penstock.core.arrays import Floats


@dataclass(frozen=True)
class CutPareto:
    """Values with mean 1, a tail of the given shape and no value above ``peak``.

    >>> law = CutPareto(shape=1.4, peak=50.0)
    >>> round(law.moment(1), 9), bool(law.quantile(np.array([0.999999]))[0] < 50.0)
    (1.0, True)
    """

    shape: float
    peak: float

    @cached_property
    def least(self) -> float:
        """The smallest value m, such that the mean is 1."""
        return float(brentq(lambda m: self._moment(1, m) - 1.0, 1e-12, 1.0, xtol=1e-15, rtol=1e-14))

    def _moment(self, k: int, m: float) -> float:
        a, c = self.shape, self.peak
        scale = a / (1.0 - (m / c) ** a)
        if abs(a - k) < 1e-9:
            return float(scale * m**k * log(c / m))
        return float(scale * m**a * (m ** (k - a) - c ** (k - a)) / (a - k))

    def moment(self, k: int) -> float:
        """E[X^k]."""
        return self._moment(k, self.least)

    def quantile(self, u: Floats) -> Floats:
        """The value below which a share ``u`` lies."""
        kept = 1.0 - (self.least / self.peak) ** self.shape
        return np.asarray(self.least * (1.0 - kept * u) ** (-1.0 / self.shape))
