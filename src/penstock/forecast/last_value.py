"""Tomorrow is like today."""

from dataclasses import dataclass
from math import isnan, nan


@dataclass(frozen=True, slots=True)
class LastValue:
    """The next value is the last one.

    >>> forecaster = LastValue()
    >>> forecaster.predict(forecaster.update(forecaster.start(), 5.0), 3)
    5.0
    """

    name: str = "last value"

    def start(self) -> float:
        """Nothing seen."""
        return nan

    def update(self, state: float, value: float) -> float:
        """The value itself."""
        return state if isnan(value) else value

    def predict(self, state: float, steps: int = 1) -> float:
        """The last value, however far ahead."""
        return state
