"""Event-condition-action rules (MPC 5.4)."""

from dataclasses import dataclass
from math import inf, isnan

from penstock.core.capacity import Knob
from penstock.core.decision import Change, Decision
from penstock.core.errors import PenstockError
from penstock.core.metrics import Metric
from penstock.core.observation import Observation
from penstock.policies.places import stages_at
from penstock.policies.shared_executors import as_one_query


@dataclass(frozen=True, slots=True)
class Rule:
    """When a metric is above (or below) a bound, add so much to a knob."""

    metric: Metric
    add: float
    above: float = inf
    below: float = -inf

    def holds(self, value: float) -> bool:
        """Whether the condition is met; never for an unknown value."""
        return value > self.above or value < self.below

    def __str__(self) -> str:
        bound = f"> {self.above:g}" if self.above < inf else f"< {self.below:g}"
        return f"{self.metric} {bound}"


@dataclass(frozen=True, slots=True)
class RuleBased:
    """The first rule whose condition holds is applied, to one stage or to each of them.

    The default is the reactive strategy that model-predictive control is compared with: one replica more when
    the utilisation is above ``high``, one less when it is below ``low``. It looks at nothing but the present
    utilisation, so a step down may well be followed by a step up.

    >>> from penstock.core.capacity import Capacity
    >>> from penstock.core.observation import Observation, StageObservation
    >>> seen = Observation(1.0, 1.0, (StageObservation("op", Capacity.steady(3), utilisation=0.7),))
    >>> policy = RuleBased()
    >>> print(policy.step(None, seen)[1].reason)
    op: utilisation < 0.8 (0.7)
    """

    high: float = 0.95
    low: float = 0.8
    rules: tuple[Rule, ...] = ()
    knob: Knob = Knob.WORKERS
    limits: tuple[float, float] = (1, 64)
    where: str = ""
    name: str = "RuleBased"

    def __post_init__(self) -> None:
        if not self.rules and not 0 <= self.low < self.high:
            raise PenstockError(f"RuleBased needs 0 <= low < high, not {self.low:g} and {self.high:g}.")
        if not 0 <= self.limits[0] <= self.limits[1]:
            raise PenstockError(f"RuleBased has the limits {self.limits}; give the smaller one first.")
        if not self.knob.scalar:
            raise PenstockError(
                f"RuleBased cannot add to {self.knob}; choose workers, executors, cpu_share or frequency."
            )

    def start(self) -> None:
        """Nothing to remember."""

    def step(self, state: None, observation: Observation) -> tuple[None, Decision]:
        """Apply the first rule that holds, place by place."""
        stages = stages_at(observation, self.where)
        places = [(s.name, s.name) for s in stages]
        if self.knob is Knob.EXECUTORS:
            observation, places = as_one_query(observation, stages), [("", "")]
        answers = [self._apply(observation, where, measured) for where, measured in places]
        changes = tuple(c for c, _ in answers if c is not None)
        words = "; ".join(w for c, w in answers if w and (c is not None or not changes))
        return None, Decision(changes, words or "no rule holds")

    def _apply(self, observation: Observation, where: str, measured: str) -> tuple[Change | None, str]:
        now = observation.value(self.knob, where)
        if now is None or isinstance(now, tuple):
            return None, ""
        for rule in self.rules or self._default():
            value = observation.measure(rule.metric, measured)
            if not isnan(value) and rule.holds(value):
                new = min(max(now + rule.add, self.limits[0]), self.limits[1])
                words = f"{where}: {rule} ({value:.3g})".removeprefix(": ")
                return (Change(self.knob, where, new) if new != now else None), words
        return None, ""

    def _default(self) -> tuple[Rule, ...]:
        return (Rule(Metric.UTILISATION, +1, above=self.high), Rule(Metric.UTILISATION, -1, below=self.low))
