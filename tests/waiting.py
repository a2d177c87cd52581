"""Waiting in tests: for a condition, never for a time that a busy machine may need longer than."""

import time
from collections.abc import Callable
from typing import TypeVar

Seen = TypeVar("Seen")

#: Seconds after which something is taken to never come: long enough for a machine twenty times slower than this one.
PATIENCE = 600.0


def until(
    condition: Callable[[], Seen],
    what: str,
    *,
    unless: Callable[[], bool] = lambda: False,
    seconds: float = PATIENCE,
    every: float = 0.05,
) -> Seen:
    """Wait until a condition holds and give back what it saw; fail with ``what`` if it never does.

    ``unless`` ends the wait early: it holds when the condition cannot come any more, as when a child has died.
    """
    give_up = time.monotonic() + seconds
    while True:
        over = unless() or time.monotonic() > give_up
        if seen := condition():
            return seen
        assert not over, f"waited in vain: {what}"
        time.sleep(every)
