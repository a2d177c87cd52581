"""Adaptive K-slack: give up a small share of the rows to wait much less (Ji et al. 2015; PPQ 6.2, Fig. 17).

Two laws reach the same share of dropped rows; both raise a, what is given up, while fewer rows than the target are
late, and lower it while more are:

    e = drop - late / rows                                            of the batch

``quantile`` (the default): a is the share of delays, as seen lately, that the slack does not cover.
    a           = clamp(a + G e, 0, 1)
    punctuation = max(last, t_max - Q(1 - a))                         Q = quantile of recent delays

``linear`` (the papers'): a is the share of the largest delay K that is not waited for, moved by a PID on coverage.
    a           = clamp(a + Kp e + Ki sum e + Kd (e - last e), 0, 1)
    punctuation = max(last, t_max - (1 - a) K)

Delays have long tails: nearly all of a's range is then spent on delays that hardly any row has, and the linear law
swings. See docs/decisions/0033-adaptive-slack.md for both on the same streams.
"""

from dataclasses import dataclass, replace
from typing import Literal

from penstock.core.errors import PenstockError, unknown
from penstock.disorder.state import DisorderState
from penstock.disorder.stats import BatchStats, add_histograms, quantile

#: Weight of what was known of delays when a batch is added to it.
MEMORY = 0.9


@dataclass(frozen=True)
class AdaptiveSlack:
    """Drop at most about ``drop`` of the rows, and wait no longer than that needs.

    >>> slack = AdaptiveSlack(drop=0.01)
    >>> state = slack.step(slack.start(), BatchStats(rows=100, t_max=1000, max_delay=300, delays=((0, 100),)))
    >>> state.given_up, state.punctuation
    (0.01, 1000)
    """

    drop: float = 0.01
    law: Literal["quantile", "linear"] = "quantile"
    gain: float = 1.0
    kp: float = 6.0
    ki: float = 0.6
    kd: float = 0.2

    def __post_init__(self) -> None:
        if not 0 < self.drop < 1:
            raise PenstockError(f"The drop target is {self.drop}; choose a share between 0 and 1, like 0.01.")
        if self.law not in ("quantile", "linear"):
            raise unknown("law of the adaptive slack", self.law, ("quantile", "linear"))

    def start(self) -> DisorderState:
        """Nothing given up yet: the first batches wait like K-slack."""
        return DisorderState()

    def step(self, state: DisorderState, batch: BatchStats) -> DisorderState:
        """One step of the controller, then the punctuation."""
        state = replace(
            state.seen(batch),
            slack=max(state.slack, batch.max_delay),
            delays=add_histograms(state.delays, batch.delays, MEMORY if batch.rows else 1.0),
        )
        if batch.rows:
            state = self._controlled(state, self.drop - batch.late / batch.rows)
        return state.punctuated(self._wait(state))

    def _controlled(self, state: DisorderState, error: float) -> DisorderState:
        total = state.total_error + error
        if self.law == "quantile":
            change = self.gain * error
        else:
            change = self.kp * error + self.ki * total + self.kd * (error - state.last_error)
        given_up = min(max(state.given_up + change, 0.0), 1.0)
        return replace(state, given_up=given_up, total_error=total, last_error=error)

    def _wait(self, state: DisorderState) -> int:
        if self.law == "linear":
            return round((1.0 - state.given_up) * state.slack)
        # A bucket's bound may lie above the largest delay; K itself is always enough.
        return (
            state.slack
            if state.given_up == 0
            else min(quantile(state.delays, 1 - state.given_up), state.slack)
        )
