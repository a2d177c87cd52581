"""Arrival processes with a name: Poisson, the two-state Markov-modulated Poisson process, compositions."""

from collections.abc import Sequence

import numpy as np

from penstock.core.errors import PenstockError
from penstock.models.map import MAP


class Poisson(MAP):
    """Arrivals without memory.

    >>> Poisson(3.0).scv, Poisson(3.0).dispersion
    (1.0, 1.0)
    """

    def __init__(self, rate: float) -> None:
        if not (rate > 0.0 and np.isfinite(rate)):
            raise PenstockError(f"A rate of {rate} per second is impossible; give a number above zero.")
        super().__init__([[-rate]], [[rate]])


class Mmpp2(MAP):
    """Poisson arrivals whose rate switches between two values.

    ``rates`` are the arrival rates of the two phases, ``switching`` the rates of leaving each of them.

    >>> round(Mmpp2(rates=(100.0, 1.0), switching=(0.5, 0.1)).rate, 6)
    17.5
    """

    def __init__(self, rates: Sequence[float], switching: Sequence[float]) -> None:
        if len(rates) != 2 or len(switching) != 2:
            raise PenstockError("An MMPP(2) has two arrival rates and two switching rates.")
        if min(rates) < 0.0 or min(switching) <= 0.0 or max(rates) <= 0.0:
            raise PenstockError(
                "The switching rates of an MMPP(2) are above zero, its arrival rates zero or more and not both zero."
            )
        (fast, slow), (leave_fast, leave_slow) = rates, switching
        super().__init__(
            [[-fast - leave_fast, leave_fast], [leave_slow, -slow - leave_slow]], [[fast, 0.0], [0.0, slow]]
        )


def kpc(*parts: MAP) -> MAP:
    """Kronecker composition: D0 = (-1)^(J-1) D0_1 x ... x D0_J, D1 = D1_1 x ... x D1_J (Casale et al. 2010).

    Moments of the parts multiply (E[X^k] = prod E[X_j^k] / (k!)^(J-1)) and so do their joint moments, which
    is what makes a large MAP easy to fit. At most one part may have hidden transitions: otherwise the product of
    two negative diagonals with two positive rates is no MAP.

    >>> a = MAP([[-2.0, 0.0], [0.0, -0.5]], [[1.8, 0.2], [0.05, 0.45]])
    >>> composed = kpc(a, a)
    >>> composed.order, bool(np.isclose(1 + composed.scv, (1 + a.scv) ** 2 / 2))
    (4, True)
    """
    if not parts:
        raise PenstockError("A composition needs at least one MAP.")
    diagonal = [not np.any(part.D0 - np.diag(np.diag(part.D0))) for part in parts]
    if diagonal.count(False) > 1:
        raise PenstockError(
            "At most one part of a Kronecker composition may have hidden transitions; give the others a diagonal D0."
        )
    hidden, visible = np.array([[-1.0]]), np.array([[1.0]])
    for part in parts:
        hidden, visible = np.kron(-hidden, part.D0), np.kron(visible, part.D1)
    return MAP(hidden, visible)
