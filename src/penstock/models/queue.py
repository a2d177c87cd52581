"""The one interface of all queues: what a sizing decision asks, infinite where the queue is not stable."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import inf, isfinite
from typing import ClassVar

from penstock.core.errors import PenstockError
from penstock.models.arrivals import Poisson
from penstock.models.map import MAP
from penstock.models.phase_type import PH


@dataclass(frozen=True)
class TwoMoments:
    """Gaps or service times of which only the mean (seconds) and the SCV are known; SCV 0 is a constant."""

    mean: float
    scv: float = 1.0

    def __post_init__(self) -> None:
        if not (self.mean > 0.0 and isfinite(self.mean)):
            raise PenstockError(f"A mean time of {self.mean} s is impossible; give a number above zero.")
        if not (self.scv >= 0.0 and isfinite(self.scv)):
            raise PenstockError(f"An SCV of {self.scv} is impossible; give zero or more.")

    @property
    def rate(self) -> float:
        """Per second."""
        return 1.0 / self.mean


Arrivals = MAP | TwoMoments
Service = PH | TwoMoments


class Queue(ABC):
    """Tuples come, wait in one line, are served in order of arrival.

    Utilisation at or above 1 is an answer, not an error: means and percentiles are then infinite.
    """

    #: How the figures are meant, in words.
    method: ClassVar[str] = "exact"

    def __init__(self, arrivals: Arrivals | float, service: Service, servers: int = 1) -> None:
        if servers < 1 or servers != int(servers):
            raise PenstockError(f"A queue has a whole number of servers of 1 or more, not {servers}.")
        self.arrivals: Arrivals = Poisson(float(arrivals)) if isinstance(arrivals, int | float) else arrivals
        self.service = service
        self.servers = int(servers)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(utilisation={self.utilisation:.4g}, mean_response={self.mean_response:.6g})"

    @property
    def arrival_rate(self) -> float:
        """Tuples per second."""
        return self.arrivals.rate

    @property
    def utilisation(self) -> float:
        """Offered load per server; 1 or more means the queue grows without end."""
        return self.arrival_rate * self.service.mean / self.servers

    @property
    def stable(self) -> bool:
        """Whether the queue can keep up; within rounding of 1 it cannot."""
        return self.utilisation < 1.0 - 1e-9

    @property
    def mean_wait(self) -> float:
        """Mean time in line before service, seconds."""
        return self._mean_wait() if self.stable else inf

    @property
    def mean_response(self) -> float:
        """Mean time from arrival to the end of service, seconds."""
        return self.mean_wait + self.service.mean

    @property
    def mean_queue(self) -> float:
        """Mean number of tuples present, waiting or in service (Little: rate x mean response)."""
        return self.arrival_rate * self.mean_response

    @property
    def mean_waiting(self) -> float:
        """Mean number of tuples in line, not yet in service."""
        return self.arrival_rate * self.mean_wait

    def percentile(self, q: float) -> float:
        """The response time that a share ``q`` of the tuples stays within; 0.95 and 95 mean the same."""
        share = as_share(q)
        return self._percentile(share) if self.stable else inf

    @property
    def variance(self) -> float:
        """Variance of the response time."""
        return self._variance() if self.stable else inf

    @abstractmethod
    def _mean_wait(self) -> float: ...

    def _percentile(self, share: float) -> float:
        raise PenstockError(f"{type(self).__name__} knows means only; use MapPh1 or Mg1 for percentiles.")

    def _variance(self) -> float:
        raise PenstockError(f"{type(self).__name__} knows means only; use MapPh1 or Mg1 for the variance.")


def as_share(q: float) -> float:
    """0.95 of 0.95 or of 95."""
    share = q / 100.0 if q >= 1.0 else q
    if not 0.0 <= share < 1.0:
        raise PenstockError(f"A percentile lies between 0 and below 100 (or below 1 as a share), not at {q}.")
    return share
