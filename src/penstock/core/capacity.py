"""Knobs that a plant can turn, and how much of each is planned, requested and observed.

- *planned*: what the last decision wants the plant to reach.
- *requested*: what the plant has asked of whatever provides it (threads, a cluster manager, the kernel) so far.
- *observed*: what really works now.

They differ while executors are on their way, and a policy that mixes them up asks for the same executor twice.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from math import inf, isfinite

from penstock.core.errors import PenstockError


class Knob(StrEnum):
    """What a decision can set; the value of each is told in words beside it."""

    WORKERS = "workers"  # workers of a stage or replicas of a region: a whole number, at least 0
    EXECUTORS = "executors"  # executors of the application: a whole number, at least 0; place ""
    CPU_SHARE = "cpu_share"  # share of one core that each worker of a stage may use: above 0
    FREQUENCY = "frequency"  # operating frequency of a stage's cores in GHz: above 0
    PIPELINES = "pipelines"  # a region's pipelines: index of the first operator of each, beginning with 0
    ROUTING = "routing"  # a stage's key groups: worker (0, 1, ...) of every group
    SHEDDING = "shedding"  # share of the input of a stage to drop: 0 to 1

    @property
    def whole(self) -> bool:
        """Whether the value is a whole number."""
        return self in (Knob.WORKERS, Knob.EXECUTORS)

    @property
    def scalar(self) -> bool:
        """Whether the value is one number (the others take a tuple of whole numbers)."""
        return self not in (Knob.PIPELINES, Knob.ROUTING)

    @property
    def resource(self) -> bool:
        """Whether more of it costs more: what 'growing' and 'shrinking' mean to the guards."""
        return self in (Knob.WORKERS, Knob.EXECUTORS, Knob.CPU_SHARE, Knob.FREQUENCY)


#: A scalar knob takes a number, PIPELINES and ROUTING take a tuple of whole numbers.
KnobValue = float | tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Capacity:
    """How much of one knob is planned, requested and observed, and the most the plant could give.

    >>> Capacity(planned=4, requested=4, observed=2).arriving
    True
    >>> Capacity.steady(3)
    Capacity(planned=3, requested=3, observed=3, limit=inf)
    """

    planned: float
    requested: float
    observed: float
    limit: float = inf
    limited_by: str = field(default="", repr=False)  # what the limit is, where the plant can say

    def __post_init__(self) -> None:
        if not all(isfinite(v) and v >= 0 for v in (self.planned, self.requested, self.observed)):
            raise PenstockError(
                f"A capacity must be finite and not negative, not {self!r}; check the plant's counts."
            )

    @classmethod
    def steady(cls, amount: float, limit: float = inf) -> "Capacity":
        """Planned, requested and observed all the same."""
        return cls(amount, amount, amount, limit)

    @property
    def arriving(self) -> bool:
        """Whether more is planned or requested than works now."""
        return max(self.planned, self.requested) > self.observed + 1e-9

    @property
    def leaving(self) -> bool:
        """Whether less is planned than works now."""
        return self.planned < self.observed - 1e-9
