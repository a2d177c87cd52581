"""Products of two-state factors: the shape that ``fit_kpc`` searches over, multiplied out by compiled code."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from penstock.core.jit import jit
from penstock.models.arrivals import Poisson
from penstock.models.map import MAP
from penstock.models.phase_type_fit import fit_ph

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Composition:
    """A gap is a base gap times independent two-state Markov factors of mean 1.

    Factor j is 1 - d_j in its fast state and 1 + V_j / d_j in its slow one, and forgets by ``memory[j]`` from one
    arrival to the next; ``logits`` holds log(d / (1 - d)). The base is a renewal process of unit mean with
    E[X^2]/2 = ``left``; 1 is Poisson.
    """

    variances: Floats
    memory: Floats
    left: float
    logits: Floats
    base_states: int

    def matrices(self, logits: Floats) -> tuple[Floats, Floats]:
        """D0 and D1 for these speed-ups."""
        base = (
            renewal(self.left, self.base_states)
            if self.left < 0.999 and self.base_states >= 2
            else Poisson(1.0)
        )
        hidden, visible = _multiply(base.D0, base.D1, self.variances, self.memory, logits)
        return hidden, visible

    def process(self) -> MAP:
        """The composed MAP of unit mean."""
        return MAP(*self.matrices(self.logits))


@lru_cache(maxsize=64)
def renewal(half_second: float, max_states: int) -> MAP:
    """A renewal process of unit mean with E[X^2]/2 = ``half_second``, as nearly as the phases allow.

    >>> round(renewal(0.75, 4).scv, 9), renewal(1.0, 4).order
    (0.5, 1)
    """
    scv = max(2.0 * half_second - 1.0, 1.0 / max_states)
    if abs(scv - 1.0) < 1e-3:
        return Poisson(1.0)
    law = fit_ph(1.0, scv)
    return MAP(law.T, np.outer(law.exit, law.alpha))


@jit
def _multiply(
    hidden: Floats, visible: Floats, variances: Floats, memory: Floats, logits: Floats
) -> tuple[Floats, Floats]:  # pragma: no cover - compiled
    """Kronecker products of the base with all factors, whose D0 are diagonal."""
    for j in range(variances.size):
        d = min(1.0 / (1.0 + np.exp(-logits[j])), 0.999)
        rates = (1.0 / (1.0 - d), 1.0 / (1.0 + variances[j] / d))
        fast = variances[j] / (variances[j] + d * d)
        enter = (fast, 1.0 - fast)
        n = hidden.shape[0]
        next_hidden, next_visible = np.zeros((2 * n, 2 * n)), np.zeros((2 * n, 2 * n))
        for row in range(2 * n):
            for column in range(2 * n):
                a, b = row % 2, column % 2
                jump = (1.0 - memory[j]) * enter[b] + (memory[j] if a == b else 0.0)
                next_visible[row, column] = visible[row // 2, column // 2] * rates[a] * jump
                if a == b:
                    next_hidden[row, column] = hidden[row // 2, column // 2] * rates[a]
        hidden, visible = next_hidden, next_visible
    return hidden, visible
