"""Points of a batch at which a test may interfere: how the recovery tests hit an exact line.

Nothing is installed in production, where passing a milestone does nothing.
"""

from collections.abc import Callable

#: Called with (point, batch) at every milestone.
hooks: list[Callable[[str, int], None]] = []


def reached(point: str, batch: int) -> None:
    """Pass a point of a batch."""
    for hook in hooks:
        hook(point, batch)
