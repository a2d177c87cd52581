"""Kingman's approximation for GI/G/1: sees the variability of the gaps, not their correlation."""

from typing import ClassVar

from penstock.models.queue import Arrivals, Queue, Service


class Kingman(Queue):
    """Wait = rho / (1 - rho) (SCV_a + SCV_s) / 2 E[S] (Kingman 1961; MPC section 3.2). Means only.

    >>> from penstock.models.queue import TwoMoments
    >>> Kingman(TwoMoments(2.0, scv=1.0), TwoMoments(1.0, scv=1.0)).mean_wait
    1.0
    """

    method: ClassVar[str] = "approximation of the mean only, independent gaps assumed"

    def __init__(self, arrivals: Arrivals | float, service: Service) -> None:
        super().__init__(arrivals, service)

    def _mean_wait(self) -> float:
        rho = self.utilisation
        return rho / (1.0 - rho) * (self.arrivals.scv + self.service.scv) / 2.0 * self.service.mean
