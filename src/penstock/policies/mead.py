"""Vertical scaling by queueing models fed with fitted arrival processes (MEAD V)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite, isnan, nan
from typing import Any

import numpy as np

from penstock.core.capacity import Knob
from penstock.core.decision import Change, Decision
from penstock.core.errors import PenstockError
from penstock.core.metrics import Metric
from penstock.core.observation import Observation, StageObservation
from penstock.models.kept_fit import KeptFit
from penstock.policies.mead_batches import BatchModel, QueriesModel, StagesModel
from penstock.policies.mead_fits import Fit, Fits, Window
from penstock.policies.mead_model import KingmanModel, ModelledOperator, NetworkModel, Prediction, Resources
from penstock.policies.threshold import CPU_LEVELS

Model = NetworkModel | KingmanModel | BatchModel | QueriesModel | StagesModel


@dataclass(frozen=True, slots=True)
class OperatorDemand:
    """Averages of what is known of one operator: seconds a tuple on a whole core, its SCV, selectivity."""

    seconds: float
    scv: float
    selectivity: float


@dataclass(frozen=True, slots=True)
class MeadState:
    """When the next decision is due, the demands of the operators so far, and the fits that are kept."""

    due: float | None = None
    demands: tuple[tuple[str, OperatorDemand], ...] = ()
    fits: tuple[tuple[Window, KeptFit], ...] = ()


@dataclass(frozen=True, slots=True)
class Mead:
    """Every ``interval`` seconds: fit the arrivals, predict, and give each operator the least that meets the target.

    model: "map" (Markovian arrival processes by KPC, worst of the ``best`` fits of each of ``windows``: the whole buffer,
    its last half, its last quarter; the paper's experiments do without the last one), "mg1" (Poisson arrivals) or "gig1" (Kingman; means only). target: response time in seconds of
    every path from source to sink, its mean or the given ``percentile`` (0.95); ``targets`` gives paths a target of their
    own, by the sink they end in. levels: CPU shares to choose from.
    down: by how many levels an operator may lose at one decision (None: any number). demands: service demands by
    operator in seconds on a whole core, where they are known beforehand; otherwise they are measured. fit: how
    inter-arrival times become processes, best first; :func:`penstock.models.fit_kpc` unless given. keep: fits stay, brought
    to the newest rate, while their score is within ``keep`` times the one they were made with, and for ``refit`` seconds
    whatever it is; with 0 new ones are made at every decision, as the paper does, which takes most of a second.

    Beyond the paper: ``replicas`` lets it choose numbers of replicas as well, each configuration (replicas, share) at the
    cost of its product; ``knob`` EXECUTORS takes executors as replicas; on micro-batch plants (that tell their trigger)
    the response is predicted by the micro-batch model instead of queues, since a tuple waits for its batch, also for
    several operators that share its batches.
    """

    model: str = "map"
    target: float = 0.5
    percentile: float | None = None
    targets: Mapping[str, float] = field(default_factory=dict)
    levels: tuple[float, ...] = CPU_LEVELS
    interval: float = 60.0
    windows: int = 3
    best: int = 5
    delta: float = 0.05
    down: int | None = 1
    replicas: tuple[int, ...] = ()
    knob: Knob = Knob.WORKERS
    demands: Mapping[str, float] = field(default_factory=dict)
    max_states: int = 16
    least: int = 1000  # inter-arrival times needed for a fit
    fit: Fit | None = None
    keep: float = 0.0
    refit: float = 60.0
    name: str = "Mead"

    def __post_init__(self) -> None:
        if self.model not in ("map", "mg1", "gig1"):
            raise PenstockError(f"Mead does not know the model '{self.model}'; choose map, mg1 or gig1.")
        if self.model == "gig1" and self.percentile is not None:
            raise PenstockError(
                "Kingman's formula gives means only; choose the model map or mg1 for a percentile."
            )
        if min([self.target, *self.targets.values()]) <= 0 or (
            self.percentile is not None and not 0 < self.percentile < 1
        ):
            raise PenstockError("Mead needs a target above 0 and a percentile between 0 and 1.")
        if not self.levels or any(not 0 < v <= 1 for v in self.levels) or min(self.replicas, default=1) < 1:
            raise PenstockError("Mead needs CPU levels within (0, 1] and replicas of at least 1.")
        if min(self.windows, self.best) < 1 or min(self.interval, self.keep) < 0 or not self.knob.whole:
            raise PenstockError(
                "Mead needs windows >= 1, best >= 1, interval >= 0, keep >= 0 and workers or executors as its knob."
            )

    def start(self) -> MeadState:
        """Nothing known."""
        return MeadState()

    def configurations(self, observation: Observation, name: str) -> tuple[Resources, ...]:
        """(replicas, share) of an operator in rising order of capacity; of equal ones the one with fewer replicas.

        Without a choice of replicas the present number stays; where no share can be set it is 1.
        """
        present = self._present(observation, name)
        replicas = self._counts(observation) or (present[0],)
        shares = self.levels if observation.capacity(Knob.CPU_SHARE, name) is not None else (1.0,)
        made: dict[float, Resources] = {}
        for count in sorted(replicas):
            for share in shares:
                made.setdefault(round(count * share, 9), (count, share))
        return tuple(made[capacity] for capacity in sorted(made))

    def step(self, state: MeadState, observation: Observation) -> tuple[MeadState, Decision]:
        """Take demands in; when it is time, analyse and plan."""
        state = replace(state, demands=self._measure(state, observation))
        if state.due is not None and observation.time < state.due - 1e-9:
            return state, Decision.keep(f"the next analysis is due at {state.due:.4g} s")
        fits = Fits(
            self.model, self.windows, self.best, self.max_states, self.least, self.keep, self.refit, self.fit,
            observation.time, dict(state.fits),
        )  # fmt: skip
        model, missing = self._model(state, observation, fits)
        if model is None:
            return state, Decision.keep(missing)
        sinks = [path[-1] for path in model.paths]
        if unmet := [name for name in self.targets if name not in sinks]:
            return state, Decision.keep(
                f"no path ends in '{unmet[0]}', which has a target; paths end in {', '.join(sinks)}"
            )
        state = replace(state, due=observation.time + self.interval, fits=tuple(fits.kept.items()))
        return state, self._plan(model, observation)

    def _counts(self, observation: Observation) -> tuple[int, ...]:
        """Numbers of replicas to choose from; executors, if none are given, up to what the plant could have."""
        executors = observation.executors
        if self.replicas or self.knob is not Knob.EXECUTORS or executors is None:
            return self.replicas
        return tuple(range(1, int(min(executors.limit, 16)) + 1))

    # -- what is known

    def _measure(self, state: MeadState, observation: Observation) -> tuple[tuple[str, OperatorDemand], ...]:
        known = dict(state.demands)
        for stage in observation.stages:
            fresh = _demand(stage, self.demands.get(stage.name))
            if fresh is not None:
                known[stage.name] = _blend(known.get(stage.name), fresh, given=stage.name in self.demands)
        return tuple(known.items())

    def _model(self, state: MeadState, observation: Observation, found: Fits) -> tuple[Model | None, str]:
        together = [s for s in observation.stages if not isnan(s.level) and s.cpu_share is not None]
        if together:
            return self._stages(state, observation, together, found)
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
        operators = _operators(sources, stages, dict(state.demands))
        if operators is None:
            return None, "the service demand of an operator is not known yet"
        if sources[0].trigger > 0:
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
        if gaps is not None and not source.trigger > 0:  # queues know single tuples only
            gaps = gaps / source.interarrival_rows
        if gaps is None or len(gaps) < self.least or not float(np.sum(gaps)) > 0:
            return None, f"{0 if gaps is None else len(gaps)} of {self.least} inter-arrival times seen"
        return np.asarray(gaps, dtype=float), ""

    def _stages(
        self, state: MeadState, observation: Observation, stages: Sequence[StageObservation], found: Fits
    ) -> tuple[Model | None, str]:
        """Stages of one micro-batch query: what has no share of its own is part of the overhead."""
        known = dict(state.demands)
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
            ),
            "",
        )

    def _arrivals(self, source: StageObservation, gaps: Any, found: Fits) -> tuple[Any, ...]:
        from penstock.models import Poisson

        if gaps is None:
            return (Poisson(source.arrival_rate / self._each(source)),)
        single = source.interarrival_rows if source.trigger > 0 else 1.0
        return found.of(source.name, gaps * (self._each(source) / single))

    def _each(self, source: StageObservation) -> float:
        """Tuples that come together in the arrival process.

        A fast stream is seen in groups of tuples, and a batch of groups takes as long as one of their tuples. What groups
        do not have is the variability of single tuples, which is all that models without correlation know.
        """
        return source.interarrival_rows if source.trigger > 0 and self.model == "map" else 1.0

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
                observation, s, (known[s.name],), self._arrivals(s, gaps.get(s.name), found), s.trigger
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

    # -- Fig. 5

    def _plan(self, model: Model, observation: Observation) -> Decision:
        options = {o.name: self.configurations(observation, o.name) for o in model.operators}
        level = {o.name: 0 for o in model.operators}
        for path in model.paths:
            self._raise(model, path, level, options)
        if self.knob is Knob.EXECUTORS:  # they are the same for all
            level = dict.fromkeys(level, max(level.values()))
        wanted = dict(level)
        for name in level:
            level[name] = max(level[name], self._floor(observation, name, options[name]))
        resources = _chosen(level, options)
        return self._decision(observation, model.predict(resources), resources, wanted != level)

    def _raise(
        self,
        model: Model,
        path: tuple[str, ...],
        level: dict[str, int],
        options: dict[str, tuple[Resources, ...]],
    ) -> None:
        now = model.predict(_chosen(level, options))
        target = self._target(path)
        while now.paths[path] > target:
            free = [n for n in path if level[n] < len(options[n]) - 1]
            if not free:
                break
            slowest = max(free, key=lambda n: now.operators[n])
            level[slowest] += 1
            then = model.predict(_chosen(level, options))
            # Where both are infinite the gain is unknown, and only more can tell.
            gained = now.paths[path] - then.paths[path] if isfinite(then.paths[path]) else target
            missed = then.paths[path] > target and gained < self.delta * target
            if missed and not self._promising(model, path, now, level, slowest, options):
                level[slowest] -= 1
                break
            now = then

    def _promising(
        self,
        model: Model,
        path: tuple[str, ...],
        now: Prediction,
        level: dict[str, int],
        slowest: str,
        options: dict[str, tuple[Resources, ...]],
    ) -> bool:
        """Whether going on can gain what one level did not.

        With replicas the levels are many and each gains little: there the whole way up must gain too little. Side by
        side, an operator that gets more gains nothing before its equals get more too: there the whole path counts.
        """
        if len(options[slowest]) <= len(self.levels) and not model.side_by_side:
            return False
        raised = path if model.side_by_side else (slowest,)
        top = level | {name: len(options[name]) - 1 for name in raised}
        then = model.predict(_chosen(top, options))
        return now.paths[path] - then.paths[path] >= self.delta * self._target(path)

    def _target(self, path: tuple[str, ...]) -> float:
        """What is asked of a path."""
        return self.targets.get(path[-1], self.target)

    def _floor(self, observation: Observation, name: str, options: tuple[Resources, ...]) -> int:
        """The lowest level that a conservative scale-down allows."""
        if self.down is None:
            return 0
        replicas, share = self._present(observation, name)
        at = min(range(len(options)), key=lambda i: abs(options[i][0] * options[i][1] - replicas * share))
        return max(0, at - self.down)

    def _present(self, observation: Observation, name: str) -> Resources:
        workers = observation.capacity(self.knob, "" if self.knob is Knob.EXECUTORS else name)
        share = observation.capacity(Knob.CPU_SHARE, name)
        return max(1, int(workers.planned)) if workers else 1, share.planned if share is not None else 1.0

    def _decision(
        self, observation: Observation, predicted: Prediction, resources: dict[str, Resources], held: bool
    ) -> Decision:
        changes: dict[tuple[Knob, str], Change] = {}
        for name, (replicas, share) in resources.items():
            place = "" if self.knob is Knob.EXECUTORS else name
            present, quota = observation.value(self.knob, place), observation.value(Knob.CPU_SHARE, name)
            if present not in (None, replicas):
                changes[self.knob, place] = Change(self.knob, place, replicas)
            if quota is not None and not isinstance(quota, tuple) and abs(quota - share) > 1e-9:
                changes[Knob.CPU_SHARE, name] = Change(Knob.CPU_SHARE, name, share)
        slowest = max(predicted.paths, key=lambda path: predicted.paths[path] / self._target(path))
        worst, target = predicted.paths[slowest], self._target(slowest)
        what = "mean" if self.percentile is None else f"P{100 * self.percentile:g}"
        shown = ", ".join(f"{n} {k} x {s:.0%}" for n, (k, s) in resources.items())
        reason = f"{what} response {worst:.3g} s by the {self.model} model against {target:g} s with {shown}"
        reason += "; released slowly" if held else ""
        if worst > target:
            reason += "; no configuration is expected to meet the target"
        metric = Metric.LATENCY_MEAN if self.percentile is None else Metric.LATENCY_P95
        return Decision(tuple(changes.values()), reason, {metric: worst}, feasible=worst <= target)


def _chosen(level: dict[str, int], options: dict[str, tuple[Resources, ...]]) -> dict[str, Resources]:
    return {name: options[name][x] for name, x in level.items()}


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


def _slots(observation: Observation, source: StageObservation, knob: Knob) -> float:
    """Tasks that one replica runs at a time."""
    slots = observation.slots
    capacity = observation.capacity(knob, "" if knob is Knob.EXECUTORS else source.name)
    if isnan(slots) or capacity is None or capacity.observed <= 0:
        return 1.0
    return max(slots / capacity.observed, 1e-9)
