"""Several replicas: approximations for one shared line, and the exact split where tuples are routed at random."""

from functools import cached_property
from math import exp, lgamma, log
from typing import ClassVar, Literal

from penstock.core.errors import PenstockError
from penstock.models.exponential_form import ExponentialForm
from penstock.models.map import MAP
from penstock.models.map_ph1 import MapPh1
from penstock.models.mg1 import Mg1
from penstock.models.phase_type import PH
from penstock.models.phase_type_fit import fit_ph
from penstock.models.queue import Arrivals, Queue, Service

Routing = Literal["shared", "random"]


class GGn(Queue):
    """``servers`` replicas.

    ``routing="shared"``: one line, any free replica takes the next tuple. With MAP arrivals the wait is that of
    MAP/PH/1 with a single server of n-fold speed, less what n servers spare single tuples: under Poisson arrivals that
    is the share 1 - C(n, rho) / rho of the wait, with Erlang's C; in a burst all replicas are busy and nothing is
    spared. Exact for M/M/n and for n = 1. With two moments it is the Allen-Cunneen formula
    C(n, rho) / (n (1 - rho)) (SCV_a + SCV_s) / 2 E[S], means only.

    ``routing="random"``: each tuple goes to one replica by chance (or by the hash of many keys), which then sees the MAP
    thinned to 1/n: exact, given phase-type service.

    >>> from penstock.models.phase_type import Exponential
    >>> round(GGn(1.5, Exponential(1.0), servers=2).mean_wait, 9)  # M/M/2
    1.285714286
    """

    method: ClassVar[str] = "approximation (shared line) or exact (random routing)"

    def __init__(
        self, arrivals: Arrivals | float, service: Service, servers: int = 1, routing: Routing = "shared"
    ) -> None:
        super().__init__(arrivals, service, servers)
        if routing not in ("shared", "random"):
            raise PenstockError(f"Tuples share one line or are routed at random; '{routing}' is neither.")
        if routing == "random" and not isinstance(self.arrivals, MAP):
            raise PenstockError(
                "Random routing needs a MAP as its arrivals; make one with fit_map2 or fit_kpc."
            )
        self.routing = routing

    @cached_property
    def _single(self) -> MapPh1 | None:
        """The MAP/PH/1 queue behind: one replica's own, or the fast server of the shared line."""
        if not isinstance(self.arrivals, MAP):
            return None
        service = (
            self.service if isinstance(self.service, PH) else fit_ph(self.service.mean, self.service.scv)
        )
        if self.routing == "random":
            return MapPh1(self.arrivals.thinned(1.0 / self.servers), service)
        return MapPh1(self.arrivals, service.scaled(service.mean / self.servers))

    @cached_property
    def _thinning(self) -> float:
        """How much less a tuple waits for n servers than for one of n-fold speed: 1 - (1 - C/rho) W_M / W_MAP."""
        assert self._single is not None
        spared = 1.0 - erlang_c(self.servers, self.utilisation) / self.utilisation
        calm = Mg1(self._single.arrivals, self._single.service).mean_wait
        return 1.0 - spared * min(calm / self._single.mean_wait, 1.0)

    def _mean_wait(self) -> float:
        if self._single is None:
            rho, spread = self.utilisation, (self.arrivals.scv + self.service.scv) / 2.0
            return erlang_c(self.servers, rho) / (self.servers * (1.0 - rho)) * spread * self.service.mean
        return self._single.mean_wait * (1.0 if self.routing == "random" else self._thinning)

    @cached_property
    def _response(self) -> ExponentialForm:
        """Wait, thinned to the n-server probability, plus an independent service."""
        if self._single is None:
            raise PenstockError(
                "GGn knows percentiles for MAP arrivals only; make one with fit_map2 or fit_kpc."
            )
        service = (
            self.service if isinstance(self.service, PH) else fit_ph(self.service.mean, self.service.scv)
        )
        if self.routing == "random" or self.servers == 1:
            return self._single.response
        wait = self._single.wait
        return ExponentialForm(self._thinning * wait.start, wait.form_generator, wait.pay).plus(service)

    def _percentile(self, share: float) -> float:
        return self._response.quantile(share)

    def _variance(self) -> float:
        return self._response.variance


def erlang_c(servers: int, rho: float) -> float:
    """Probability that all of ``servers`` are busy at load ``rho`` each (M/M/n).

    >>> round(erlang_c(1, 0.5), 9), round(erlang_c(2, 0.75), 9)
    (0.5, 0.642857143)
    """
    if rho >= 1.0:
        return 1.0
    load = servers * rho
    logs = [k * log(load) - lgamma(k + 1) for k in range(servers + 1)]
    top = exp(logs[-1] - max(logs)) / (1.0 - rho)
    return top / (sum(exp(value - max(logs)) for value in logs[:-1]) + top)
