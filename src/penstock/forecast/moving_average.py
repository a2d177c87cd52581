"""Mean of the last values."""

from dataclasses import dataclass
from math import isnan, nan

from penstock.core.errors import PenstockError


@dataclass(frozen=True, slots=True)
class MovingAverage:
    """The next value is the mean of the last ``window`` ones.

    >>> forecaster = MovingAverage(2)
    >>> state = forecaster.start()
    >>> for value in (1.0, 2.0, 4.0):
    ...     state = forecaster.update(state, value)
    >>> forecaster.predict(state)
    3.0
    """

    window: int = 5
    name: str = "moving average"

    def __post_init__(self) -> None:
        if self.window < 1:
            raise PenstockError(f"A moving average needs a window of at least 1, not {self.window}.")

    def start(self) -> tuple[float, ...]:
        """Nothing seen."""
        return ()

    def update(self, state: tuple[float, ...], value: float) -> tuple[float, ...]:
        """The window moved on."""
        return state if isnan(value) else (*state, value)[-self.window :]

    def predict(self, state: tuple[float, ...], steps: int = 1) -> float:
        """The mean, however far ahead."""
        return sum(state) / len(state) if state else nan
