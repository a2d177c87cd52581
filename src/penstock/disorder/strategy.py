"""The state of disorder handling and the interface of its strategies."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

from penstock.disorder.stats import BatchStats, Histogram


@dataclass(frozen=True)
class DisorderState:
    """All that is known at a batch boundary; plain numbers, the same for every strategy.

    ``t_max``: largest event time seen. ``slack``: K, the largest delay seen, or the fixed delay. ``punctuation``: rows
    with an event time below it are late from the next batch on; it never goes back. ``given_up``: the share a of the
    slack that is not waited for. ``total_error``, ``last_error``: memory of the controller. ``delays``: recent delays.
    ``judged_rows``, ``judged_lost``, ``judged_given_up``: rows of true answers lately, those of them lost, and the sum of
    what was given up for each (a slack by recall).
    """

    t_max: int | None = None
    slack: int = 0
    punctuation: int | None = None
    rows: int = 0
    late: int = 0
    given_up: float = 0.0
    total_error: float = 0.0
    last_error: float = 0.0
    delays: Histogram = ()
    judged_rows: float = 0.0
    judged_lost: float = 0.0
    judged_given_up: float = 0.0

    @property
    def dropped_share(self) -> float:
        """Late rows among all rows so far."""
        return self.late / self.rows if self.rows else 0.0

    def seen(self, batch: BatchStats) -> "DisorderState":
        """The state with the batch's counts and its largest time."""
        times = [t for t in (self.t_max, batch.t_max) if t is not None]
        return replace(
            self,
            t_max=max(times) if times else None,
            rows=self.rows + batch.rows,
            late=self.late + batch.late,
        )

    def punctuated(self, wait: int) -> "DisorderState":
        """punctuation = max(last, t_max - wait)."""
        if self.t_max is None:
            return self
        candidate = self.t_max - wait
        last = self.punctuation
        return replace(self, punctuation=candidate if last is None else max(last, candidate))

    def to_json(self) -> dict[str, Any]:
        """Plain numbers."""
        return {**vars(self), "delays": [list(pair) for pair in self.delays]}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "DisorderState":
        """The value that ``to_json`` gave."""
        return cls(**{**value, "delays": tuple((int(b), float(n)) for b, n in value["delays"])})


@runtime_checkable
class Disorder(Protocol):
    """How long to wait for late rows: a frozen configuration with a pure step from batch to batch."""

    def start(self) -> DisorderState:
        """The state before the first batch."""

    def step(self, state: DisorderState, batch: BatchStats) -> DisorderState:
        """The state after a batch."""
