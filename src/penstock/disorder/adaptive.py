"""Adaptive K-slack: give up a small share of the rows to wait much less (Ji et al. 2015; PPQ 6.2, Fig. 17)."""

from dataclasses import dataclass, replace

from penstock.core.errors import PenstockError
from penstock.disorder.state import DisorderState
from penstock.disorder.stats import BatchStats


@dataclass(frozen=True)
class AdaptiveSlack:
    """A PID controller on coverage moves the share a of the slack that is not waited for.

        coverage    = 1 - late / rows          of the batch
        e           = coverage - (1 - drop)    above the set-point: more may be given up
        a           = clamp(a + Kp e + Ki sum e + Kd (e - last e), 0, 1)
        punctuation = max(last, t_max - (1 - a) K)

    K is the largest delay seen. a starts at 0, so the first batches wait like K-slack.
    """

    drop: float = 0.01
    kp: float = 6.0
    ki: float = 0.6
    kd: float = 0.2

    def __post_init__(self) -> None:
        if not 0 < self.drop < 1:
            raise PenstockError(f"The drop target is {self.drop}; choose a share between 0 and 1, like 0.01.")

    def start(self) -> DisorderState:
        """Nothing given up yet."""
        return DisorderState()

    def step(self, state: DisorderState, batch: BatchStats) -> DisorderState:
        """One step of the controller, then the punctuation."""
        slack = max(state.slack, batch.max_delay)
        if batch.rows:
            error = self.drop - batch.late / batch.rows
            total = state.total_error + error
            change = self.kp * error + self.ki * total + self.kd * (error - state.last_error)
            given_up = min(max(state.given_up + change, 0.0), 1.0)
            state = replace(state, given_up=given_up, total_error=total, last_error=error)
        state = replace(state.seen(batch), slack=slack)
        return state.punctuated(round((1.0 - state.given_up) * slack))
