"""One resource of a simulated plant on its way from planned to observed."""

from math import inf

from penstock.core.capacity import Capacity


class Setting:
    """How much of a knob works now; what is added arrives after a delay, what is given back goes at once.

    >>> executors = Setting(1, limit=8, delay=4.0)
    >>> executors.plan(3, now=10.0)
    >>> executors.settle(13.9), executors.settle(14.0)
    (1, 3)
    """

    def __init__(self, amount: float, limit: float = inf, delay: float = 0.0) -> None:
        self.amount, self.planned = amount, amount
        self.limit, self.delay = limit, delay
        self._coming: list[tuple[float, float]] = []  # (when, up to how much)

    def plan(self, amount: float, now: float) -> None:
        """Want so much from now on."""
        self.settle(now)
        self.planned = amount
        # What is no longer wanted is cancelled, even where it has not arrived yet.
        self._coming = [(when, min(total, amount)) for when, total in self._coming]
        self._coming = [c for c in self._coming if c[1] > self.amount]
        if amount < self.amount:
            self.amount = amount
        elif amount > max([self.amount, *(total for _, total in self._coming)]):
            self._coming.append((now + self.delay, amount))
            self.settle(now)

    def settle(self, now: float) -> float:
        """Let arrive what is due; how much works then."""
        while self._coming and self._coming[0][0] <= now + 1e-12:
            self.amount = max(self.amount, self._coming.pop(0)[1])
        return self.amount

    def capacity(self) -> Capacity:
        """Planned, requested and observed."""
        return Capacity(self.planned, self.planned, self.amount, self.limit)
