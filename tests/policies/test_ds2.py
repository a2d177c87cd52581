"""Ds2: all operators in one step from true rates, with the safeguards of Flink's autoscaler."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.capacity import Capacity, Knob
from penstock.core.errors import PenstockError
from penstock.core.observation import Observation, StageObservation
from penstock.policies import Ds2
from penstock.policies.ds2 import demand_of_stages


def stage(name="op", workers=2, rate=400.0, service=0.005, **more):
    fields = {"arrival_rate": rate, "service_time": service, "utilisation": rate * service / workers} | more
    return StageObservation(name, Capacity.steady(workers), **fields)


def seen(*stages, time=1.0):
    return Observation(time, 1.0, stages)


def wanted(policy, *stages):
    _, decision = policy.step(policy.start(), seen(*stages))
    return {c.where: c.number for c in decision.changes}


@given(st.floats(500, 5000), st.floats(0.001, 0.05))
def test_one_step_reaches_the_utilisation_that_is_aimed_at(rate, service):
    policy = Ds2(restart=0.0, limits=(1, 10_000))
    count = wanted(policy, stage(workers=1, rate=rate, service=service)).get("op", 1)
    assert rate * service / count <= 0.7 + 1e-9 or rate * service <= 1.0
    assert count == 1 or rate * service / (count - 1) > 0.7 - 1e-9


def test_operators_downstream_are_sized_for_what_will_reach_them():
    first = stage("a", 1, 1000.0, 0.002, downstream=("b",), tuples_in=500.0, tuples_out=250.0)
    second = stage("b", 1, 250.0, 0.004)  # it gets 250/s now, since the first one only manages half
    assert demand_of_stages(seen(first, second))["b"] == 500.0
    assert wanted(Ds2(restart=0.0), first, second) == {"a": 3, "b": 3}


def test_within_the_boundary_nothing_changes():
    for load in (0.45, 0.7, 0.95):
        assert wanted(Ds2(restart=0.0), stage(workers=10, rate=1000.0, service=load * 10 / 1000)) == {}
    assert wanted(Ds2(restart=0.0), stage(workers=10, rate=1000.0, service=0.0105)) == {"op": 15}


def test_a_backlog_is_worked_off_in_the_catch_up_time():
    count = wanted(Ds2(restart=0.0, catch_up=60.0), stage(backlog=24_000.0))["op"]
    assert count == 5  # 400/0.7 + 400 tuples/s at 200 each


def test_it_gives_back_no_more_than_a_share_at_once():
    assert wanted(Ds2(restart=0.0, shrink=0.6), stage(workers=10, rate=10.0)) == {"op": 4}
    assert wanted(Ds2(restart=0.0), stage(workers=2, rate=10.0)) == {"op": 1}


def test_a_growth_that_helped_is_no_reason_against_another_when_rows_cost_more_later():
    policy = Ds2(restart=0.0, settle=0.0, window=0.5, effect=0.1)
    state, decision = policy.step(policy.start(), seen(stage(rate=900.0)))
    grown = int(decision.changes[0].number)
    state, _ = policy.step(state, seen(stage(workers=grown, rate=900.0), time=2.0))
    dearer = replace(stage(workers=grown, rate=900.0), service_time=0.005 * grown)
    _, decision = policy.step(state, seen(dearer, time=4.0))
    assert decision.number(Knob.WORKERS, "op", 0) > grown, decision.reason


def test_a_growth_that_brought_nothing_is_not_repeated():
    policy = Ds2(restart=0.0, settle=0.0, window=0.5, effect=0.1)
    state, decision = policy.step(policy.start(), seen(stage(rate=900.0)))
    grown = int(decision.changes[0].number)
    # Twice the workers, each half as fast: something they share is the bottleneck.
    stuck = replace(stage(workers=grown, rate=900.0), service_time=0.005 * grown / 2)
    _, decision = policy.step(state, seen(stuck, time=2.0))
    assert not decision.changes
    assert "brought nothing" in decision.reason


def test_means_over_the_window_and_a_pause_after_a_change():
    policy = Ds2(restart=0.0, settle=10.0)
    state, decision = policy.step(policy.start(), seen(stage(rate=900.0)))
    assert decision.changes
    state, decision = policy.step(state, seen(stage(rate=4000.0), time=5.0))
    assert "settle" in decision.reason


def test_options_that_make_no_sense_are_refused():
    with pytest.raises(PenstockError, match="utilisation"):
        Ds2(utilisation=1.2)
    with pytest.raises(PenstockError, match="limits"):
        Ds2(limits=(4, 2))


def test_paths_of_unequal_length_add_up_where_they_meet():
    first = stage("a", rate=100.0, downstream=("b", "joined"), tuples_in=100.0, tuples_out=100.0)
    second = stage("b", rate=100.0, downstream=("joined",), tuples_in=100.0, tuples_out=100.0)
    joined = stage("joined", rate=200.0, downstream=("last",), tuples_in=200.0, tuples_out=100.0)
    demands = demand_of_stages(seen(joined, second, first, stage("last", rate=100.0)))
    assert (demands["joined"], demands["last"]) == (200.0, 100.0)


def test_stages_that_feed_each_other_do_not_end_the_run():
    one, two = stage("one", downstream=("two",)), stage("two", downstream=("one",))
    assert demand_of_stages(seen(stage("first", rate=7.0), one, two)) == {"first": 7.0}
