"""Response times of an application by analysis: exact at the sources, the reduction principle behind them.

A burst waits once, not at every station: in a line of servers with constant service times the waits add up to that
of the slowest server alone, fed by the external stream (Friedman 1965). So the burst wait up to a station is the
largest MAP/PH/1 wait B_u among the stations u passed so far, each fed by the external arrivals thinned to its share of
the visits. What the variability of single services adds is a calm wait L_v, Kingman's with the variability of the
departures passed on as in QNA (Whitt 1983): SCV_d = rho^2 SCV_s + (1 - rho^2) SCV_a. A station's wait is

    W_v = max(B_v - max_{u before v} B_u, L_v).

A join waits for the slowest branch: bursts hit all branches at once (their maximum counts), calm parts are taken as
independent. ``docs/models.md`` shows the error against simulation.
"""

from dataclasses import dataclass
from functools import cached_property
from math import inf, sqrt

import numpy as np
from numpy.typing import NDArray

from penstock.models.exponential_form import ExponentialForm
from penstock.models.fitted import FittedMap
from penstock.models.kingman import Kingman
from penstock.models.map import MAP
from penstock.models.map2 import fit_map2
from penstock.models.map_ph1 import MapPh1
from penstock.models.matrix_exponential import expm
from penstock.models.network import Application
from penstock.models.phase_type import PH
from penstock.models.phase_type_fit import fit_ph
from penstock.models.queue import TwoMoments, as_share

Floats = NDArray[np.float64]

#: Superpositions larger than this are made of MAP(2)s with the same SCV, skewness and dispersion.
_MOST_PHASES = 32
#: Share of a stream that stands for none of it, where an operator passes nothing on.
_NOTHING = 1e-9


@dataclass(frozen=True, eq=False)
class StationLoad:
    """One station seen alone: its queue fed by the external stream, and the variability of what really arrives."""

    name: str
    queue: MapPh1
    service: PH
    batch: float
    scv_in: float

    @cached_property
    def burst_wait(self) -> float:
        """B_v, seconds."""
        return self.queue.mean_wait

    @cached_property
    def calm_wait(self) -> float:
        """L_v, seconds; with batches, half of one's own batch on top."""
        gaps = TwoMoments(self.queue.arrivals.mean, self.scv_in)
        calm = Kingman(gaps, TwoMoments(self.queue.service.mean, self.queue.service.scv)).mean_wait
        return calm + max(self.batch - 1.0, 0.0) / 2.0 * self.service.mean

    @property
    def scv_out(self) -> float:
        """Variability of the departures, before routing."""
        rho = min(self.queue.utilisation, 1.0)
        return rho**2 * self.service.scv + (1.0 - rho**2) * self.scv_in


@dataclass(frozen=True, eq=False)
class PathResponse:
    """Time from the source to the end of the last station of a path."""

    path: tuple[str, ...]
    mean: float
    law: ExponentialForm | None

    def percentile(self, q: float) -> float:
        """The time that a share ``q`` of the tuples stays within."""
        share = as_share(q)
        return inf if self.law is None else self.law.quantile(share)


@dataclass(frozen=True, eq=False)
class NetworkResponse:
    """Loads and mean responses of the stations, and the response of every path."""

    loads: dict[str, StationLoad]
    station_means: dict[str, float]
    paths: dict[tuple[str, ...], PathResponse]

    @property
    def stable(self) -> bool:
        """Whether every station keeps up."""
        return all(load.queue.stable for load in self.loads.values())

    @property
    def slowest(self) -> PathResponse:
        """The path with the largest mean."""
        return max(self.paths.values(), key=lambda path: path.mean)


def solve_network(app: Application) -> NetworkResponse:
    """Mean response of every station; mean and percentiles of every source-to-sink path.

    >>> from penstock.models import Poisson
    >>> from penstock.models.phase_type import Exponential
    >>> from penstock.models.network import Edge, Station
    >>> app = Application(
    ...     [Station("a", Exponential(0.5)), Station("b", Exponential(0.8))], [Edge("a", "b")], {"a": Poisson(1.0)}
    ... )
    >>> round(solve_network(app).paths["a", "b"].mean, 9)  # two M/M/1 queues in a row
    5.0
    """
    loads = _loads(app)
    walks = {path: _Walk(app, loads).along(path) for path in app.paths}
    means: dict[str, float] = {}
    for walk in walks.values():
        for name, wait in walk.waits.items():
            means[name] = max(means.get(name, 0.0), wait + loads[name].service.mean)
    return NetworkResponse(loads, means, {path: walk.response(path) for path, walk in walks.items()})


def _loads(app: Application) -> dict[str, StationLoad]:
    loads: dict[str, StationLoad] = {}
    for name in app.order:
        station, visits = app.station(name), app.visits[name]
        batch = max(1.0, *visits.values())
        streams = [
            app.sources[source].thinned(min(max(count / batch, _NOTHING), 1.0))
            for source, count in visits.items()
        ]
        arrivals = _superposed(streams)
        service = station.effective
        whole = service if batch == 1.0 else fit_ph(batch * service.mean, service.scv / batch)
        inputs = [app.sources[name].scv] if name in app.sources else []
        weights = [app.sources[name].rate] if name in app.sources else []
        for edge in app.inputs(name):
            load = loads[edge.source]
            kept = min(max(app.station(edge.source).selectivity * edge.fraction, _NOTHING), 1.0)
            inputs.append(kept * load.scv_out + 1.0 - kept)
            weights.append(load.queue.arrival_rate * kept)
        scv = float(np.average(inputs, weights=weights))
        loads[name] = StationLoad(name, MapPh1(arrivals, whole), service, batch, scv)
    return loads


def _superposed(streams: list[MAP]) -> MAP:
    if np.prod([stream.order for stream in streams]) > _MOST_PHASES:
        streams = [_as_map2(stream) for stream in streams]
    total = streams[0]
    for stream in streams[1:]:
        total = total.superpose(stream)
    return total


def _as_map2(stream: MAP) -> FittedMap:
    return fit_map2(
        stream.mean, scv=stream.scv, skewness=stream.skewness, dispersion=max(stream.dispersion, 0.1)
    )


class _Walk:
    """Burst and calm waits collected along a path."""

    def __init__(self, app: Application, loads: dict[str, StationLoad]) -> None:
        self.app, self.loads = app, loads
        self.waits: dict[str, float] = {}
        #: The station whose queue carries the burst so far.
        self.worst: StationLoad | None = None
        self.calm_mean = self.calm_variance = 0.0

    def along(self, path: tuple[str, ...], burst: "StationLoad | None" = None) -> "_Walk":
        self.worst = burst
        for index, name in enumerate(path):
            if self.app.station(name).join:
                self._join(path, index)
            self._pass(self.loads[name])
        return self

    def _pass(self, load: StationLoad) -> None:
        before = self.worst.burst_wait if self.worst else 0.0
        rise = max(load.burst_wait - before, 0.0) if load.queue.stable else inf
        first = load.name in self.app.sources and self.worst is None
        calm = 0.0 if first or rise == inf else max(load.calm_wait - rise, 0.0)
        if rise > 0.0:
            self.worst = load
        self.waits[load.name] = rise + calm
        self.calm_mean += calm + load.service.mean
        self.calm_variance += calm**2 + load.service.variance

    def _join(self, path: tuple[str, ...], index: int) -> None:
        """Replace what was collected since the fork by the slowest of all branches."""
        branches = self._branches(path, index)
        way = _since_fork(path[:index], branches)
        # The burst carrier at the fork, which all branches begin with, this path's own among them.
        fork = _Walk(self.app, self.loads).along(path[: index - len(way)]).worst
        walks = [_Walk(self.app, self.loads).along(branch, fork) for branch in branches]
        own = _Walk(self.app, self.loads).along(way, fork)
        mean, variance = _slowest([(w.calm_mean, w.calm_variance) for w in walks])
        self.calm_mean += mean - own.calm_mean
        self.calm_variance = max(self.calm_variance + variance - own.calm_variance, 0.0)
        for walk in walks:
            if walk.worst and (self.worst is None or walk.worst.burst_wait > self.worst.burst_wait):
                self.worst = walk.worst

    def _branches(self, path: tuple[str, ...], index: int) -> list[tuple[str, ...]]:
        """The ways from the fork to the join, without both."""
        ways = {
            way[: way.index(path[index])]
            for way in self.app.paths
            if path[index] in way and way[0] == path[0]
        }
        shared = 0
        while all(len(way) > shared and way[shared] == path[shared] for way in ways):
            shared += 1
        return sorted(way[shared:] for way in ways)

    def response(self, path: tuple[str, ...]) -> PathResponse:
        if any(not self.loads[name].queue.stable for name in self.waits) or self.worst is None:
            return PathResponse(path, inf, None)
        calm = fit_ph(self.calm_mean, self.calm_variance / self.calm_mean**2)
        return PathResponse(path, self.worst.burst_wait + self.calm_mean, self.worst.queue.wait.plus(calm))


def _since_fork(way: tuple[str, ...], branches: list[tuple[str, ...]]) -> tuple[str, ...]:
    """The end of ``way`` that is one of the branches."""
    for branch in sorted(branches, key=len, reverse=True):
        if branch and way[-len(branch) :] == branch:
            return branch
    return ()


def _slowest(moments: list[tuple[float, float]]) -> tuple[float, float]:
    """Mean and variance of the maximum of independent values with these means and variances."""
    laws = [fit_ph(mean, max(variance / mean**2, 0.02)) for mean, variance in moments if mean > 0.0]
    if not laws:
        return 0.0, 0.0
    top = max(mean + 14.0 * sqrt(variance) for mean, variance in moments)
    x = np.linspace(0.0, top, 400)
    below = np.prod([1.0 - _survival_on(law, x) for law in laws], axis=0)
    mean = float(np.trapezoid(1.0 - below, x))
    second = float(np.trapezoid(2.0 * x * (1.0 - below), x))
    return mean, max(second - mean**2, 0.0)


def _survival_on(law: PH, x: Floats) -> Floats:
    """Survival at evenly spaced points, one matrix exponential for all."""
    step = expm(law.T * (x[1] - x[0]))
    row, values = law.alpha, np.empty(x.size)
    for i in range(x.size):
        values[i] = row.sum()
        row = row @ step
    return values
