"""Densities of the form v e^{Gx} w: phase-type laws, response times and waiting times of queues alike.

G is the generator of a transient chain (its exponential is non-negative and dies out), v its start, w what each
state pays per second. Then P(X > x) = v e^{Gx} (-G)^-1 w and E[X^k] = k! v (-G)^-(k+1) w; what v (-G)^-1 w lacks
to 1 is an atom at zero.
"""

from functools import cached_property
from math import factorial, sqrt

import numpy as np
from numpy.typing import ArrayLike, NDArray

from penstock.core.errors import PenstockError
from penstock.models.matrix_exponential import expm

Matrix = NDArray[np.float64]


class ExponentialForm:
    """A law on [0, infinity) with density v e^{Gx} w and perhaps an atom at zero.

    >>> unit = ExponentialForm(np.array([1.0]), np.array([[-1.0]]), np.array([1.0]))
    >>> unit.mean, round(unit.quantile(0.95), 9) == round(float(np.log(20)), 9)
    (1.0, True)
    """

    def __init__(self, start: Matrix, generator: Matrix, pay: Matrix) -> None:
        self.start = start
        self.form_generator = generator
        self.pay = pay

    @cached_property
    def _tail(self) -> Matrix:
        """(-G)^-1 w: the probability still to come, by state."""
        return np.asarray(np.linalg.solve(-self.form_generator, self.pay), dtype=np.float64)

    @cached_property
    def above_zero(self) -> float:
        """P(X > 0)."""
        return min(float(self.start @ self._tail), 1.0)

    def moment(self, k: int) -> float:
        """E[X^k]."""
        if k < 0:
            raise PenstockError(f"Moments have an order of zero or more, not {k}.")
        if k == 0:
            return 1.0
        column = self._tail
        for _ in range(k):
            column = np.asarray(np.linalg.solve(-self.form_generator, column), dtype=np.float64)
        return factorial(k) * float(self.start @ column)

    @cached_property
    def mean(self) -> float:
        """E[X]."""
        return self.moment(1)

    @cached_property
    def variance(self) -> float:
        """Var[X]."""
        return max(self.moment(2) - self.mean**2, 0.0)

    @cached_property
    def scv(self) -> float:
        """Squared coefficient of variation."""
        return self.variance / self.mean**2 if self.mean > 0.0 else 0.0

    @cached_property
    def skewness(self) -> float:
        """Third standardised moment."""
        third = self.moment(3) - 3.0 * self.mean * self.moment(2) + 2.0 * self.mean**3
        return third / (self.variance * sqrt(self.variance)) if self.variance > 0.0 else 0.0

    def plus(self, other: "ExponentialForm") -> "ExponentialForm":
        """The law of the sum of two independent values.

        >>> unit = ExponentialForm(np.array([1.0]), np.array([[-1.0]]), np.array([1.0]))
        >>> unit.plus(unit).mean
        2.0
        """
        n, m = len(self.start), len(other.start)
        generator = np.zeros((n + m, n + m))
        generator[:n, :n], generator[n:, n:] = self.form_generator, other.form_generator
        generator[:n, n:] = np.outer(self.pay, other.start)
        start = np.concatenate([self.start, (1.0 - self.above_zero) * other.start])
        pay = np.concatenate([(1.0 - other.above_zero) * self.pay, other.pay])
        return ExponentialForm(start, generator, pay)

    def survival(self, x: ArrayLike) -> Matrix:
        """P(X > x) for each x."""
        points = np.atleast_1d(np.asarray(x, dtype=np.float64))
        return np.array([self._survival(p) for p in points.tolist()])

    def cdf(self, x: ArrayLike) -> Matrix:
        """P(X <= x) for each x."""
        return 1.0 - self.survival(x)

    def pdf(self, x: ArrayLike) -> Matrix:
        """Density for each x above zero."""
        points = np.atleast_1d(np.asarray(x, dtype=np.float64))
        rows = (self.start @ expm(self.form_generator * p) for p in points.tolist())
        return np.array([float(row @ self.pay) for row in rows])

    def _survival(self, x: float) -> float:
        if x < 0.0:
            return 1.0
        value = float(self.start @ expm(self.form_generator * x) @ self._tail)
        return min(max(value, 0.0), 1.0)

    def quantile(self, q: float) -> float:
        """The x with P(X <= x) = q.

        Doubling brackets it with one squaring of e^{Gx} each; Newton steps from the lower end, where the tail is
        close to exponential, then take a handful of exponentials.
        """
        if not 0.0 <= q < 1.0:
            raise PenstockError(f"A quantile lies between 0 and below 1, not at {q}.")
        level = 1.0 - q
        if level >= self.above_zero:
            return 0.0
        step = self.mean
        power = expm(self.form_generator * step)
        low, row = 0.0, self.start
        while float(row @ power @ self._tail) > level:
            row, low = row @ power, low + step
            if low > step:  # grow only after the first step failed, so that small quantiles stay cheap
                power, step = power @ power, 2.0 * step
        return low + self._newton(row, step, level)

    def _newton(self, row: Matrix, width: float, level: float) -> float:
        """Solve row e^{Gx} tail = level on [0, width] in the logarithm, kept inside the bracket."""
        low, high, x = 0.0, width, 0.0
        for _ in range(100):
            here = row @ expm(self.form_generator * x) if x > 0.0 else row
            value, slope = float(here @ self._tail), float(here @ self.pay)
            low, high = (x, high) if value > level else (low, x)
            move = np.log(value / level) * value / slope if value > 0.0 and slope > 0.0 else np.inf
            previous, x = x, x + float(move)
            if not low < x < high:
                x = 0.5 * (low + high)
            if abs(x - previous) <= 1e-13 * (width + x) or high - low <= 1e-15 * width:
                break
        return x
