"""Mean response of MAP/M/1 in one compiled call: ``map_ph1`` for one service phase, without its comforts.

A fit asks for it hundreds of times.
"""

import numpy as np
from numpy.typing import NDArray

from penstock.core.jit import jit
from penstock.models.chain import stationary
from penstock.models.fluid import first_return

Matrix = NDArray[np.float64]


@jit
def map_m1_response(hidden: Matrix, visible: Matrix, service: float) -> float:
    """Mean response time for a stable queue: c xi D1 (-K)^-2 1 / service, K = Psi D1 - I / service.

    >>> round(map_m1_response(np.array([[-0.5]]), np.array([[0.5]]), 1.0), 9)
    2.0
    """
    n = len(hidden)
    unit, ones = np.eye(n), np.ones(n)
    back = first_return(-unit / service, unit / service, visible, hidden)
    for i in range(n):
        back[i] /= back[i].sum()
    start = stationary(hidden + visible @ back) @ visible
    growth = unit / service - back @ visible
    once = np.linalg.solve(growth, ones)
    return float((start @ np.linalg.solve(growth, once)) / (start @ once))
