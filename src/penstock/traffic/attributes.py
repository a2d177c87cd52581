"""Attributes of tuples: d numbers between 0 and 1, independent, correlated or anticorrelated, changing over time.

Correlation is made by the multivariate normal, as in the papers. With e_1..e_d standard normal and s their sum,
z_i = sqrt(1-c) e_i + b s, b = (sqrt(1 + (d-1) c) - sqrt(1-c)) / d, have the common correlation c; the attributes
are Phi(z_i), each uniform on [0, 1]. The most negative possible c is -1/(d-1).
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from penstock.core.arrays import Floats
from penstock.core.errors import PenstockError, unknown

CORRELATED = 0.5
#: Share of the most negative possible correlation; at the full one nothing would dominate anything.
ANTICORRELATED = 0.75
DISTRIBUTIONS = ("anticorrelated", "correlated", "independent")


def correlation_of(distribution: str, dims: int) -> float:
    """The common correlation behind a word.

    >>> correlation_of("correlated", 8), round(correlation_of("anticorrelated", 8), 4)
    (0.5, -0.1071)
    """
    if distribution not in DISTRIBUTIONS:
        raise unknown("distribution", distribution, DISTRIBUTIONS)
    if distribution == "independent" or dims < 2:
        return 0.0
    return CORRELATED if distribution == "correlated" else -ANTICORRELATED / (dims - 1)


@dataclass(frozen=True)
class Attributes:
    """``dims`` attributes whose common correlation may change: from each time on, another one.

    >>> changing = Attributes(2, ((0.0, 0.0), (10.0, 0.9)), period=20.0)
    >>> changing.correlation_at(np.array([5.0, 15.0, 25.0])).tolist()
    [0.0, 0.9, 0.0]
    >>> changing.draw(np.array([5.0, 15.0]), np.random.default_rng(1)).shape
    (2, 2)
    """

    dims: int
    changes: tuple[tuple[float, float], ...] = ((0.0, 0.0),)
    period: float | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.dims <= 1000:
            raise PenstockError(
                f"Tuples with {self.dims} attributes are impossible; give a number from 1 to 1000."
            )
        at = [time for time, _ in self.changes]
        if not at or at[0] != 0.0 or at != sorted(at):
            raise PenstockError("The changes of a distribution start at time 0 and go forwards in time.")
        if self.period is not None and not self.period > at[-1]:
            raise PenstockError(
                "The changes of a distribution must fit into the period in which they repeat."
            )
        least = -1.0 / (self.dims - 1) if self.dims > 1 else 0.0
        for _, correlation in self.changes:
            if not least <= correlation <= 1.0:
                raise PenstockError(
                    f"{self.dims} attributes cannot have a common correlation of {correlation:g}; give a number from {least:.4g} to 1."
                )

    def correlation_at(self, times: Floats) -> Floats:
        """The correlation in force at each event time."""
        at, values = np.array(self.changes).T
        inside = np.mod(times, self.period) if self.period else times
        return np.asarray(values[np.maximum(np.searchsorted(at, inside, side="right") - 1, 0)])

    def draw(self, times: Floats, rng: np.random.Generator) -> Floats:
        """One row of attributes for each event time."""
        if all(correlation == 0.0 for _, correlation in self.changes):
            return rng.random((times.size, self.dims))
        c = self.correlation_at(times)
        own = np.sqrt(1.0 - c)
        shared = (np.sqrt(np.maximum(1.0 + (self.dims - 1) * c, 0.0)) - own) / self.dims
        z = rng.standard_normal((times.size, self.dims))
        shared *= z.sum(axis=1)
        z *= own[:, None]
        z += shared[:, None]
        return np.asarray(ndtr(z, out=z))
