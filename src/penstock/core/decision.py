"""What a policy answers: changes to make, why in words, and what it expects of them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import isfinite

from penstock.core.capacity import Knob, KnobValue
from penstock.core.errors import PenstockError
from penstock.core.metrics import Metric


@dataclass(frozen=True, slots=True)
class Change:
    """Set one knob at one place (a stage, a region, or "" for the whole application) to a value.

    >>> print(Change(Knob.WORKERS, "panes", 4))
    panes workers 4
    """

    knob: Knob
    where: str
    value: KnobValue

    def __post_init__(self) -> None:
        problem = _problem(self.knob, self.value)
        if problem:
            raise PenstockError(f"A change of {self.knob} at '{self.where}' {problem}, not {self.value!r}.")
        if self.knob.whole and isinstance(self.value, float):
            object.__setattr__(self, "value", int(self.value))

    def __str__(self) -> str:
        shown = self.value if isinstance(self.value, tuple) else f"{self.value:g}"
        if isinstance(shown, tuple) and len(shown) > 12:
            shown = f"of {len(shown)} groups"
        return f"{self.where} {self.knob} {shown}".strip()

    @property
    def number(self) -> float:
        """The value of a scalar knob."""
        if isinstance(self.value, tuple):
            raise PenstockError(f"The value of {self.knob} is no single number; use .value.")
        return self.value

    @property
    def sequence(self) -> tuple[int, ...]:
        """The value of PIPELINES or ROUTING."""
        if not isinstance(self.value, tuple):
            raise PenstockError(f"The value of {self.knob} is a single number; use .number.")
        return self.value


def _problem(knob: Knob, value: KnobValue) -> str:
    if not knob.scalar:
        return _sequence_problem(knob, value)
    if isinstance(value, tuple) or not isfinite(value):
        return "needs one finite number"
    if knob.whole and (value < 0 or value != int(value)):
        return "needs a whole number, at least 0"
    if knob is Knob.SHEDDING and not 0 <= value <= 1:
        return "needs a share between 0 and 1"
    if knob in (Knob.CPU_SHARE, Knob.FREQUENCY) and value <= 0:
        return "needs a number above 0"
    return ""


def _sequence_problem(knob: Knob, value: KnobValue) -> str:
    if not isinstance(value, tuple) or not value:
        return "needs a tuple of whole numbers"
    if knob is Knob.PIPELINES and (value[0] != 0 or any(a >= b for a, b in pairwise(value))):
        return "needs the first operators of the pipelines, rising from 0"
    if min(value) < 0:
        return "needs worker numbers from 0"
    return ""


@dataclass(frozen=True, slots=True)
class Decision:
    """Changes to make now, the reason in words, the predicted effect, and whether the target can be met at all.

    No changes means: keep things as they are; the reason is still given. ``feasible=False`` says that no
    configuration is expected to meet the target and that the changes are the best effort.

    >>> Decision.keep("utilisation 0.72 is within 0.5..0.9").changes
    ()
    """

    changes: tuple[Change, ...] = ()
    reason: str = ""
    predicted: Mapping[Metric, float] = field(default_factory=dict)
    feasible: bool = True

    def __post_init__(self) -> None:
        places = [(c.knob, c.where) for c in self.changes]
        if len(set(places)) < len(places):
            raise PenstockError(
                "A decision changes the same knob of the same place twice; give one change for each."
            )

    @classmethod
    def keep(cls, reason: str) -> "Decision":
        """Change nothing."""
        return cls((), reason)

    def with_changes(self, changes: Iterable[Change]) -> "Decision":
        """The same decision with other changes."""
        return replace(self, changes=tuple(changes))

    def value(self, knob: Knob, where: str = "") -> KnobValue | None:
        """What this decision sets the knob to, or None where it leaves it alone."""
        return next((c.value for c in self.changes if c.knob is knob and c.where == where), None)

    def number(self, knob: Knob, where: str = "", default: float = 0.0) -> float:
        """What this decision sets a scalar knob to, or the default where it leaves it alone."""
        value = self.value(knob, where)
        return default if value is None or isinstance(value, tuple) else value
