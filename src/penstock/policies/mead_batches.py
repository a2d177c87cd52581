"""Predicted response times where tuples wait for micro-batches, for the policy :class:`Mead`."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import inf
from typing import ClassVar

from penstock.models import MAP, MicroBatch
from penstock.policies.mead_model import ModelledOperator, Prediction, Resources


@dataclass(frozen=True, eq=False)
class BatchModel:
    """A micro-batch query: a tuple waits for its batch, whatever the operator (one operator, one path)."""

    side_by_side: ClassVar[bool] = False
    operators: tuple[ModelledOperator, ...]
    source: str
    processes: tuple[MAP, ...]
    trigger: float
    overhead: float
    slots: float = 1.0
    percentile: float | None = None

    @property
    def paths(self) -> tuple[tuple[str, ...], ...]:
        """The query itself."""
        return ((self.source,),)

    @cached_property
    def _queries(self) -> list[MicroBatch]:
        demand = self.operators[0].demand
        return [
            MicroBatch(p, self.trigger, self.overhead, demand, workers=self.slots) for p in self.processes
        ]

    @property
    def load(self) -> float:
        """Slots that are busy on average, in the worst case."""
        return max(p.rate for p in self.processes) * self.operators[0].demand

    def predict(self, resources: Mapping[str, Resources]) -> Prediction:
        """The worst prediction over all arrival processes."""
        response = self.response(*resources[self.source])
        return Prediction({(self.source,): response}, {self.source: response})

    def response(self, replicas: float, share: float) -> float:
        """The worst response over all arrival processes."""
        times = []
        for query in self._queries:
            sized = query.with_capacity(workers=replicas * self.slots, share=share)
            times.append(
                sized.mean_response if self.percentile is None else sized.percentile(self.percentile)
            )
        return max(times)


@dataclass(frozen=True, eq=False)
class QueriesModel:
    """Several micro-batch queries on the same executors: what the others need on average is not there for one."""

    side_by_side: ClassVar[bool] = False
    queries: tuple[BatchModel, ...]

    @cached_property
    def operators(self) -> tuple[ModelledOperator, ...]:
        """The queries."""
        return tuple(o for query in self.queries for o in query.operators)

    @property
    def paths(self) -> tuple[tuple[str, ...], ...]:
        """Each query by itself."""
        return tuple(path for query in self.queries for path in query.paths)

    def predict(self, resources: Mapping[str, Resources]) -> Prediction:
        """Each query on the slots that the others leave."""
        paths: dict[tuple[str, ...], float] = {}
        for query in self.queries:
            replicas, share = resources[query.source]
            others = sum(o.load for o in self.queries if o is not query) / query.slots / share
            # Where the others alone need all there is, nothing meets a target.
            left = replicas - others
            paths[query.paths[0]] = query.response(left, share) if left > 0.01 * replicas else inf
        return Prediction(paths, {path[0]: seconds for path, seconds in paths.items()})


@dataclass(frozen=True, eq=False)
class StagesModel:
    """Operators that work on the same micro-batch: those of one level side by side, one level after the other.

        batch of n tuples = overhead + n sum over levels of max_i visits_i demand_i / (replicas_i share_i)

    where an operator sees ``visits`` of its tuples for one from outside. The response of a tuple is that of the
    micro-batch queue under the worst of the arrival processes. Whatever a batch gives out is there when it is committed,
    so the paths to all ``sinks`` have the same response, and each goes through all operators.
    """

    #: Whether operators wait for each other, so that one alone that gets more may gain nothing.
    side_by_side: ClassVar[bool] = True
    operators: tuple[ModelledOperator, ...]
    levels: Mapping[str, int]
    visits: Mapping[str, float]
    processes: tuple[MAP, ...]
    trigger: float
    overhead: float
    percentile: float | None = None
    sinks: tuple[str, ...] = ()  # the last operator unless given

    @cached_property
    def _memo(self) -> dict[float, float]:
        return {}

    @cached_property
    def _queries(self) -> list[MicroBatch]:
        return [MicroBatch(p, self.trigger, self.overhead, 1.0) for p in self.processes]

    @cached_property
    def paths(self) -> tuple[tuple[str, ...], ...]:
        """One for each sink, in which it ends, through all operators: a tuple is done when its batch is."""
        names = [o.name for o in self.operators]
        return tuple((*(n for n in names if n != sink), sink) for sink in self.sinks or names[-1:])

    def predict(self, resources: Mapping[str, Resources]) -> Prediction:
        """The worst response over all processes.

        An operator's own figure, by which Fig. 5 chooses whom to help, is its time for a tuple; no time for one that
        another of its level outlasts, since more for it would change nothing.
        """
        each = {}
        for operator in self.operators:
            replicas, share = resources[operator.name]
            each[operator.name] = self.visits[operator.name] * operator.demand / (replicas * share)
        slowest: dict[int, float] = {}
        for name, seconds in each.items():
            slowest[self.levels[name]] = max(slowest.get(self.levels[name], 0.0), seconds)
        per_tuple = sum(slowest.values())
        if per_tuple not in self._memo:
            self._memo[per_tuple] = max(self._response(q, per_tuple) for q in self._queries)
        helpful = {n: s if s == slowest[self.levels[n]] else 0.0 for n, s in each.items()}
        return Prediction(dict.fromkeys(self.paths, self._memo[per_tuple]), helpful)

    def _response(self, query: MicroBatch, per_tuple: float) -> float:
        sized = query.with_capacity(workers=1.0 / per_tuple)
        return sized.mean_response if self.percentile is None else sized.percentile(self.percentile)
