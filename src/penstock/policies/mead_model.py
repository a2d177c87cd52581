"""Predicted response times of an application under given resources, for the policy :class:`Mead` (MEAD V-A)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import ClassVar

from penstock.models import MAP, Kingman
from penstock.models.network import Application, Edge, Station
from penstock.models.network_solve import solve_network
from penstock.models.phase_type_fit import fit_ph
from penstock.models.queue import TwoMoments

#: Replicas and CPU share of one operator.
Resources = tuple[int, float]


@dataclass(frozen=True, slots=True)
class ModelledOperator:
    """One operator: seconds a tuple on a whole core, its variability, selectivity, and who gets its output."""

    name: str
    demand: float
    scv: float = 0.5
    selectivity: float = 1.0
    arrival_scv: float = 1.0
    downstream: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Prediction:
    """Response time of every path, and of every operator."""

    paths: dict[tuple[str, ...], float]
    operators: dict[str, float]


@dataclass(frozen=True, eq=False)
class NetworkModel:
    """An open network of single-server queues, fed at its sources in each of several ways; the worst counts.

    An operator with k replicas is a server that is k times as fast; a tuple's own service still takes as long as on
    one of them, so (1 - 1/k) of it is added to the response.
    """

    side_by_side: ClassVar[bool] = False
    operators: tuple[ModelledOperator, ...]
    arrivals: tuple[Mapping[str, MAP], ...]  # processes by source
    percentile: float | None = None

    @cached_property
    def _memo(self) -> dict[tuple[Resources, ...], Prediction]:
        return {}

    @cached_property
    def paths(self) -> tuple[tuple[str, ...], ...]:
        """Every way from a source to a sink."""
        return self._application(self.arrivals[0], {o.name: (1, 1.0) for o in self.operators}).paths

    def predict(self, resources: Mapping[str, Resources]) -> Prediction:
        """The worst prediction over all arrival processes."""
        key = tuple(resources[o.name] for o in self.operators)
        if key not in self._memo:
            self._memo[key] = _worst([self._solve(processes, resources) for processes in self.arrivals])
        return self._memo[key]

    def _solve(self, processes: Mapping[str, MAP], resources: Mapping[str, Resources]) -> Prediction:
        solved = solve_network(self._application(processes, resources))
        own = {o.name: _lost(o, resources[o.name]) for o in self.operators}
        paths = {}
        for path, response in solved.paths.items():
            time = response.mean if self.percentile is None else response.percentile(self.percentile)
            paths[path] = time + sum(own[name] for name in path)
        return Prediction(paths, {n: m + own[n] for n, m in solved.station_means.items()})

    def _application(self, processes: Mapping[str, MAP], resources: Mapping[str, Resources]) -> Application:
        stations = [
            Station(
                o.name, fit_ph(o.demand / resources[o.name][0], o.scv), o.selectivity, resources[o.name][1]
            )
            for o in self.operators
        ]
        edges = [Edge(o.name, below) for o in self.operators for below in o.downstream]
        return Application(stations, edges, processes)


@dataclass(frozen=True, eq=False)
class KingmanModel:
    """Every operator a GI/G/1 queue by Kingman's formula, waits added up along the path; means only."""

    side_by_side: ClassVar[bool] = False
    operators: tuple[ModelledOperator, ...]
    arrivals: Mapping[str, float]  # tuples a second by source

    @cached_property
    def _by_name(self) -> dict[str, ModelledOperator]:
        return {o.name: o for o in self.operators}

    @cached_property
    def paths(self) -> tuple[tuple[str, ...], ...]:
        """Every way from a source to a sink."""
        found: list[tuple[str, ...]] = []
        open_: list[tuple[str, ...]] = [(source,) for source in self.arrivals]
        while open_:
            path = open_.pop()
            below = self._by_name[path[-1]].downstream
            found += [] if below else [path]
            open_ += [(*path, name) for name in below]
        return tuple(sorted(found))

    @cached_property
    def rates(self) -> dict[str, float]:
        """Tuples a second into every operator."""
        rates = dict.fromkeys(self._by_name, 0.0) | dict(self.arrivals)
        seen = {step for path in self.paths for step in pairwise(path)}
        for name in sorted(
            self._by_name, key=lambda n: max((p.index(n) for p in self.paths if n in p), default=0)
        ):
            for above, below in seen:
                if above == name:
                    rates[below] += rates[name] * self._by_name[name].selectivity
        return rates

    def predict(self, resources: Mapping[str, Resources]) -> Prediction:
        """Waits by Kingman plus services."""
        each = {}
        for operator in self.operators:
            replicas, share = resources[operator.name]
            service = TwoMoments(operator.demand / replicas / share, operator.scv)
            rate = self.rates[operator.name]
            queue = Kingman(TwoMoments(1.0 / max(rate, 1e-12), operator.arrival_scv), service)
            each[operator.name] = queue.mean_response + _lost(operator, resources[operator.name])
        return Prediction({p: sum(each[n] for n in p) for p in self.paths}, each)


def _worst(predictions: Sequence[Prediction]) -> Prediction:
    paths = {p: max(q.paths[p] for q in predictions) for p in predictions[0].paths}
    return Prediction(paths, {n: max(q.operators[n] for q in predictions) for n in predictions[0].operators})


def _lost(operator: ModelledOperator, resources: Resources) -> float:
    """What a server that is k times as fast understates of one tuple's own service."""
    replicas, share = resources
    return (1.0 - 1.0 / replicas) * operator.demand / share
