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
        self._us()

    def _us(self) -> int:
        return microseconds(self.delay, "delay")

    def start(self) -> DisorderState:
        """The slack is the delay, always."""
        return DisorderState(slack=self._us())

    def step(self, state: DisorderState, batch: BatchStats) -> DisorderState:
        """Advance the punctuation with the largest time."""
        return state.seen(batch).punctuated(self._us())
