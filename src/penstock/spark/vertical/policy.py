"""MEAD on micro-batches: its algorithm with the response of a chain that Spark runs batch by batch.

The operators of a chain work side by side on one batch, so the slowest sets the pace:

    batch of n tuples = overhead + n max_i(demand_i / share_i)

and the response of a tuple is that of the micro-batch queue (:class:`penstock.models.MicroBatch`) under the worst of the
fitted arrival processes. The rest, windows, best fits, Fig. 5 and slow release, is :class:`penstock.policies.Mead`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import isnan

from penstock.core.metrics import Metric
from penstock.core.observation import Observation
from penstock.models import MAP, MicroBatch
from penstock.policies import Mead
from penstock.policies.mead import MeadState
from penstock.policies.mead_model import Operator, Prediction, Resources


@dataclass(frozen=True, eq=False)
class ChainModel:
    """Response of a chain in micro-batches under given CPU shares."""

    operators: tuple[Operator, ...]
    processes: tuple[MAP, ...]
    trigger: float
    overhead: float
    percentile: float | None = None

    @cached_property
    def _memo(self) -> dict[float, float]:
        return {}

    @cached_property
    def _queries(self) -> list[MicroBatch]:
        return [MicroBatch(p, self.trigger, self.overhead, 1.0) for p in self.processes]

    @property
    def paths(self) -> tuple[tuple[str, ...], ...]:
        """The one path there is."""
        return (tuple(o.name for o in self.operators),)

    def predict(self, resources: Mapping[str, Resources]) -> Prediction:
        """The worst response over all processes; an operator's own is its time for a tuple."""
        each = {o.name: o.demand / resources[o.name][1] for o in self.operators}
        slowest = max(each.values())
        if slowest not in self._memo:
            self._memo[slowest] = max(self._response(q, slowest) for q in self._queries)
        return Prediction({self.paths[0]: self._memo[slowest]}, each)

    def _response(self, query: MicroBatch, per_tuple: float) -> float:
        sized = query.with_capacity(workers=1.0 / per_tuple)
        return sized.mean_response if self.percentile is None else sized.percentile(self.percentile)


@dataclass(frozen=True, slots=True)
class BatchMead(Mead):
    """:class:`penstock.policies.Mead` for a chain of operators on Spark; "mg1" means Poisson arrivals of the same rate."""

    name: str = "Mead"

    def _model(self, state: MeadState, observation: Observation) -> tuple[object, str]:  # type: ignore[override]
        """As in Mead, but the plant's trigger turns the chain of operators into one micro-batch queue."""
        if not observation.stages:
            return None, "no operators to look at"
        source = observation.stages[0]
        trigger, overhead = (
            source.extra.get("trigger", 0.0),
            source.extra.get(Metric.OVERHEAD_TIME.value, 0.0),
        )
        known = dict(state.demands)
        if self.model == "gig1" or not trigger > 0:
            return Mead._model(self, state, observation)
        missing = [s.name for s in observation.stages if s.name not in known]
        if missing:
            return None, f"the service demand of {missing[0]} is not known yet"
        gaps = source.interarrivals
        if gaps is None or len(gaps) < self.least or not gaps.sum() > 0:
            return None, f"{0 if gaps is None else len(gaps)} of {self.least} inter-arrival times seen"
        operators = tuple(Operator(s.name, known[s.name].seconds) for s in observation.stages)
        fixed = 0.0 if isnan(overhead) else overhead
        return ChainModel(operators, self._processes(gaps), trigger, fixed, self.percentile), ""
