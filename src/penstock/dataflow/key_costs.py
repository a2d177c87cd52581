"""What a tuple of each key group costs, told apart by the times of slices that hold several groups each.

Each slice is an equation: its groups' tuples times their costs are its time. They are solved as they come, by the
multiplicative method of tomography (MART): where a slice took twice what its groups were thought to cost, all of them
are thought dearer, those with most tuples most. Slices are drawn anew every time, so a group that only happened to stand
beside a dear one is put right by the next ones.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from penstock.core.arrays import Floats
from penstock.dataflow.slices import SliceTime

#: How far an estimate follows a slice, and the largest factor that one may change it by.
STEP, LARGEST = 0.5, 8.0
#: Calls in slices before anything is told: a single one cannot tell groups apart.
ENOUGH = 3


class KeyCosts:
    """The costs of one operator's key groups, in CPU seconds a tuple.

    >>> costs = KeyCosts(3)
    >>> for _ in range(20):
    ...     costs.add([SliceTime((0, 1), (10, 10), 11.0), SliceTime((2,), (10,), 1.0)])
    ...     costs.add([SliceTime((1, 2), (10, 10), 2.0), SliceTime((0,), (10,), 10.0)])
    >>> costs.seconds.round(2).tolist()
    [1.0, 0.1, 0.1]
    """

    def __init__(self, groups: int) -> None:
        self._groups = groups
        self._seconds: Floats | None = None
        self.calls = 0

    @property
    def seconds(self) -> Floats:
        """Seconds a tuple, by group; groups of which nothing is known cost what the others did at first."""
        return np.zeros(self._groups) if self._seconds is None else self._seconds

    def add(self, slices: Sequence[SliceTime]) -> None:
        """Take the slices of one call into account."""
        self.calls += 1
        if self._seconds is None:
            mean = sum(s.seconds for s in slices) / sum(sum(s.rows) for s in slices)
            self._seconds = np.full(self._groups, max(mean, 1e-12))
        for one in slices:
            at, rows = np.asarray(one.groups), np.asarray(one.rows, dtype=float)
            thought = float((rows * self._seconds[at]).sum())
            ratio = min(max(one.seconds / thought, 1 / LARGEST), LARGEST)
            self._seconds[at] *= ratio ** (STEP * rows / rows.max())


class RegionCosts:
    """The costs of the key groups of a flow's regions, from all of their operators."""

    def __init__(self, groups: int) -> None:
        self._groups = groups
        self._operators: dict[str, KeyCosts] = {}

    def add(self, operator: str, slices: Sequence[SliceTime]) -> None:
        """Take the slices of one call of an operator into account."""
        if slices:
            self._operators.setdefault(operator, KeyCosts(self._groups)).add(slices)

    def of(self, operators: Sequence[str], rows: Mapping[str, int]) -> Floats | None:
        """Seconds that a tuple of each group costs in a chain of operators that took so many; None where nobody knows."""
        known = [n for n in operators if n in self._operators and self._operators[n].calls >= ENOUGH]
        first = rows.get(operators[0], 0)
        if not known or not first:
            return None
        total = np.zeros(self._groups)
        for name in known:
            total += self._operators[name].seconds * rows.get(name, 0) / first
        return total
