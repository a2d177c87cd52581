"""First return of a Markov fluid: the matrix behind the MAP/PH/1 queue.

A fluid level rises at rate 1 in some states and falls at rate 1 in the others. Psi[i, j] is the probability that,
having started to rise in state i, it is first back at the same level in state j. It is the least non-negative
solution of

    Q+- + Q++ Psi + Psi Q-- + Psi Q-+ Psi = 0,

found by the alternating-directional doubling algorithm (Wang, Wang and Li 2012): each step doubles the number of
moves that are accounted for, so a dozen steps reach machine precision even close to saturation.
"""

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from penstock.core.jit import jit

Matrix = NDArray[np.float64]


@jit
def first_return(up: Matrix, up_down: Matrix, down_up: Matrix, down: Matrix) -> Matrix:
    """Psi for the blocks Q++, Q+-, Q-+, Q--.

    >>> psi = first_return(np.array([[-2.0]]), np.array([[2.0]]), np.array([[1.0]]), np.array([[-1.0]]))
    >>> round(float(psi[0, 0]), 12)
    1.0
    """
    n_up, n_down = len(up), len(down)
    alpha, beta = np.max(-np.diag(up)), np.max(-np.diag(down))
    total = alpha + beta
    unit_up, unit_down = np.eye(n_up), np.eye(n_down)
    shifted_up, shifted_down = beta * unit_up - up, alpha * unit_down - down
    inverse_down = np.linalg.inv(shifted_down)
    inner_up = np.linalg.inv(shifted_up - up_down @ (inverse_down @ down_up))
    inner_down = np.linalg.inv(shifted_down - down_up @ np.linalg.solve(shifted_up, up_down))
    e, f = unit_down - total * inner_down, unit_up - total * inner_up
    g = total * (inverse_down @ down_up) @ inner_up
    h = total * (inner_up @ up_down) @ inverse_down
    for _ in range(100):
        left, right = np.linalg.inv(unit_down - g @ h), np.linalg.inv(unit_up - h @ g)
        el, fr = e @ left, f @ right
        change = fr @ (h @ e)
        g, h = g + el @ (g @ f), h + change
        e, f = el @ e, fr @ f
        # Only products of e and f enter g and h; balancing the two keeps them from overflowing.
        size_e, size_f = np.max(np.abs(e)), np.max(np.abs(f))
        if size_e > 0.0 and size_f > 0.0:
            balance = np.sqrt(size_f / size_e)
            e, f = e * balance, f / balance
        if np.max(change) <= 1e-16 * np.max(h):
            break
    result: Matrix = np.maximum(h, 0.0)
    return result


def polished_first_return(up: Matrix, up_down: Matrix, down_up: Matrix, down: Matrix) -> Matrix:
    """Psi after Newton steps more, mostly one.

    Where the rates of the two sides differ by many orders of magnitude, the shifts of the doubling algorithm cost
    digits. The residual is still exact to rounding, so steps (Q++ + Psi Q-+) X + X (Q-- + Q-+ Psi) = -residual, a
    Sylvester equation for a tiny X, bring them back.
    """
    psi = first_return(up, up_down, down_up, down)
    for _ in range(8):
        residual = up_down + up @ psi + psi @ down + psi @ (down_up @ psi)
        step = scipy.linalg.solve_sylvester(up + psi @ down_up, down + down_up @ psi, -residual)
        better: Matrix = psi + step
        if not np.isfinite(better).all() or better.min() < 0.0:
            break
        psi = better
        if float(np.max(np.abs(step))) <= 1e-12:
            break
    return psi
