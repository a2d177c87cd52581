"""Vertical scaling by queueing models fed with fitted arrival processes (MEAD V)."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import isfinite

from penstock.core.capacity import Knob
from penstock.core.decision import Change, Decision
from penstock.core.errors import PenstockError
from penstock.core.metrics import Metric
from penstock.core.observation import Observation
from penstock.models.kept_fit import KeptFit
from penstock.policies.mead_fits import Fit, Fits, Window
from penstock.policies.mead_making import Model, ModelMaker, OperatorDemand, measured
from penstock.policies.mead_model import Prediction, Resources
from penstock.policies.places import by_stage, stages_at
from penstock.policies.threshold import CPU_LEVELS


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
    own, by the sink they end in, a stage or a region. levels: CPU shares to choose from.
    down: by how many levels an operator may lose at one decision (None: any number). demands: service demands by
    stage, or by region for each of its pipelines, in seconds on a whole core, where they are known beforehand; otherwise they are measured. fit: how
    inter-arrival times become processes, best first; :func:`penstock.models.fit_kpc` unless given. keep: fits stay, brought
    to the newest rate, while their score is within ``keep`` times the one they were made with, and for ``refit`` seconds
    whatever it is, but no longer than until twice as many seconds of arrivals are known; with 0 new ones are made at every
    decision, as the paper does, which takes most of a second.

    Beyond the paper: ``replicas`` lets it choose numbers of replicas as well, each configuration (replicas, share) at the
    cost of its product; ``knob`` EXECUTORS takes executors as replicas; on micro-batch plants (that tell their trigger)
    the response is predicted by the micro-batch model instead of queues, since a tuple waits for its batch, also for
    several operators that share its batches; rows of all their sinks are there when the batch is committed, so the tightest of
    their targets is the target of the batch.
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
        stages_at(observation, *self.targets)  # names that nothing has are refused before anything is known
        demands = measured(dict(state.demands), observation, by_stage(observation, self.demands))
        state = replace(state, demands=tuple(demands.items()))
        if state.due is not None and observation.time < state.due - 1e-9:
            return state, Decision.keep(f"the next analysis is due at {state.due:.4g} s")
        fits = Fits(
            self.model, self.windows, self.best, self.max_states, self.least, self.keep, self.refit, self.fit,
            observation.time, dict(state.fits),
        )  # fmt: skip
        maker = ModelMaker(self.model, self.percentile, self.knob, self.least)
        model, missing = maker.made(demands, observation, fits)
        if model is None:
            return state, Decision.keep(missing)
        targets = self._targets_of_sinks(model, observation)
        state = replace(state, due=observation.time + self.interval, fits=tuple(fits.kept.items()))
        return state, replace(self, targets=targets)._plan(model, observation)

    def _targets_of_sinks(self, model: Model, observation: Observation) -> dict[str, float]:
        """Targets by the stage a path ends in: of a region that is its last pipeline."""
        sinks = dict.fromkeys(path[-1] for path in model.paths)
        for name in self.targets:
            if not any(stage.name in sinks for stage in stages_at(observation, name)):
                raise PenstockError(
                    f"Mead has a target for '{name}', in which no path ends; give it to {' or '.join(sinks)}."
                )
        return {n: target for n, target in by_stage(observation, self.targets).items() if n in sinks}

    def _counts(self, observation: Observation) -> tuple[int, ...]:
        """Numbers of replicas to choose from; executors, if none are given, up to what the plant could have."""
        executors = observation.executors
        if self.replicas or self.knob is not Knob.EXECUTORS or executors is None:
            return self.replicas
        return tuple(range(1, int(min(executors.limit, 16)) + 1))

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
            free = [n for n in path if n in options and level[n] < len(options[n]) - 1]
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
        raised = [n for n in path if n in options] if model.side_by_side else [slowest]
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
        metric = Metric.of_response(self.percentile)
        return Decision(tuple(changes.values()), reason, {metric: worst}, feasible=worst <= target)


def _chosen(level: dict[str, int], options: dict[str, tuple[Resources, ...]]) -> dict[str, Resources]:
    return {name: options[name][x] for name, x in level.items()}
