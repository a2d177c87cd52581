"""One level up or down when the utilisation leaves a band (MEAD VII)."""

from dataclasses import dataclass
from math import isnan

from penstock.core.capacity import Knob
from penstock.core.decision import Change, Decision
from penstock.core.errors import PenstockError
from penstock.core.observation import Observation
from penstock.policies.places import busiest, stages_at
from penstock.policies.shared_executors import as_one_query


@dataclass(frozen=True, slots=True)
class Threshold:
    """Raise a resource by one level when the utilisation is above ``high``, lower it below ``low``.

    The levels are whole numbers from ``limits`` for workers and executors, or the given ``levels`` for CPU
    shares and frequencies; MEAD's are five levels from 40 % to 100 %, ``high`` 0.7 and ``low`` 0.5. Every stage
    is looked at by itself unless ``where`` names one, or a region. Between low and high nothing happens, and a step down is
    skipped where it would lift the utilisation above ``high`` at once.

    >>> from penstock.core.capacity import Capacity
    >>> from penstock.core.observation import Observation, StageObservation
    >>> stage = StageObservation("op", Capacity.steady(2), utilisation=0.95)
    >>> policy = Threshold()
    >>> _, decision = policy.step(policy.start(), Observation(0.0, 1.0, (stage,)))
    >>> print(decision.changes[0], "because", decision.reason)
    op workers 3 because op: utilisation 0.95 is above 0.9
    """

    high: float = 0.9
    low: float = 0.5
    knob: Knob = Knob.WORKERS
    limits: tuple[int, int] = (1, 64)
    levels: tuple[float, ...] = ()
    where: str = ""
    name: str = "Threshold"

    def __post_init__(self) -> None:
        if not 0 <= self.low < self.high:
            raise PenstockError(f"Threshold needs 0 <= low < high, not {self.low:g} and {self.high:g}.")
        if not 0 <= self.limits[0] <= self.limits[1]:
            raise PenstockError(f"Threshold has the limits {self.limits}; give the smaller one first.")
        if not self.knob.whole and not self.levels:
            raise PenstockError(
                f"Threshold on {self.knob} needs levels, for example (0.4, 0.55, 0.7, 0.85, 1.0)."
            )

    def start(self) -> None:
        """Nothing to remember."""

    def step(self, state: None, observation: Observation) -> tuple[None, Decision]:
        """One level up, down, or nothing, for every stage."""
        stages = stages_at(observation, self.where)
        if not stages:
            return None, Decision.keep("no stage to look at")
        if self.knob is Knob.EXECUTORS:
            shared = busiest(as_one_query(observation, stages).stages)
            change, why = self._move(shared.utilisation, observation, "")
            return None, Decision((change,) if change is not None else (), why)
        moves = [(s, self._move(s.utilisation, observation, s.name)) for s in stages]
        changes = tuple(change for _, (change, _) in moves if change is not None)
        shown = [(s, why) for s, (change, why) in moves if change is not None or not changes]
        return None, Decision(changes, "; ".join(f"{s.name}: {why}" for s, why in shown))

    def _move(self, utilisation: float, observation: Observation, where: str) -> tuple[Change | None, str]:
        now = observation.value(self.knob, where)
        if isnan(utilisation) or now is None or isinstance(now, tuple):
            return None, f"{self.knob} or utilisation unknown"
        up, down = self._levels(now)
        if utilisation > self.high:
            why = f"utilisation {utilisation:.2f} is above {self.high:g}"
            return (Change(self.knob, where, up), why) if up > now else (None, why + " at the highest level")
        if utilisation < self.low and down < now and utilisation * now / max(down, 1e-9) <= self.high:
            return Change(self.knob, where, down), f"utilisation {utilisation:.2f} is below {self.low:g}"
        return None, f"utilisation {utilisation:.2f} keeps {self.knob} {now:g}"

    def _levels(self, now: float) -> tuple[float, float]:
        """The next level above and below."""
        if self.knob.whole and not self.levels:
            low, high = self.limits
            return min(max(now + 1, low), high), max(min(now - 1, high), low)
        above = [v for v in self.levels if v > now + 1e-9]
        below = [v for v in self.levels if v < now - 1e-9]
        return min(above, default=now), max(below, default=now)


#: MEAD's levels of CPU share.
CPU_LEVELS: tuple[float, ...] = (0.4, 0.55, 0.7, 0.85, 1.0)
