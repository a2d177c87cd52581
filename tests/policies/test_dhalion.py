"""Dhalion: symptoms, diagnoses, resolvers, and what did not help is not repeated."""

from dataclasses import replace

from penstock.core import Knob
from penstock.core.capacity import Capacity
from penstock.core.observation import KeyLoad, Observation, StageObservation
from penstock.policies import Dhalion


def stage(workers=4, utilisation=0.5, **more):
    return StageObservation("op", Capacity.steady(workers), utilisation=utilisation, **more)


def run(policy, steps):
    state, decisions = policy.start(), []
    for time, one in steps:
        state, decision = policy.step(state, Observation(time, 1.0, (one,)))
        decisions.append(decision)
    return decisions


def test_an_under_provisioned_stage_grows_by_held_over_normal_time():
    (decision,) = run(Dhalion(), [(1.0, stage(4, 2.0))])  # half of the time held back: twice as many
    assert decision.number(Knob.WORKERS, "op") == 8
    assert "under-provisioned" in decision.reason


def test_an_over_provisioned_stage_shrinks_after_some_calm_steps():
    decisions = run(Dhalion(patience=3, shrink=0.5), [(float(t), stage(4)) for t in range(4)])
    assert [d.number(Knob.WORKERS, "op", 4) for d in decisions] == [4, 4, 2, 4]
    assert "judging" in decisions[3].reason


def test_pending_work_keeps_the_workers():
    busy = stage(4, 0.9, service_time=0.01, backlog=5000.0)
    assert not any(d.changes for d in run(Dhalion(patience=1), [(float(t), busy) for t in range(5)]))


def test_a_shrinking_that_holds_input_back_is_taken_back_and_blacklisted():
    policy = Dhalion(patience=1, settle=5.0, shrink=0.5, memory=100.0)
    steps = [(0.0, stage(4)), (5.0, stage(2, 1.4)), (11.0, stage(4)), (17.0, stage(4)), (120.0, stage(4))]
    decisions = run(policy, steps)
    assert decisions[1].number(Knob.WORKERS, "op") == 4
    assert "taken back" in decisions[1].reason
    assert "blacklisted" in decisions[2].reason
    assert "blacklisted" in decisions[3].reason
    assert decisions[4].number(Knob.WORKERS, "op") == 2  # forgotten by now


def test_a_growth_that_did_not_help_is_not_repeated():
    policy = Dhalion(settle=5.0)
    decisions = run(policy, [(0.0, stage(4, 2.0)), (6.0, stage(8, 2.0)), (20.0, stage(4, 2.0))])
    assert decisions[0].changes
    assert "grow from 4 is blacklisted" in decisions[2].reason
    assert not decisions[2].changes


def test_a_growth_is_judged_when_it_has_come():
    policy, on_the_way = Dhalion(settle=5.0), StageObservation("op", Capacity(4, 4, 2), utilisation=2.0)
    decisions = run(
        policy, [(0.0, stage(2, 2.0)), (15.0, on_the_way), (30.0, on_the_way), (60.0, stage(4, 2.5))]
    )
    assert "on its way" in decisions[2].reason
    assert decisions[3].number(Knob.WORKERS, "op", 4) > 4


def test_a_growth_that_a_guard_dropped_tells_nothing():
    decisions = run(Dhalion(settle=5.0), [(0.0, stage(4, 2.0)), (6.0, stage(4, 2.0))])
    assert decisions[1].number(Knob.WORKERS, "op") == 8


def test_skewed_workers_get_a_new_routing_instead_of_company():
    keys = KeyLoad((0.5, 0.3, 0.1, 0.1), (), (0, 0, 1, 1))
    uneven = replace(stage(2, 1.3), keys=keys, worker_utilisation=(1.0, 0.3))
    (decision,) = run(Dhalion(), [(0.0, uneven)])
    assert [c.knob for c in decision.changes] == [Knob.ROUTING]
    assert "data skew" in decision.reason


def skewed(utilisation, frequencies=(0.5, 0.3, 0.1, 0.1), routing=(0, 0, 1, 1)):
    keys = KeyLoad(frequencies, (), routing)
    return replace(stage(2, utilisation), keys=keys, worker_utilisation=(1.0, 0.3))


def test_a_skew_that_no_routing_mends_is_met_with_growth():
    best = (0.9, 0.1), (0, 1)  # one key is the load: there is nothing to move
    (decision,) = run(Dhalion(), [(0.0, skewed(2.0, *best))])
    assert decision.number(Knob.WORKERS, "op") == 4
    assert "moves nothing" in decision.reason


def test_a_routing_that_did_not_help_is_followed_by_growth():
    decisions = run(Dhalion(settle=5.0), [(0.0, skewed(2.0)), (6.0, skewed(2.0))])
    assert [c.knob for c in decisions[0].changes] == [Knob.ROUTING]
    assert decisions[1].number(Knob.WORKERS, "op") == 4
    assert "route from 2 is blacklisted" in decisions[1].reason


def test_a_skewed_stage_that_can_only_grow_to_its_limit_says_so():
    policy = Dhalion(settle=5.0, limits=(1, 2))
    decisions = run(policy, [(0.0, skewed(2.0)), (6.0, skewed(2.0))])
    assert not decisions[1].changes
    assert "blacklisted" in decisions[1].reason
