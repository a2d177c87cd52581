"""In-order processing, the papers' baseline: rows are held and sorted until the slack has passed."""

from dataclasses import dataclass, field

from penstock.disorder.k_slack import KSlack
from penstock.disorder.stats import BatchStats
from penstock.disorder.strategy import Disorder, DisorderState


@dataclass(frozen=True)
class InOrder:
    """Buffer and sort: the same punctuations as ``slack``, but rows reach the query only once they are due.

    A runtime that meets it holds rows back until the punctuation has passed them; the steps are those of ``slack``.
    """

    slack: Disorder = field(default_factory=KSlack)

    def start(self) -> DisorderState:
        """That of the slack."""
        return self.slack.start()

    def step(self, state: DisorderState, batch: BatchStats) -> DisorderState:
        """That of the slack."""
        return self.slack.step(state, batch)
