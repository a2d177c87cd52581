"""Level and trend by exponential smoothing."""

from dataclasses import dataclass
from math import isnan, nan

from penstock.core.errors import PenstockError


@dataclass(frozen=True, slots=True)
class HoltState:
    """Level and trend after the last value, and how many values there were."""

    level: float = nan
    trend: float = 0.0
    count: int = 0


@dataclass(frozen=True, slots=True)
class Holt:
    """Holt's linear method with a damped trend.

        level' = alpha value + (1 - alpha) (level + phi trend)
        trend' = beta (level' - level) + (1 - beta) phi trend
        forecast of h steps = level + (phi + phi^2 + ... + phi^h) trend, never below ``floor``

    >>> forecaster = Holt(alpha=0.8, beta=0.5)
    >>> state = forecaster.start()
    >>> for value in range(40):
    ...     state = forecaster.update(state, float(value))
    >>> round(forecaster.predict(state, 5), 6)
    44.0
    """

    alpha: float = 0.5
    beta: float = 0.2
    phi: float = 1.0
    floor: float = 0.0
    name: str = "Holt"

    def __post_init__(self) -> None:
        if not (0 < self.alpha <= 1 and 0 <= self.beta <= 1 and 0 < self.phi <= 1):
            raise PenstockError("Holt needs 0 < alpha <= 1, 0 <= beta <= 1 and 0 < phi <= 1.")

    def start(self) -> HoltState:
        """Nothing seen."""
        return HoltState()

    def update(self, state: HoltState, value: float) -> HoltState:
        """One smoothing step; the first two values set level and trend."""
        if isnan(value):
            moved = state.level + self.phi * state.trend
            return HoltState(moved, self.phi * state.trend, state.count) if state.count else state
        if state.count == 0:
            return HoltState(value, 0.0, 1)
        if state.count == 1:
            return HoltState(value, value - state.level, 2)
        damped = self.phi * state.trend
        level = self.alpha * value + (1 - self.alpha) * (state.level + damped)
        trend = self.beta * (level - state.level) + (1 - self.beta) * damped
        return HoltState(level, trend, state.count + 1)

    def predict(self, state: HoltState, steps: int = 1) -> float:
        """Level plus damped trend."""
        if state.count == 0:
            return nan
        reach = float(steps) if self.phi == 1 else self.phi * (1 - self.phi**steps) / (1 - self.phi)
        return max(self.floor, state.level + reach * state.trend)
