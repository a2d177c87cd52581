"""An actuator that only remembers what it was told."""

from penstock.core.capacity import Capacity, Knob, KnobValue
from penstock.core.decision import Change
from penstock.core.errors import PenstockError


class RecordingActuator:
    """Stands for one knob of one place; remembers every call and pretends that capacity takes time to arrive.

    >>> actuator = RecordingActuator(Knob.EXECUTORS, value=1, arrives_after=4.0)
    >>> actuator.set(3, now=10.0)
    >>> actuator.capacity(now=11.0).observed, actuator.capacity(now=14.0).observed, actuator.calls
    (1, 3, [(10.0, 3)])
    """

    def __init__(
        self,
        knob: Knob,
        where: str = "",
        value: KnobValue = 1,
        arrives_after: float = 0.0,
        fails: bool = False,
    ) -> None:
        self.knob, self.where, self.arrives_after, self.fails = knob, where, arrives_after, fails
        self.calls: list[tuple[float, KnobValue]] = []
        self._value = self._old = value
        self._since = float("-inf")

    def set(self, value: KnobValue, now: float) -> None:
        """Remember the call; shrinking is immediate, growing takes ``arrives_after`` seconds."""
        if self.fails:
            raise PenstockError(
                f"The actuator of {self.knob} at '{self.where}' was told to fail; this is a test."
            )
        Change(self.knob, self.where, value)  # checks the value
        self.calls.append((now, value))
        self._old, self._value, self._since = self.value(now), value, now

    def value(self, now: float) -> KnobValue:
        """What works now."""
        if isinstance(self._value, tuple) or isinstance(self._old, tuple):
            return self._value
        return (
            self._old if now < self._since + self.arrives_after and self._value > self._old else self._value
        )

    @property
    def wanted(self) -> KnobValue:
        """What was asked for last."""
        return self._value

    def capacity(self, now: float) -> Capacity:
        """Planned, requested and observed."""
        observed = self.value(now)
        if isinstance(observed, tuple) or isinstance(self._value, tuple):
            raise PenstockError(f"{self.knob} is no amount; use .value().")
        return Capacity(self._value, self._value, observed)
