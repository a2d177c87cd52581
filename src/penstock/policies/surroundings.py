"""What a policy is made for: the kind of plant and the bounds it has to keep."""

from dataclasses import dataclass
from enum import StrEnum
from math import inf

from penstock.core.errors import PenstockError


class PlantKind(StrEnum):
    """Kinds of plants that differ in the knobs they have, and so in the arguments that fit them."""

    MICRO_BATCHES = (
        "micro-batches"  # a Structured Streaming query, attached or simulated: executors, CPU shares
    )
    OPERATOR = "operator"  # one partitioned operator: workers, frequency, routing of keys
    PREFERENCE = "preference"  # a preference query: workers of its panes and its windows
    NETWORK = "network"  # operators with queues between them: CPU shares
    REPLICAS = "replicas"  # a flow or regions: replicas and pipelines
    SHARES = "shares"  # a flow whose operators have CPU shares


#: Response that is aimed at where no target was given, in seconds.
TARGETS = {
    PlantKind.MICRO_BATCHES: 5.0,
    PlantKind.OPERATOR: 0.02,
    PlantKind.PREFERENCE: 3.0,
    PlantKind.NETWORK: 0.3,
    PlantKind.REPLICAS: 1.0,
    PlantKind.SHARES: 3.0,
}


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a policy by name has to fit: the plant's kind, bounds, target and period.

    workers: least and most executors, workers (of all stages together) or replicas; None: they are left alone.
    in_turn: the stages work in turn on the same workers, so that each may have all of them.
    target: response time in seconds, by default one that makes sense for the kind. period: seconds between two steps.
    shares: CPU shares that may be set, rising; none: no shares. stages: the stages that take part, in order.
    cores: cores of the machine, 0 where unknown. overheads: seconds that a thread switch and a splitter cost a tuple.
    late: share of the tuples that may miss the target.

    >>> Surroundings(PlantKind.MICRO_BATCHES, workers=(1, 8)).goal
    5.0
    """

    kind: PlantKind
    workers: tuple[int, int] | None = (1, 16)
    target: float | None = None
    period: float = 5.0
    shares: tuple[float, ...] = ()
    stages: tuple[str, ...] = ()
    cores: int = 0
    overheads: tuple[float, float] | None = None
    late: float = 0.05
    in_turn: bool = False

    def __post_init__(self) -> None:
        if self.workers is not None and not 0 < self.workers[0] <= self.workers[1]:
            raise PenstockError(
                f"The bounds {self.workers[0]} to {self.workers[1]} contradict; the least must be 1 or more and not above the most."
            )
        if self.target is not None and not 0 < self.target < inf:
            raise PenstockError(f"The target must be a number above 0 seconds, not {self.target}.")
        if not 0 < self.late < 1:
            raise PenstockError(
                f"The share of tuples that may be late must be within (0, 1), not {self.late}."
            )

    @property
    def bounds(self) -> tuple[int, int]:
        """Least and most workers; one where they are left alone."""
        return self.workers or (1, 1)

    @property
    def together(self) -> int:
        """The most workers of all stages together."""
        return self.bounds[1] * (len(self.stages) if self.in_turn else 1)

    @property
    def goal(self) -> float:
        """The target, or one that makes sense for the kind."""
        return self.target or TARGETS[self.kind]
