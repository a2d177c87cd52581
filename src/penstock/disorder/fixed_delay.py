"""A fixed delay, as Spark's own watermark has it."""

from dataclasses import dataclass

from penstock.core.durations import microseconds
from penstock.disorder.stats import BatchStats
from penstock.disorder.strategy import DisorderState


@dataclass(frozen=True)
class FixedDelay:
    """punctuation = max(last, t_max - delay).

    >>> FixedDelay("2 seconds").step(DisorderState(), BatchStats(rows=1, t_max=5_000_000)).punctuation
    3000000
    """

    delay: str

    def __post_init__(self) -> None:
        microseconds(self.delay, "delay")

    def start(self) -> DisorderState:
        """The slack is the delay, always."""
        return DisorderState(slack=microseconds(self.delay, "delay"))

    def step(self, state: DisorderState, batch: BatchStats) -> DisorderState:
        """Advance the punctuation with the largest time."""
        return state.seen(batch).punctuated(microseconds(self.delay, "delay"))
