"""M/G/1 and M/M/1: what most auto-scalers assume; blind to bursts."""

from functools import cached_property
from typing import ClassVar

from penstock.models.arrivals import Poisson
from penstock.models.map_ph1 import MapPh1
from penstock.models.phase_type import PH, Exponential
from penstock.models.phase_type_fit import fit_ph
from penstock.models.queue import Arrivals, Queue, Service


class Mg1(Queue):
    """Poisson arrivals of the given rate, any service: Pollaczek-Khinchine.

    Wait = rate E[S^2] / (2 (1 - rho)). Whatever the arrivals really are, only their rate is used. Percentiles and
    the variance are those of a phase-type service with the same mean and SCV (exact where the service is one).

    >>> from penstock.models.queue import TwoMoments
    >>> Mg1(0.5, TwoMoments(1.0, scv=0.0)).mean_wait  # M/D/1
    0.5
    """

    method: ClassVar[str] = "Poisson arrivals assumed"

    def __init__(self, arrivals: Arrivals | float, service: Service) -> None:
        super().__init__(arrivals, service)

    def _mean_wait(self) -> float:
        second = (1.0 + self.service.scv) * self.service.mean**2
        return self.arrival_rate * second / (2.0 * (1.0 - self.utilisation))

    @cached_property
    def _solved(self) -> MapPh1:
        service = (
            self.service if isinstance(self.service, PH) else fit_ph(self.service.mean, self.service.scv)
        )
        return MapPh1(Poisson(self.arrival_rate), service)

    def _percentile(self, share: float) -> float:
        return self._solved.percentile(share)

    def _variance(self) -> float:
        return self._solved.variance


class MM1(Mg1):
    """Poisson arrivals, exponential service: response exponential with mean E[S] / (1 - rho).

    >>> MM1(0.5, 1.0).mean_response
    2.0
    """

    def __init__(self, arrivals: Arrivals | float, service: Service | float) -> None:
        mean = float(service) if isinstance(service, int | float) else service.mean
        super().__init__(arrivals, Exponential(mean))
