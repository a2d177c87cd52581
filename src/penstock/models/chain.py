"""Stationary distribution of a finite Markov chain by the Grassmann-Taksar-Heyman elimination.

Only sums, products and quotients of non-negative numbers occur, so that even chains whose rates span many
orders of magnitude (a burst once in a million arrivals) keep their relative accuracy.
"""

import numpy as np
from numpy.typing import NDArray

from penstock.core.jit import jit

Matrix = NDArray[np.float64]


@jit
def stationary(chain: Matrix) -> Matrix:
    """The probability vector x with x Q = 0 (or x P = x): only the entries off the diagonal are read.

    >>> stationary(np.array([[-1.0, 1.0], [3.0, -3.0]])).tolist()
    [0.75, 0.25]
    """
    n = chain.shape[0]
    work = chain.copy()
    for k in range(n - 1, 0, -1):
        outflow = work[k, :k].sum()
        for i in range(k):
            work[i, k] /= outflow
            for j in range(k):
                work[i, j] += work[i, k] * work[k, j]
    x = np.ones(n)
    for k in range(1, n):
        total = 0.0
        for i in range(k):
            total += x[i] * work[i, k]
        x[k] = total
    probabilities: Matrix = x / x.sum()
    return probabilities


@jit
def is_irreducible(chain: Matrix) -> bool:
    """Whether every state reaches every other one."""
    n = chain.shape[0]
    for forward in (True, False):
        seen = np.zeros(n, dtype=np.bool_)
        stack = np.empty(n, dtype=np.int64)
        seen[0], stack[0], top = True, 0, 1
        while top > 0:
            top -= 1
            i = stack[top]
            for j in range(n):
                rate = chain[i, j] if forward else chain[j, i]
                if i != j and rate > 0.0 and not seen[j]:
                    seen[j] = True
                    stack[top] = j
                    top += 1
        if not seen.all():
            return False
    return True
