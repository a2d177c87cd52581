"""Elastic scaling by congestion and remembered throughput (Gedik et al., as MPC 5.4 describes it).

For every number of replicas L the policy remembers whether it was congested there and the throughput it had.

- Congested: go up by one, unless L + 1 was tried before and did not give more throughput. If the step that led
  here gave no more throughput than L - 1 had, go back.
- Not congested: go down by one, unless L - 1 is remembered as congested.
- When the congestion at L differs from what is remembered for it, or its throughput moved by more than the
  sensitivity allows, the load has changed: more load makes what is known of fewer replicas' success and of more
  replicas' failure worthless, less load the opposite, so that part is forgotten.
"""

from dataclasses import dataclass, replace
from math import isnan

from penstock.core.capacity import Knob
from penstock.core.decision import Change, Decision
from penstock.core.errors import PenstockError
from penstock.core.metrics import Metric
from penstock.core.observation import Observation
from penstock.policies.places import stages_at
from penstock.policies.shared_executors import as_one_query


@dataclass(frozen=True, slots=True)
class Memory:
    """What is known of one number of replicas."""

    congested: bool
    throughput: float


@dataclass(frozen=True, slots=True)
class SplState:
    """Sums since the last decision, and what is known of each number of replicas."""

    since: float | None = None
    count: int = 0
    congestion: float = 0.0
    tuples: float = 0.0
    seconds: float = 0.0
    known: tuple[tuple[int, Memory], ...] = ()


@dataclass(frozen=True, slots=True)
class Spl:
    """Throughput-oriented heuristic that avoids repeating actions that did not help.

    ``congestion`` is the index above which the operator counts as congested: the share of time in which the
    splitter was blocked where the plant tells it, otherwise the share of arrivals that could not be served.
    ``sensitivity`` (0..1): two throughputs count as equal when the smaller is at least this share of the larger.
    It decides every ``interval`` seconds, since it is unstable at shorter ones.
    """

    interval: float = 4.0
    sensitivity: float = 0.9
    congestion: float = 0.1
    knob: Knob = Knob.WORKERS
    limits: tuple[int, int] = (1, 64)
    where: str = ""
    name: str = "Spl"

    def __post_init__(self) -> None:
        if not 0 < self.sensitivity <= 1 or not 0 <= self.congestion < 1:
            raise PenstockError("Spl needs a sensitivity in (0, 1] and a congestion threshold in [0, 1).")
        if not 0 < self.limits[0] <= self.limits[1] or not self.knob.whole:
            raise PenstockError(
                "Spl needs limits of at least 1, the smaller first, and workers or executors as its knob."
            )

    def start(self) -> SplState:
        """Nothing known."""
        return SplState()

    def step(self, state: SplState, observation: Observation) -> tuple[SplState, Decision]:
        """Take the observation in; decide when the interval is over."""
        if not observation.stages:
            return state, Decision.keep("no stage to look at")
        stages = stages_at(observation, self.where)
        if self.knob is Knob.EXECUTORS:
            observation = as_one_query(observation, stages)
            stages = observation.stages
        stage = stages[0]  # of a region the pipeline that takes its input
        place = "" if self.knob is Knob.EXECUTORS else stage.name
        capacity = observation.capacity(self.knob, place)
        index = _congestion(observation, stage.name)
        if capacity is None or isnan(index) or isnan(stage.tuples_in):
            return state, Decision.keep("congestion, throughput or capacity unknown")
        seen = replace(
            state,
            since=observation.time - observation.period if state.since is None else state.since,
            count=state.count + 1,
            congestion=state.congestion + index,
            tuples=state.tuples + stage.tuples_in,
            seconds=state.seconds + observation.period,
        )
        if observation.time - (seen.since or 0.0) < self.interval - 1e-9 or seen.seconds <= 0:
            return seen, Decision.keep(f"{seen.count} observations towards the next decision")
        return self._decide(seen, observation.time, int(capacity.planned), place)

    def _decide(self, seen: SplState, time: float, level: int, place: str) -> tuple[SplState, Decision]:
        now = Memory(seen.congestion / seen.count > self.congestion, seen.tuples / seen.seconds)
        known = dict(seen.known)
        known = self._forget(known, level, now) | {level: now}
        new, why = self._choose(known, level, now)
        new = min(max(new, self.limits[0]), self.limits[1])
        changes = (Change(self.knob, place, new),) if new != level else ()
        return SplState(since=time, known=tuple(sorted(known.items()))), Decision(changes, why)

    def _forget(self, known: dict[int, Memory], level: int, now: Memory) -> dict[int, Memory]:
        before = known.get(level)
        if before is None:
            return known
        same = now.congested == before.congested
        more = now.congested > before.congested or (same and self._less(before.throughput, now.throughput))
        less = now.congested < before.congested or (same and self._less(now.throughput, before.throughput))
        if more:
            return {n: m for n, m in known.items() if n < level and m.congested}
        if less:
            return {n: m for n, m in known.items() if n > level and not m.congested}
        return known

    def _less(self, a: float, b: float) -> bool:
        """Whether a is significantly less than b."""
        return a < self.sensitivity * b

    def _choose(self, known: dict[int, Memory], level: int, now: Memory) -> tuple[int, str]:
        up, down = known.get(level + 1), known.get(level - 1)
        rate = f"{now.throughput:.4g} tuples/s with {level}"
        if now.congested:
            if down is not None and down.congested and not self._less(down.throughput, now.throughput):
                return level - 1, f"congested, and {rate} is no more than with {level - 1}: back"
            if up is not None and not self._less(now.throughput, up.throughput):
                return level, f"congested at {rate}, but {level + 1} gave no more: stay"
            return level + 1, f"congested at {rate}: one more"
        if down is not None and down.congested:
            return level, f"not congested at {rate}, but {level - 1} was: stay"
        return level - 1, f"not congested at {rate}: one less"


def _congestion(observation: Observation, stage: str) -> float:
    measured = observation.measure(Metric.CONGESTION, stage)
    if not isnan(measured):
        return measured
    seen = observation.stage(stage)
    arrived = seen.arrival_rate * observation.period
    if not isnan(arrived) and not isnan(seen.tuples_in):
        return max(0.0, 1 - seen.tuples_in / arrived) if arrived > 0 else 0.0
    return max(0.0, 1 - 1 / seen.utilisation) if seen.utilisation > 0 else seen.utilisation
