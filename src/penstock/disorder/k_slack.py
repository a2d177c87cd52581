"""K-slack: wait as long as the longest delay seen so far (Babu, Srivastava, Widom 2004; PPQ 4.1.1)."""

from dataclasses import dataclass, replace

from penstock.disorder.stats import BatchStats
from penstock.disorder.strategy import DisorderState


@dataclass(frozen=True)
class KSlack:
    """punctuation = max(last, t_max - K), with K the largest delay seen; nothing is configured.

    >>> slack, state = KSlack(), KSlack().start()
    >>> state = slack.step(state, BatchStats(rows=9, t_max=1000, max_delay=300))
    >>> state.punctuation
    700
    """

    def start(self) -> DisorderState:
        """No slack yet."""
        return DisorderState()

    def step(self, state: DisorderState, batch: BatchStats) -> DisorderState:
        """Fold the batch into t_max and K, then advance the punctuation."""
        state = replace(state.seen(batch), slack=max(state.slack, batch.max_delay))
        return state.punctuated(state.slack)
