"""A relay experiment that has to find gains: batches with much to do and with nothing, and what must follow from them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from penstock.preference.pid import Pid
from penstock.preference.splitting import PidSplitting, SplitState

#: Between the utilisation of a worker that has much to do and of one that has next to nothing.
STRATEGY = PidSplitting(Pid(kp=1.8, kd=2.0, setpoint=0.25, limit=0.3), tune=True)


def busy(number: int) -> bool:
    """Whether a batch has much to do: two have, two have not, and so on, which makes the cycles of the experiment."""
    return number % 4 < 2


def check_tuned(states: Sequence[Mapping[str, Any]]) -> None:
    """The experiment went on, found gains, and alpha then follows by these and not by the fixed ones."""
    seen = [SplitState.from_json(state) for state in states]
    steps = [state.relay.step for state in seen if state.relay is not None]
    assert steps == sorted(steps)
    assert steps[-1] > 8
    tuned = [(a, b) for a, b in pairwise(seen) if a.relay is None and a != b]
    assert len(tuned) >= 3, "no step after the experiment"
    for before, after in tuned:
        assert before.gains is not None, "the experiment found no gains"
        assert before.gains == after.gains
        kp, ki, kd = before.gains
        assert after.alpha == pytest.approx(_alpha(replace(STRATEGY.pid, kp=kp, ki=ki, kd=kd), before, after))
    assert any(after.alpha != pytest.approx(_alpha(STRATEGY.pid, before, after)) for before, after in tuned)


def _alpha(pid: Pid, before: SplitState, after: SplitState) -> float:
    """Alpha after a step of the controller; the state after it tells the utilisation that it saw."""
    assert after.pid.last is not None
    held = (before.alpha >= STRATEGY.highest) - (before.alpha <= STRATEGY.lowest)
    change = pid.step(before.pid, after.pid.last, held)[1]
    return min(max(before.alpha + change, STRATEGY.lowest), STRATEGY.highest)
