"""Service demands learnt online: how much CPU time a tuple costs at each operator, from what a run reports anyway.

In an interval with n_j completions of operator j, the busy time is B = sum_j d_j n_j + noise whose variance grows with
the number of tuples (utilisation-law regression; Spinner et al. 2015). Weighted least squares with exponential
forgetting keeps one small matrix per estimator, whatever the length of the run.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf, isfinite

import numpy as np
import scipy.optimize
import scipy.special

from penstock.core.errors import PenstockError


@dataclass(frozen=True)
class Demand:
    """CPU seconds per tuple, with a confidence interval; ``known`` is false until the data pin it down."""

    operator: str
    mean: float
    low: float
    high: float
    intervals: float

    @property
    def known(self) -> bool:
        """Whether the interval is narrower than the estimate itself."""
        return self.high - self.low < self.mean


class DemandEstimator:
    """Demands of operators from one report per interval.

    Where each operator reports its own busy time, use one estimator per operator, or give ``busy`` as a mapping;
    where several share one process, give their common busy time, and the different mixes over time tell them apart.

    >>> estimator = DemandEstimator(["parse"])
    >>> for completions in (100, 200, 150, 300):
    ...     estimator.observe(busy=0.002 * completions, completions={"parse": completions})
    >>> round(estimator.demands()["parse"].mean, 9)
    0.002
    """

    def __init__(self, operators: Sequence[str], forgetting: float = 0.98, confidence: float = 0.95) -> None:
        if not operators or len(set(operators)) != len(operators):
            raise PenstockError("An estimator needs at least one operator, each with a name of its own.")
        if not 0.0 < forgetting <= 1.0 or not 0.0 < confidence < 1.0:
            raise PenstockError(
                "Forgetting is above 0 up to 1 (1 never forgets), confidence between 0 and 1."
            )
        self.operators = tuple(operators)
        self.forgetting, self.confidence = forgetting, confidence
        size = len(self.operators)
        self._products, self._cross = np.zeros((size, size)), np.zeros(size)
        self._square = self._intervals = 0.0

    def observe(
        self,
        busy: float,
        completions: Mapping[str, float],
        arrivals: Mapping[str, float] | None = None,
    ) -> None:
        """One interval: busy seconds, completions per operator; arrivals stand in where completions are missing.

        Intervals without work tell nothing and are passed over.
        """
        counts = np.array([float(completions.get(o, (arrivals or {}).get(o, 0.0))) for o in self.operators])
        if not (isfinite(busy) and np.isfinite(counts).all() and busy >= 0.0 and counts.min() >= 0.0):
            raise PenstockError("Busy times and completions are finite numbers of zero or more.")
        if counts.sum() == 0.0:
            return
        weight = 1.0 / counts.sum()  # the variance of a sum of services grows with their number
        self._products = self.forgetting * self._products + weight * np.outer(counts, counts)
        self._cross = self.forgetting * self._cross + weight * busy * counts
        self._square = self.forgetting * self._square + weight * busy**2
        self._intervals = self.forgetting * self._intervals + 1.0

    def demands(self) -> dict[str, Demand]:
        """The demands so far; unknown ones have an infinite upper bound."""
        size = len(self.operators)
        if self._intervals == 0.0:
            return {o: Demand(o, 0.0, 0.0, inf, 0.0) for o in self.operators}
        scale = np.sqrt(np.maximum(np.diag(self._products), 1e-300))
        scaled = self._products / np.outer(scale, scale) + 1e-12 * np.eye(size)
        root = np.linalg.cholesky(scaled)
        means = scipy.optimize.nnls(root.T, np.linalg.solve(root, self._cross / scale))[0] / scale
        freedom = self._intervals - size
        residual = max(self._square - float(means @ self._cross), 0.0) / max(freedom, 1e-9)
        errors = np.sqrt(residual * np.diag(np.linalg.inv(scaled))) / scale
        factor = float(scipy.special.stdtrit(freedom, 0.5 + self.confidence / 2.0)) if freedom > 0.0 else inf
        return {
            o: Demand(
                o,
                float(m),
                max(float(m - factor * e), 0.0) if e > 0.0 else float(m),
                float(m + factor * e) if e > 0.0 else float(m),
                self._intervals,
            )
            for o, m, e in zip(self.operators, means, errors, strict=True)
        }

    def utilisation(self, rates: Mapping[str, float]) -> float:
        """Predicted busy share of one CPU at these rates per operator."""
        demands = self.demands()
        return sum(demands[o].mean * rate for o, rate in rates.items() if o in demands)
