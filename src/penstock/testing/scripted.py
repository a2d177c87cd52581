"""A plant that plays back observations and takes decisions in."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from penstock.core.capacity import Knob
from penstock.core.decision import Change, Decision
from penstock.core.errors import PenstockError
from penstock.core.observation import KeyLoad, Observation, RegionObservation, StageObservation
from penstock.core.plant import Applied
from penstock.testing.recording import RecordingActuator


class ScriptedPlant:
    """Gives the observations of a script, with the capacities that decisions have set meanwhile.

    The script is a sequence of observations, or a function from (step, the plant) to one, so that a script can
    answer to the configuration. ``arrives_after`` delays growing capacity by so many seconds; ``fail_observe``
    and ``fail_apply`` name steps (from 0) at which the plant raises. ``decisions`` holds all that was applied.
    It is its own virtual clock.
    """

    def __init__(
        self,
        script: Sequence[Observation] | Callable[[int, "ScriptedPlant"], Observation],
        arrives_after: float = 0.0,
        fail_observe: Iterable[int] = (),
        fail_apply: Iterable[int] = (),
    ) -> None:
        self._script, self._delay = script, arrives_after
        self._fail_observe, self._fail_apply = set(fail_observe), set(fail_apply)
        self._step, self._now = -1, 0.0
        self.actuators: dict[tuple[Knob, str], RecordingActuator] = {}
        self.decisions: list[Decision] = []

    def observe(self) -> Observation:
        """The next observation of the script; a script that ended repeats its last one, later."""
        self._step += 1
        if self._step in self._fail_observe:
            raise PenstockError("The scripted plant cannot be observed at this step; this is a test.")
        observation = self._next()
        self._now = max(self._now, observation.time)
        return self._overlay(observation)

    def apply(self, decision: Decision) -> Applied:
        """Take the changes in; they show in the observations that follow."""
        if self._step in self._fail_apply:
            raise PenstockError("The scripted plant cannot change at this step; this is a test.")
        self.decisions.append(decision)
        for change in decision.changes:
            self._actuator(change).set(change.value, self._now)
        return Applied(decision.changes)

    def now(self) -> float:
        """Time of the last observation, or later after a wait."""
        return self._now

    def wait_until(self, time: float) -> bool:
        """Time passes at once; False when a script of given length has been played."""
        self._now = max(self._now, time)
        return callable(self._script) or self._step + 1 < len(self._script)

    def setting(self, knob: Knob, where: str = "", default: float = 1.0) -> float:
        """What works now of a knob that was changed, the default otherwise; for scripts that answer."""
        actuator = self.actuators.get((knob, where))
        value = default if actuator is None else actuator.value(self._now)
        return default if isinstance(value, tuple) else value

    def _next(self) -> Observation:
        if callable(self._script):
            return self._script(self._step, self)
        over = self._step - len(self._script) + 1
        last = self._script[min(self._step, len(self._script) - 1)]
        return replace(last, time=last.time + over * last.period) if over > 0 else last

    def _actuator(self, change: Change) -> RecordingActuator:
        place = (change.knob, change.where)
        if place not in self.actuators:
            before = self._last.value(change.knob, change.where)
            start = change.value if before is None else before
            self.actuators[place] = RecordingActuator(*place, value=start, arrives_after=self._delay)
        return self.actuators[place]

    def _overlay(self, observation: Observation) -> Observation:
        stages = tuple(self._stage(s) for s in observation.stages)
        regions = tuple(self._region(r) for r in observation.regions)
        executors = self.actuators.get((Knob.EXECUTORS, ""))
        if executors is not None:
            observation = replace(observation, executors=executors.capacity(self._now))
        self._last = replace(observation, stages=stages, regions=regions)
        return self._last

    def _stage(self, stage: StageObservation) -> StageObservation:
        for knob in (Knob.WORKERS, Knob.CPU_SHARE, Knob.FREQUENCY):
            actuator = self.actuators.get((knob, stage.name))
            if actuator is not None:
                stage = replace(stage, **{knob.value: actuator.capacity(self._now)})  # type: ignore[arg-type]
        replicas = self.actuators.get((Knob.WORKERS, stage.region)) if stage.region else None
        if replicas is not None:
            stage = replace(stage, workers=replicas.capacity(self._now))
        shedding = self.actuators.get((Knob.SHEDDING, stage.name))
        if shedding is not None:
            stage = replace(stage, shedding=float(self.setting(Knob.SHEDDING, stage.name)))
        return replace(stage, keys=self._keys(stage.name, stage.keys))

    def _region(self, region: RegionObservation) -> RegionObservation:
        replicas = self.actuators.get((Knob.WORKERS, region.name))
        pipelines = self.actuators.get((Knob.PIPELINES, region.name))
        if replicas is not None:
            region = replace(region, replicas=replicas.capacity(self._now))
        if pipelines is not None and isinstance(pipelines.wanted, tuple):
            region = replace(region, pipelines=pipelines.wanted)
        return replace(region, keys=self._keys(region.name, region.keys))

    def _keys(self, where: str, keys: KeyLoad | None) -> KeyLoad | None:
        routing = self.actuators.get((Knob.ROUTING, where))
        if keys is None or routing is None or not isinstance(routing.wanted, tuple):
            return keys
        return replace(keys, routing=routing.wanted)
