"""The MAP/PH/1 queue, exactly: bursty, correlated arrivals to one server with phase-type service.

The workload is a Markov fluid: it falls at rate 1 while the arrival process waits for its next arrival (phase k,
generator D0), and an arrival lifts it by a service time, drawn out as a rise at rate 1 through the service phases
with k frozen. With Psi the first-return matrix of that fluid (``fluid``) and K = I x S + Psi (D1 x sigma),

* xi (D0 + (D1 x sigma) Psi) = 0 is the phase of an empty system,
* the peak of the fluid is the response time of a tuple: density c xi (D1 x sigma) e^{Kx} (1 x s),
* the level where a rise starts is its wait: density c xi (D1 x sigma) e^{Kx} Psi D1 1, with an atom at zero.

Both are laws of order (arrival phases x service phases); compare the QBD of section V-A in MEAD, whose response
time needs a matrix that is larger by another factor of the service phases.
"""

from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from penstock.core.errors import PenstockError
from penstock.models.chain import stationary
from penstock.models.exponential_form import ExponentialForm
from penstock.models.fluid import polished_first_return
from penstock.models.map import MAP
from penstock.models.phase_type import PH
from penstock.models.queue import Queue

Matrix = NDArray[np.float64]


class MapPh1(Queue):
    """One server, MAP arrivals, phase-type service, first come first served.

    >>> from penstock.models import Erlang, Poisson, fit_map2
    >>> calm = MapPh1(Poisson(70.0), Erlang(2, mean=0.01))
    >>> bursty = MapPh1(fit_map2(1 / 70.0, dispersion=100.0), Erlang(2, mean=0.01))
    >>> round(calm.mean_response, 6), round(bursty.mean_response, 4)
    (0.0275, 1.4197)
    >>> MapPh1(Poisson(200.0), Erlang(2, mean=0.01)).mean_response
    inf
    """

    method: ClassVar[str] = "exact"
    arrivals: MAP
    service: PH

    def __init__(self, arrivals: MAP | float, service: PH) -> None:
        if not isinstance(service, PH):
            raise PenstockError("MapPh1 needs a phase-type service; make one with fit_ph(mean, scv).")
        if not isinstance(arrivals, MAP | int | float):
            raise PenstockError("MapPh1 needs a MAP as its arrivals; make one with fit_map2 or fit_kpc.")
        super().__init__(arrivals, service)

    @cached_property
    def _solution(self) -> tuple[Matrix, Matrix, Matrix, Matrix]:
        """(start, K, Psi, phase of the empty system), scaled to one arrival."""
        unit: Matrix = np.eye(self.arrivals.order)
        rise: Matrix = np.kron(unit, self.service.T).astype(np.float64)
        done: Matrix = np.kron(unit, self.service.exit[:, None]).astype(np.float64)
        lift: Matrix = np.kron(self.arrivals.D1, self.service.alpha[None, :]).astype(np.float64)
        back = polished_first_return(rise, done, lift, self.arrivals.D0)
        empty = stationary(np.ascontiguousarray(self.arrivals.D0 + lift @ back))
        # A stable queue empties with probability 1. What rounding takes from that lies along the phase of the empty
        # system, the direction in which the equation of Psi is closest to singular.
        back += (1.0 - back.sum(axis=1, keepdims=True)) * empty
        growth = rise + back @ lift
        start = empty @ lift
        arrivals = float(start @ np.linalg.solve(-growth, done.sum(axis=1)))
        return start / arrivals, growth, back, empty / arrivals

    @cached_property
    def response(self) -> ExponentialForm:
        """The law of the response time."""
        self._check_stable()
        start, growth, _, _ = self._solution
        return ExponentialForm(start, growth, np.tile(self.service.exit, self.arrivals.order))

    @cached_property
    def wait(self) -> ExponentialForm:
        """The law of the waiting time; the probability of no wait is its atom at zero."""
        self._check_stable()
        start, growth, back, _ = self._solution
        return ExponentialForm(start, growth, back @ self.arrivals.D1.sum(axis=1))

    @property
    def no_wait(self) -> float:
        """Probability that an arrival finds the server free."""
        return float(self._solution[3] @ self.arrivals.D1.sum(axis=1)) if self.stable else 0.0

    def survival(self, x: ArrayLike) -> Matrix:
        """P(response > x) for each x; 1 throughout where the queue is not stable."""
        return self.response.survival(x) if self.stable else np.ones(np.size(x))

    def wait_survival(self, x: ArrayLike) -> Matrix:
        """P(wait > x) for each x; 1 throughout where the queue is not stable."""
        return self.wait.survival(x) if self.stable else np.ones(np.size(x))

    def _mean_wait(self) -> float:
        return self.wait.mean

    def _percentile(self, share: float) -> float:
        return self.response.quantile(share)

    def _variance(self) -> float:
        return self.response.variance

    def _check_stable(self) -> None:
        if not self.stable:
            raise PenstockError(
                f"At a utilisation of {self.utilisation:.3g} the queue grows without end and has no response law; ask for mean_response or percentile, which are infinite."
            )
