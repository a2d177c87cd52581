"""First return of a Markov fluid: the matrix behind the MAP/PH/1 queue.

A fluid level rises at rate 1 in some states and falls at rate 1 in the others. Psi[i, j] is the probability that,
having started to rise in state i, it is first back at the same level in state j. It is the least non-negative
solution of

    Q+- + Q++ Psi + Psi Q-- + Psi Q-+ Psi = 0,

found by the alternating-directional doubling algorithm (Wang, Wang and Li 2012): each step doubles the number of
moves that are accounted for, so a dozen steps reach machine precision even close to saturation.
"""

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]


def first_return(up: Matrix, up_down: Matrix, down_up: Matrix, down: Matrix) -> Matrix:
    """Psi for the blocks Q++, Q+-, Q-+, Q--.

    >>> psi = first_return(np.array([[-2.0]]), np.array([[2.0]]), np.array([[1.0]]), np.array([[-1.0]]))
    >>> round(float(psi[0, 0]), 12)
    1.0
    """
    alpha, beta = float(np.max(-np.diag(up))), float(np.max(-np.diag(down)))
    unit_up, unit_down = np.eye(len(up)), np.eye(len(down))
    shifted_up, shifted_down = beta * unit_up - up, alpha * unit_down - down
    inner_up = np.linalg.inv(shifted_up - up_down @ np.linalg.solve(shifted_down, down_up))
    inner_down = np.linalg.inv(shifted_down - down_up @ np.linalg.solve(shifted_up, up_down))
    total = alpha + beta
    e, f = unit_down - total * inner_down, unit_up - total * inner_up
    g = total * np.linalg.solve(shifted_down, down_up) @ inner_up
    h = total * inner_up @ up_down @ np.linalg.inv(shifted_down)
    for _ in range(100):
        left = np.linalg.solve(unit_down - g @ h, np.hstack([e, g @ f]))
        right = np.linalg.solve(unit_up - h @ g, np.hstack([f, h @ e]))
        change = f @ right[:, len(up) :]
        g, h = g + e @ left[:, len(down) :], h + change
        e, f = e @ left[:, : len(down)], f @ right[:, : len(up)]
        # Only products of e and f enter g and h; balancing the two keeps them from overflowing.
        balance = np.sqrt(np.max(np.abs(f)) / np.max(np.abs(e))) if np.any(e) and np.any(f) else 1.0
        e, f = e * balance, f / balance
        if float(np.max(change)) <= 1e-16 * float(np.max(h)):
            break
    return np.asarray(np.maximum(h, 0.0), dtype=np.float64)
