"""When an operator is called: how many tuples it needs on which input ports, all of them or any of them.

The runtime holds tuples back until the need is met (Joker 3.1), for each key of a partitioned operator on its own. An
operator therefore never buffers what it cannot use yet.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from penstock.core.errors import PenstockError

Counts = NDArray[np.int64]


@dataclass(frozen=True)
class FiringRule:
    """Tuples needed by port, and whether all ports must have theirs or any of them.

    ``all``: a call (a *firing*) gets exactly the given number from each port named. ``any``: a call gets whatever a
    port has once it has at least the given number. ``hold`` bounds how many tuples of one key may wait on one port.

    >>> need_all(left=10, right=10).counts
    {'left': 10, 'right': 10}
    """

    mode: Literal["all", "any"] = "any"
    counts: Mapping[str, int] | None = None
    hold: int = 4096

    def __post_init__(self) -> None:
        if any(n < 1 for n in (self.counts or {}).values()):
            raise PenstockError(
                "An operator needs at least one tuple on each port it names; give counts from 1."
            )
        if self.hold < max((self.counts or {"": 1}).values(), default=1):
            raise PenstockError("An operator may hold fewer tuples than it needs for one call; raise hold.")

    def of(self, port: str) -> int:
        """How many tuples a call needs on a port."""
        return (self.counts or {}).get(port, 1)

    @property
    def immediate(self) -> bool:
        """Whether every tuple can be handed over as it comes."""
        return self.mode == "any" and all(n == 1 for n in (self.counts or {}).values())

    def takes(self, waiting: Mapping[str, Counts]) -> dict[str, Counts]:
        """How many of the waiting tuples of each port are handed over now, by key.

        >>> need_all(a=2, b=1).takes({"a": np.array([5, 1]), "b": np.array([1, 9])})
        {'a': array([2, 0]), 'b': array([1, 0])}
        """
        if self.mode == "any":
            return {port: np.where(n >= self.of(port), n, 0) for port, n in waiting.items()}
        firings = self.firings(waiting)
        return {port: firings * self.of(port) for port in waiting}

    def firings(self, waiting: Mapping[str, Counts]) -> Counts:
        """How many calls the waiting tuples are enough for, by key (mode ``all``)."""
        calls: Counts = np.minimum.reduce([n // self.of(port) for port, n in waiting.items()])
        return calls


def need_all(hold: int = 4096, **counts: int) -> FiringRule:
    """Exactly these numbers of tuples on all of these ports: a barrier."""
    return FiringRule("all", counts, hold)


def need_any(hold: int = 4096, **counts: int) -> FiringRule:
    """At least this number of tuples on any of these ports."""
    return FiringRule("any", counts or None, hold)
