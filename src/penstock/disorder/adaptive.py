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

With a ``recall`` the target is a share of the answers' rows, not of all rows. The query tells what late rows would have
been in which answers (:meth:`AdaptiveSlack.judge`), and what is given up follows in proportion:

    loss = lost rows / rows of the true answers                       of windows judged lately
    a    = (mean a of those windows) 0.8 (1 - recall) / loss          and the slack is Q(1 - a), as above

See docs/decisions/0034-slack-by-recall.md.
"""

from dataclasses import dataclass, replace
from math import exp
from typing import Literal

from penstock.core.errors import PenstockError, unknown
from penstock.disorder.stats import BatchStats, add_histograms, quantile
from penstock.disorder.strategy import DisorderState

#: Weight of what was known of delays when a batch of so many rows is added to it; a smaller one says less, and less fades.
MEMORY, FULL = 0.9, 200

#: By recall: the share of the allowed loss that is aimed at. A tenth of the late rows is not waited for when windows are
#: judged, and late rows come in bursts, which a proportional law follows too late.
AIM = 0.8

#: By recall: losses are remembered over as many rows of answers as lose so many at the target.
EVIDENCE = 20.0

#: By recall: the bounds of one step of a, as factors, and the least a in shares of the target (a must be able to rise).
STEP = (0.25, 2.0)
LEAST = 0.01


@dataclass(frozen=True, repr=False)
class AdaptiveSlack:
    """Drop at most about ``drop`` of the rows, and wait no longer than that needs.

    With ``recall`` instead, wait no longer than it takes to have that share of the rows of the answers; this needs a
    preference query, which measures what its answers lose.

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
    recall: float | None = None

    def __post_init__(self) -> None:
        if self.recall is not None:
            self._check_recall(self.recall)
        if not 0 < self.drop < 1:
            raise PenstockError(f"The drop target is {self.drop}; choose a share between 0 and 1, like 0.01.")
        if self.law not in ("quantile", "linear"):
            raise unknown("law of the adaptive slack", self.law, ("quantile", "linear"))

    def _check_recall(self, recall: float) -> None:
        if not 0 < recall < 1:
            raise PenstockError(f"The recall is {recall}; choose a share between 0 and 1, like 0.99.")
        if repr(replace(self, recall=None)) != repr(AdaptiveSlack()):
            raise PenstockError(
                "A slack by recall has no other options; write AdaptiveSlack(recall=...) or AdaptiveSlack(drop=...)."
            )

    def __repr__(self) -> str:
        # The text is part of a query's identity: that of a drop target stays what it was before recall.
        if self.recall is not None:
            return f"AdaptiveSlack(recall={self.recall!r})"
        names = ("drop", "law", "gain", "kp", "ki", "kd")
        return f"AdaptiveSlack({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"

    def start(self) -> DisorderState:
        """Nothing given up yet: the first batches wait like K-slack. By recall: late rows count as all others at first."""
        return DisorderState(given_up=0.0 if self.recall is None else 1.0 - self.recall)

    def step(self, state: DisorderState, batch: BatchStats) -> DisorderState:
        """One step of the controller, then the punctuation."""
        state = replace(
            state.seen(batch),
            slack=max(state.slack, batch.max_delay),
            delays=add_histograms(state.delays, batch.delays, MEMORY ** min(1.0, batch.rows / FULL)),
        )
        if batch.rows and self.recall is None:
            state = self._controlled(state, self.drop - batch.late / batch.rows)
        return state.punctuated(self._wait(state))

    def judge(self, state: DisorderState, rows: int, lost: int, given_up: float) -> DisorderState:
        """By recall: some windows' true answers have so many rows, of which so many were lost while a was ``given_up``.

        >>> slack = AdaptiveSlack(recall=0.99)
        >>> state = slack.judge(slack.start(), rows=100_000, lost=2_000, given_up=0.03)
        >>> round(state.given_up, 4)  # twice as much was lost as may be
        0.012
        """
        if self.recall is None or not rows:
            return state
        target = 1.0 - self.recall
        keep = exp(-rows * target / EVIDENCE)
        state = replace(
            state,
            judged_rows=keep * state.judged_rows + rows,
            judged_lost=keep * state.judged_lost + lost,
            judged_given_up=keep * state.judged_given_up + rows * given_up,
        )
        # One lost row at the target stands for what was known before: few rows say little.
        loss = (state.judged_lost + 1.0) / (state.judged_rows + 1.0 / target)
        step = min(max(AIM * target / loss, STEP[0]), STEP[1])
        asked = step * state.judged_given_up / state.judged_rows
        return replace(state, given_up=min(max(asked, LEAST * target), 1.0))

    def hold(self, state: DisorderState) -> int:
        """By recall: for how long late rows are waited for, to judge by; they are but a tenth of what may be lost."""
        share = (1.0 - (self.recall or 0.0)) / 10
        return min(quantile(state.delays, 1.0 - share), state.slack)

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
