"""Phase-type laws: the time until a small Markov chain is absorbed; service times of queues."""

from collections.abc import Sequence
from functools import cached_property
from math import isfinite

import numpy as np
from numpy.typing import ArrayLike, NDArray

from penstock.core.errors import PenstockError
from penstock.core.jit import jit
from penstock.models.exponential_form import ExponentialForm
from penstock.models.map_sampler import jump_table

Matrix = NDArray[np.float64]


class PH(ExponentialForm):
    """The time to absorption of a chain that starts in ``alpha`` and moves by the sub-generator ``T``.

    >>> two_stages = PH([1.0, 0.0], [[-4.0, 4.0], [0.0, -4.0]])
    >>> two_stages.mean, two_stages.scv
    (0.5, 0.5)
    """

    def __init__(self, alpha: ArrayLike, T: ArrayLike) -> None:
        self.alpha, self.T = _checked(alpha, T)
        super().__init__(self.alpha, self.T, -self.T.sum(axis=1))

    def __repr__(self) -> str:
        return f"{type(self).__name__}(order={self.order}, mean={self.mean:.6g}, scv={self.scv:.4g})"

    @property
    def order(self) -> int:
        """Number of phases."""
        return len(self.alpha)

    @cached_property
    def exit(self) -> Matrix:
        """Rates of being done, by phase."""
        return self.pay

    def scaled(self, mean: float) -> "PH":
        """The same shape with another mean."""
        _check_mean(mean)
        return PH(self.alpha, self.T * (self.mean / mean))

    def sample(self, n: int, rng: np.random.Generator) -> Matrix:
        """``n`` independent values."""
        if n < 0:
            raise PenstockError(f"Cannot sample {n} values; ask for zero or more.")
        done = np.zeros_like(self.T)
        done[:, 0] = self.exit
        mean_stay, cumulated = jump_table(self.T, done)
        values = np.empty(n)
        _absorb(rng, np.cumsum(self.alpha), mean_stay, cumulated, values)
        return values


class Exponential(PH):
    """The law without memory.

    >>> round(Exponential(0.2).scv, 9)
    1.0
    """

    def __init__(self, mean: float) -> None:
        _check_mean(mean)
        super().__init__([1.0], [[-1.0 / mean]])


class Erlang(PH):
    """``k`` exponential stages in a row; SCV 1/k. Erlang-2 is the service law of the MEAD experiments.

    >>> Erlang(4, mean=2.0).scv
    0.25
    """

    def __init__(self, k: int, mean: float) -> None:
        if k < 1 or k != int(k):
            raise PenstockError(f"An Erlang law has a whole number of stages of 1 or more, not {k}.")
        _check_mean(mean)
        rate = k / mean
        super().__init__(np.eye(k)[0], -rate * np.eye(k) + rate * np.eye(k, k=1))

    def sample(self, n: int, rng: np.random.Generator) -> Matrix:
        """``n`` independent values."""
        if n < 0:
            raise PenstockError(f"Cannot sample {n} values; ask for zero or more.")
        return rng.gamma(self.order, self.mean / self.order, size=n)


class HyperExponential(PH):
    """One of several exponential laws, picked by its weight.

    >>> round(HyperExponential([0.9, 0.1], means=[0.5, 5.5]).mean, 9)
    1.0
    """

    def __init__(self, weights: Sequence[float], means: Sequence[float]) -> None:
        if len(weights) != len(means) or not len(means):
            raise PenstockError("A hyper-exponential law has as many weights as means.")
        for mean in means:
            _check_mean(mean)
        super().__init__(weights, -np.diag(1.0 / np.asarray(means, dtype=np.float64)))


def _check_mean(mean: float) -> None:
    if not (mean > 0.0 and isfinite(mean)):
        raise PenstockError(f"A mean time of {mean} s is impossible; give a number above zero.")


def _checked(alpha: ArrayLike, T: ArrayLike) -> tuple[Matrix, Matrix]:
    start, moves = np.array(alpha, dtype=np.float64), np.array(T, dtype=np.float64)
    if start.ndim != 1 or moves.shape != (start.size, start.size) or not start.size:
        raise PenstockError(
            f"A phase-type law has a start of n entries and an n x n matrix, not {start.shape} and {moves.shape}."
        )
    if not (np.isfinite(start).all() and np.isfinite(moves).all()):
        raise PenstockError("A phase-type law holds finite numbers only; remove the NaN or infinity.")
    if start.min() < -1e-12 or abs(start.sum() - 1.0) > 1e-9:
        raise PenstockError("The start of a phase-type law holds probabilities that add up to 1.")
    off, scale = moves - np.diag(np.diag(moves)), float(np.abs(moves).max())
    if off.min() < -1e-12 * scale or moves.sum(axis=1).max() > 1e-9 * scale or np.diag(moves).max() >= 0.0:
        raise PenstockError(
            "The matrix of a phase-type law has rates of zero or more off its diagonal, and rows that add up to zero or less."
        )
    if np.linalg.matrix_rank(moves / scale) < start.size:
        raise PenstockError("This phase-type law never ends: some phase has no way out.")
    start = np.maximum(start, 0.0)
    start, moves = start / start.sum(), np.maximum(off, 0.0) + np.diag(np.diag(moves))
    start.flags.writeable = moves.flags.writeable = False
    return start, moves


@jit
def _absorb(
    rng: np.random.Generator, start: Matrix, mean_stay: Matrix, cumulated: Matrix, values: Matrix
) -> None:  # pragma: no cover - compiled
    order = mean_stay.size
    for index in range(values.size):
        u, phase, total = rng.random(), 0, 0.0
        while phase < order - 1 and start[phase] <= u:
            phase += 1
        while phase < order:
            total += mean_stay[phase] * rng.standard_exponential()
            u, target = rng.random(), 0
            while target < order and cumulated[phase, target] <= u:
                target += 1
            phase = target
        values[index] = total
