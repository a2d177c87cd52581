import json
import math

import numpy as np
import pytest

from penstock import PenstockError
from penstock.preference.pid import Pid
from penstock.preference.splitting import PidSplitting, SplitState, StatisticSplitting, splitting

ALL = ("PB_RR", "TB_RR", "AS", "AS_PID")


@pytest.mark.parametrize("name", ALL)
def test_state_travels_through_json(name):
    strategy = splitting(name)
    state = strategy.start()
    for utilisation in (0.5, 1.4, 0.9):
        assert SplitState.from_json(json.loads(json.dumps(state.to_json()))) == state
        state = strategy.step(state, [100, 120, 80], utilisation)


def test_panes_are_never_split_or_always():
    assert splitting("PB_RR").step(splitting("PB_RR").start(), [5] * 9, 2.0).threshold == math.inf
    assert splitting("TB_RR").step(splitting("TB_RR").start(), [5] * 9, 0.1).threshold == 1.0


def test_splitting_starts_after_five_closed_partitions():
    strategy = splitting("AS")
    state = strategy.step(strategy.start(), [100] * 4, 1.0)
    assert state.threshold == math.inf
    state = strategy.step(state, [200], 1.0)
    assert state.threshold == pytest.approx(np.mean([100] * 4 + [200]) + np.std([100] * 4 + [200]))


def test_the_statistics_forget_old_partitions():
    strategy = splitting("AS")
    state = strategy.step(strategy.start(), [10_000] * 50, 1.0)
    state = strategy.step(state, [10] * 50, 1.0)
    assert state.threshold == 10


def test_a_fixed_threshold_stays():
    strategy = StatisticSplitting(threshold=500)
    assert strategy.step(strategy.start(), [9] * 20, 1.0).threshold == 500
    with pytest.raises(PenstockError, match="at least 1"):
        StatisticSplitting(threshold=0)


def test_the_pid_splits_more_when_the_stage_is_too_busy_and_less_when_it_idles():
    strategy = splitting("AS_PID")
    state = strategy.step(strategy.start(), [100] * 10, 0.9)
    busy = strategy.step(state, [100], 1.5)
    idle = strategy.step(state, [100], 0.3)
    assert busy.threshold < state.threshold < idle.threshold


def test_alpha_stays_within_its_bounds_and_a_step_within_its_limit():
    strategy = splitting("AS_PID")
    state = strategy.step(strategy.start(), [100] * 10, 0.9)
    for utilisation in [5.0] * 50 + [0.0] * 200:
        after = strategy.step(state, [100], utilisation)
        assert abs(after.alpha - state.alpha) <= 0.3 + 1e-12
        assert 0.1 <= after.alpha <= 20
        state = after


class Stage:
    """A toy stage: the more a pane is split, the less busy it is; open panes and queues make it follow slowly."""

    def __init__(self, load, inertia):
        self.load, self.inertia, self.utilisation = load, inertia, load

    def sample(self, alpha, workers=8):
        parts = min(max(2 / alpha, 1.0), workers)
        self.utilisation += (self.load / parts**0.7 - self.utilisation) / self.inertia
        return self.utilisation


@pytest.mark.parametrize("tune", [False, True])
@pytest.mark.parametrize("inertia", [4, 8])
def test_utilisation_settles_at_the_set_point(tune, inertia):
    strategy, stage = PidSplitting(tune=tune), Stage(2.0, inertia)
    state, seen = strategy.start(), []
    for _ in range(600):
        seen.append(stage.sample(state.alpha))
        state = strategy.step(state, [100], seen[-1])
    assert np.mean(seen[-100:]) == pytest.approx(0.9, rel=0.05)


def test_tuning_ends_and_leaves_gains_of_its_own():
    strategy, stage = PidSplitting(tune=True), Stage(2.0, 8)
    state = strategy.start()
    for _ in range(300):
        state = strategy.step(state, [100], stage.sample(state.alpha))
    assert state.relay is None
    assert state.gains is not None


def test_unknown_utilisation_changes_nothing_but_the_statistics():
    strategy = PidSplitting(pid=Pid(kp=1.0, setpoint=0.9, limit=0.2))
    state = strategy.step(strategy.start(), [100] * 10, 0.9)
    assert strategy.step(state, [], math.nan).alpha == state.alpha


def test_unknown_strategies_are_refused():
    with pytest.raises(PenstockError, match="did you mean 'AS_PID'"):
        splitting("AS_PDI")
