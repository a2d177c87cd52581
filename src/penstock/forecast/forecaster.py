"""The contract of a forecaster."""

from typing import Protocol, TypeVar, runtime_checkable

S = TypeVar("S")


@runtime_checkable
class Forecaster(Protocol[S]):
    """Predicts the next values of a series from the past ones, one value a control step.

    Like a policy it is a frozen configuration with an explicit state that can be pickled. A value that is
    ``nan`` was not measured: it moves time on but teaches nothing. Before the first value the forecast is ``nan``.
    """

    @property
    def name(self) -> str:
        """Short name for tables."""
        ...

    def start(self) -> S:
        """The state before the first value."""
        ...

    def update(self, state: S, value: float) -> S:
        """The state after one more value."""
        ...

    def predict(self, state: S, steps: int = 1) -> float:
        """The forecast of the value ``steps`` steps after the last one."""
        ...


def trajectory(forecaster: Forecaster[S], state: S, horizon: int) -> tuple[float, ...]:
    """Forecasts of the next ``horizon`` values."""
    return tuple(forecaster.predict(state, step) for step in range(1, horizon + 1))
