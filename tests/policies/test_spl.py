import pytest

from penstock.core import Knob
from penstock.core.capacity import Capacity
from penstock.core.errors import PenstockError
from penstock.core.metrics import Metric
from penstock.core.observation import Observation, StageObservation
from penstock.policies import RuleBased, Spl
from penstock.policies.rule_based import Rule


def closed(policy, rate_of, gain_of, steps=60, start=1):
    """Closed loop on an operator whose capacity is gain_of(replicas); the path of replicas."""
    state, n, path = policy.start(), start, []
    for step in range(steps):
        rate, capacity = rate_of(step), gain_of(n)
        served = min(rate, capacity)
        stage = StageObservation(
            "op", Capacity.steady(n), arrival_rate=rate, tuples_in=4 * served, utilisation=rate / capacity
        )
        state, decision = policy.step(state, Observation(4.0 * (step + 1), 4.0, (stage,)))
        n = int(decision.number(Knob.WORKERS, "op", n))
        path.append(n)
    return path


def test_it_climbs_while_congested_and_rests_where_one_less_was_congested():
    path = closed(Spl(), lambda s: 450.0, lambda n: 100.0 * n)
    assert path[-20:] == [5] * 20


def test_it_goes_back_when_one_more_did_not_help_and_does_not_try_again():
    path = closed(Spl(), lambda s: 1000.0, lambda n: 100.0 * min(n, 3))
    assert max(path) == 4
    assert path[-20:] == [3] * 20
    assert path.count(4) == 1


def test_it_forgets_when_the_load_falls_and_when_it_rises():
    path = closed(Spl(), lambda s: 450.0 if s < 20 or s >= 40 else 150.0, lambda n: 100.0 * n)
    assert path[19] == 5
    assert path[38] == 2
    assert path[-1] == 5


def test_it_decides_only_every_interval():
    policy, stage = (
        Spl(interval=4.0),
        StageObservation("op", Capacity.steady(1), arrival_rate=9.0, tuples_in=1.0),
    )
    state, wishes = policy.start(), []
    for step in range(8):
        state, decision = policy.step(state, Observation(step + 1.0, 1.0, (stage,)))
        wishes.append(len(decision.changes))
    assert wishes == [0, 0, 0, 1, 0, 0, 0, 1]


def test_what_the_plant_tells_of_congestion_counts_first():
    stage = StageObservation("op", Capacity.steady(1), arrival_rate=9.0, tuples_in=9.0, congestion=0.3)
    _, decision = Spl(interval=1.0).step(Spl().start(), Observation(1.0, 1.0, (stage,)))
    assert decision.value(Knob.WORKERS, "op") == 2


def test_rules_fire_in_order_and_keep_their_limits():
    policy = RuleBased(
        rules=(Rule(Metric.BACKLOG, +2, above=100), Rule(Metric.UTILISATION, -1, below=0.5)), limits=(1, 4)
    )
    stage = StageObservation("op", Capacity.steady(3), utilisation=0.2, backlog=500.0)
    assert policy.step(None, Observation(1.0, 1.0, (stage,)))[1].value(Knob.WORKERS, "op") == 4
    stage = StageObservation("op", Capacity.steady(3), utilisation=0.2, backlog=0.0)
    assert policy.step(None, Observation(1.0, 1.0, (stage,)))[1].value(Knob.WORKERS, "op") == 2
    stage = StageObservation("op", Capacity.steady(1), utilisation=0.2, backlog=0.0)
    assert not policy.step(None, Observation(1.0, 1.0, (stage,)))[1].changes


def test_rules_oscillate_where_no_number_of_replicas_is_within_the_band():
    path = closed(RuleBased(high=0.95, low=0.8), lambda s: 150.0, lambda n: 100.0 * n)
    assert set(path[-10:]) == {1, 2}


def test_impossible_parameters_are_refused():
    with pytest.raises(PenstockError):
        Spl(sensitivity=0)
    with pytest.raises(PenstockError):
        RuleBased(high=0.5, low=0.8)
    with pytest.raises(PenstockError):
        RuleBased(knob=Knob.ROUTING)
