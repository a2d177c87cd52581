"""Event times as ready operators go by them: whole microseconds, and how far a stream has come."""

from math import isfinite
from typing import Any

from penstock.core.errors import PenstockError

_NOWHERE = -(2**62)


def check_seconds(name: str, seconds: float, positive: bool = False) -> None:
    """Refuse what is no length of time."""
    if not isfinite(seconds) or seconds < 0 or (positive and seconds == 0):
        wanted = "a positive number of seconds" if positive else "a number of seconds from 0 on"
        raise PenstockError(f"{name}={seconds} is not {wanted}.")


def micros(seconds: float) -> int:
    """Seconds in microseconds."""
    return round(seconds * 1e6)


def watermark(state: Any, slack: int) -> int:
    """The event time, in microseconds, that no row is expected to be before."""
    return _NOWHERE if state.event_time is None else micros(state.event_time) - slack
