"""What Mead knows of operators, and the model it makes of that: a network of queues, or batches of one or more queries."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite, isnan, nan
from typing import Any

import numpy as np

from penstock.core.capacity import Knob
from penstock.core.observation import Observation, StageObservation
from penstock.policies.batch_waiting import AT_ONCE
from penstock.policies.mead_batches import BatchModel, QueriesModel, StagesModel
from penstock.policies.mead_fits import Fits
from penstock.policies.mead_model import KingmanModel, ModelledOperator, NetworkModel

Model = NetworkModel | KingmanModel | BatchModel | QueriesModel | StagesModel


@dataclass(frozen=True, slots=True)
class OperatorDemand:
    """Averages of what is known of one operator: seconds a tuple on a whole core, its SCV, selectivity."""

    seconds: float
    scv: float
    selectivity: float


#: By operator.
Demands = dict[str, OperatorDemand]


def measured(known: Demands, observation: Observation, given: Mapping[str, float]) -> Demands:
    """The demands with those of an observation blended in; seconds that are given stay."""
    known = dict(known)
    for stage in observation.stages:
        fresh = _demand(stage, given.get(stage.name))
        if fresh is not None:
            known[stage.name] = _blend(known.get(stage.name), fresh, given=stage.name in given)
    return known


@dataclass(frozen=True, slots=True)
class ModelMaker:
    """Makes models of the kind asked for ("map", "mg1" or "gig1")."""

    model: str
    percentile: float | None
    knob: Knob
    least: int  # inter-arrival times needed for a fit

    def made(self, known: Demands, observation: Observation, found: Fits) -> tuple[Model | None, str]:
        """The model for what is observed; None, and why, where something is not known yet."""
        together = [s for s in observation.stages if not isnan(s.level) and s.cpu_share is not None]
        if together:
            return self._stages(known, observation, together, found)
        stages = {s.name: s for s in observation.stages}
        fed = {name for s in observation.stages for name in s.downstream}
        sources = [s for s in observation.stages if s.name not in fed]
        if not sources:
            return None, "no stage that takes external arrivals"
        # One that is too quiet for a fit counts by its rate; all of them too quiet are waited for.
        gaps = {s.name: g for s in sources if (g := self._gaps(s)[0]) is not None}
        if not gaps:
            return None, self._gaps(sources[0])[1]
        sources = [s for s in sources if s.name in gaps or s.arrival_rate > 0]
        operators = _operators(sources, stages, known)
        if operators is None:
            return None, "the service demand of an operator is not known yet"
        if in_batches(sources[0]):
            return self._queries(observation, sources, operators, gaps, found), ""
        if self.model == "gig1":
            own = {n: float(np.var(g) / np.mean(g) ** 2) for n, g in gaps.items()}
            operators = tuple(replace(o, arrival_scv=own.get(o.name, o.arrival_scv)) for o in operators)
            rates = {s.name: s.arrival_rate for s in sources}
            return KingmanModel(operators, rates | {n: 1.0 / float(np.mean(g)) for n, g in gaps.items()}), ""
        fits = {s.name: self._arrivals(s, gaps.get(s.name), found) for s in sources}
        # The n-th fit of every source together: all combinations would be too many.
        arrivals = tuple(
            {n: own[min(i, len(own) - 1)] for n, own in fits.items()}
            for i in range(max(len(own) for own in fits.values()))
        )
        return NetworkModel(operators, arrivals, self.percentile), ""

    def _gaps(self, source: StageObservation) -> tuple[Any, str]:
        gaps = source.interarrivals
        if gaps is not None and not in_batches(source):  # queues know single tuples only
            gaps = gaps / source.interarrival_rows
        if gaps is None or len(gaps) < self.least or not float(np.sum(gaps)) > 0:
            return None, f"{0 if gaps is None else len(gaps)} of {self.least} inter-arrival times seen"
        return np.asarray(gaps, dtype=float), ""

    def _stages(
        self, known: Demands, observation: Observation, stages: Sequence[StageObservation], found: Fits
    ) -> tuple[Model | None, str]:
        """Stages of one micro-batch query: what has no share of its own is part of the overhead."""
        missing = [s.name for s in stages if s.name not in known]
        if missing:
            return None, f"the service demand of {missing[0]} is not known yet"
        source = next((s for s in observation.stages if s.interarrivals is not None), stages[0])
        gaps, why = self._gaps(source)
        if gaps is None:
            return None, why
        trigger = source.trigger
        if not trigger > 0:
            return None, "the time between two batches is not known"
        overhead = source.overhead_time
        return (
            StagesModel(
                tuple(ModelledOperator(s.name, known[s.name].seconds * self._each(source)) for s in stages),
                {s.name: int(s.level) for s in stages},
                {s.name: s.visits for s in stages},
                self._arrivals(source, gaps, found),
                trigger,
                0.0 if isnan(overhead) else overhead,
                self.percentile,
                _sinks(observation),
            ),
            "",
        )

    def _arrivals(self, source: StageObservation, gaps: Any, found: Fits) -> tuple[Any, ...]:
        from penstock.models import Poisson

        if gaps is None:
            return (Poisson(source.arrival_rate / self._each(source)),)
        single = source.interarrival_rows if in_batches(source) else 1.0
        return found.of(source.name, gaps * (self._each(source) / single))

    def _each(self, source: StageObservation) -> float:
        """Tuples that come together in the arrival process.

        A fast stream is seen in groups of tuples, and a batch of groups takes as long as one of their tuples. What groups
        do not have is the variability of single tuples, which is all that models without correlation know.
        """
        return source.interarrival_rows if in_batches(source) and self.model == "map" else 1.0

    def _queries(
        self,
        observation: Observation,
        sources: Sequence[StageObservation],
        operators: Sequence[ModelledOperator],
        gaps: Mapping[str, Any],
        found: Fits,
    ) -> BatchModel | QueriesModel:
        """One micro-batch query, or several that share the executors."""
        known = {o.name: o for o in operators}
        for source in sources:
            own = known[source.name]
            known[source.name] = replace(own, demand=own.demand * self._each(source))
        made = tuple(
            self._batches(
                observation,
                s,
                (known[s.name],),
                self._arrivals(s, gaps.get(s.name), found),
                max(s.trigger, AT_ONCE),
            )
            for s in sources
        )
        return made[0] if len(made) == 1 else QueriesModel(made)

    def _batches(
        self, observation: Observation, source: StageObservation, operators: tuple[ModelledOperator, ...], processes: Any, trigger: float
    ) -> BatchModel:  # fmt: skip
        share = source.cpu_share.observed if source.cpu_share is not None else 1.0
        overhead = source.overhead_time * share
        return BatchModel(
            operators, source.name, processes, trigger, 0.0 if isnan(overhead) else overhead,
            _slots(observation, source, self.knob), self.percentile,
        )  # fmt: skip


def in_batches(source: StageObservation) -> bool:
    """Whether a source is taken in micro-batches, at an interval or one after another, rather than tuple by tuple."""
    return source.trigger >= 0


def _demand(stage: StageObservation, given: float | None) -> OperatorDemand | None:
    """Seconds a tuple on a whole core: service times stretch when the share is small."""
    share = stage.cpu_share.observed if stage.cpu_share is not None else 1.0
    seconds = given if given is not None else stage.service_time * share
    if isnan(seconds) and stage.tuples_in > 0:
        seconds = stage.busy_time / stage.tuples_in * share
    if not seconds > 0 or not isfinite(seconds):
        return None
    selectivity = stage.selectivity
    return OperatorDemand(seconds, stage.service_scv, selectivity if isfinite(selectivity) else nan)


def _blend(old: OperatorDemand | None, new: OperatorDemand, given: bool) -> OperatorDemand:
    if old is None:
        return new
    mixed = [
        b if isnan(a) else a if isnan(b) else 0.8 * a + 0.2 * b
        for a, b in ((old.seconds, new.seconds), (old.scv, new.scv), (old.selectivity, new.selectivity))
    ]
    return OperatorDemand(new.seconds if given else mixed[0], mixed[1], mixed[2])


def _operators(
    sources: Sequence[StageObservation],
    stages: dict[str, StageObservation],
    known: dict[str, OperatorDemand],
) -> tuple[ModelledOperator, ...] | None:
    """The operators reached from the sources, these first; None where a demand is missing."""
    found: dict[str, ModelledOperator] = {}
    open_ = [source.name for source in sources]
    while open_:
        name = open_.pop(0)
        if name in found:
            continue
        demand, stage = known.get(name), stages[name]
        if demand is None:
            return None
        below = tuple(n for n in stage.downstream if n in stages)
        scv = 0.5 if isnan(demand.scv) else min(max(demand.scv, 0.05), 50.0)  # Erlang-2 unless measured
        selectivity = 1.0 if isnan(demand.selectivity) else demand.selectivity
        arrival_scv = 1.0 if isnan(stage.arrival_scv) else stage.arrival_scv
        found[name] = ModelledOperator(name, demand.seconds, scv, selectivity, arrival_scv, below)
        open_ += below
    return tuple(found.values())


def _sinks(observation: Observation) -> tuple[str, ...]:
    """Stages whose output no other stage gets."""
    names = {s.name for s in observation.stages}
    return tuple(s.name for s in observation.stages if names.isdisjoint(s.downstream))


def _slots(observation: Observation, source: StageObservation, knob: Knob) -> float:
    """Tasks that one replica runs at a time."""
    slots = observation.slots
    capacity = observation.capacity(knob, "" if knob is Knob.EXECUTORS else source.name)
    if isnan(slots) or capacity is None or capacity.observed <= 0:
        return 1.0
    return max(slots / capacity.observed, 1e-9)
