"""When an operator is called: how many tuples it needs on which input ports, all of them or any of them.

The runtime holds tuples back until the need is met (Joker 3.1), for each key of a partitioned operator on its own. An
operator therefore never buffers what it cannot use yet.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Literal

import numpy as np

from penstock.core.arrays import Ints
from penstock.core.errors import PenstockError

Counts = Ints


@dataclass(frozen=True)
class FiringRule:
    """Tuples needed by port, and whether all ports must have theirs (conjunctive) or any of them (disjunctive).

    ``exact``: a call (a *firing*) gets exactly the given numbers, and there are as many calls as the tuples are enough
    for; otherwise it gets whatever the ports have once they have at least the given numbers. From half of ``hold``
    waiting tuples of one key and port on the sources are slowed, beyond it there is a warning.

    >>> need_all(left=10, right=10).counts
    {'left': 10, 'right': 10}
    """

    mode: Literal["all", "any"] = "any"
    counts: Mapping[str, int] | None = None
    hold: int = 4096
    exact: bool = False

    def __post_init__(self) -> None:
        if any(n < 1 for n in (self.counts or {}).values()):
            raise PenstockError(
                "An operator needs at least one tuple on each port it names; give counts from 1."
            )
        if self.hold < max((self.counts or {"": 1}).values(), default=1):
            raise PenstockError("hold is less than the tuples needed for one call; raise it.")

    def exactly(self) -> "FiringRule":
        """The same numbers, but no more of them in one call.

        >>> need_any(a=2, b=1).exactly().takes({"a": np.array([5, 1]), "b": np.array([1, 9])})
        {'a': array([4, 0]), 'b': array([1, 9])}
        """
        return replace(self, exact=True)

    def at_least(self) -> "FiringRule":
        """The same numbers, or more of them in one call.

        >>> need_all(a=2, b=1).at_least().takes({"a": np.array([5, 1]), "b": np.array([1, 9])})
        {'a': array([5, 0]), 'b': array([1, 0])}
        """
        return replace(self, exact=False)

    @property
    def text(self) -> str:
        """The rule as a text that :meth:`of_text` reads.

        >>> FiringRule.of_text(need_all(left=2).text) == need_all(left=2)
        True
        """
        return json.dumps(asdict(self))

    @classmethod
    def of_text(cls, text: str) -> "FiringRule":
        """The rule that a text stands for."""
        return cls(**json.loads(text))

    def of(self, port: str) -> int:
        """How many tuples a call needs on a port."""
        return (self.counts or {}).get(port, 1)

    @property
    def immediate(self) -> bool:
        """Whether every tuple can be handed over as it comes."""
        return self.mode == "any" and not self.exact and all(n == 1 for n in (self.counts or {}).values())

    def takes(self, waiting: Mapping[str, Counts]) -> dict[str, Counts]:
        """How many of the waiting tuples of each port are handed over now, by key.

        >>> need_all(a=2, b=1).takes({"a": np.array([5, 1]), "b": np.array([1, 9])})
        {'a': array([2, 0]), 'b': array([1, 0])}
        """
        firings = self.firings(waiting)
        if self.mode == "all":
            return {
                p: firings * self.of(p) if self.exact else np.where(firings > 0, n, 0)
                for p, n in waiting.items()
            }
        return {
            p: n // self.of(p) * self.of(p) if self.exact else np.where(n >= self.of(p), n, 0)
            for p, n in waiting.items()
        }

    def firings(self, waiting: Mapping[str, Counts]) -> Counts:
        """For how many calls all ports have enough, by key."""
        calls: Counts = np.minimum.reduce([n // self.of(port) for port, n in waiting.items()])
        return calls


def need_all(hold: int = 4096, **counts: int) -> FiringRule:
    """Exactly these numbers of tuples on all of these ports: a barrier."""
    return FiringRule("all", counts, hold, exact=True)


def need_any(hold: int = 4096, **counts: int) -> FiringRule:
    """At least this number of tuples on any of these ports."""
    return FiringRule("any", counts or None, hold)
