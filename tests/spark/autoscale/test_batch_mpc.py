"""Model-predictive control with the micro-batch model."""

from math import nan

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.capacity import Capacity, Knob
from penstock.core.errors import PenstockError
from penstock.core.observation import Observation, StageObservation
from penstock.models import MicroBatch
from penstock.spark.autoscale.batch_mpc import BatchMpc
from penstock.spark.autoscale.named_policies import POLICIES
from penstock.spark.autoscale.settings import Settings
from penstock.testing import check_policy


def seen(rate, executors=1, time=1.0, backlog=0.0, service=0.005, share=None):
    stage = StageObservation(
        "q",
        Capacity.steady(executors),
        arrival_rate=rate,
        service_time=service,
        backlog=backlog,
        utilisation=rate * service / executors,
        tuples_in=rate,
        cpu_share=Capacity.steady(share) if share else None,
        extra={"trigger": 1.0, "overhead_time": 0.3},
    )
    return Observation(
        time, 1.0, (stage,), executors=Capacity.steady(executors), extra={"slots": float(executors)}
    )


def settle(policy, rate, executors, steps=8, **more):
    state, decision = policy.start(), None
    for i in range(steps):
        state, decision = policy.step(state, seen(rate, executors, float(i), **more))
        executors = int(decision.number(Knob.EXECUTORS, "", executors))
    return executors, decision


@pytest.mark.parametrize("name", sorted(POLICIES))
def test_every_named_policy_keeps_the_contract(name):
    check_policy(POLICIES[name](Settings(executors=(1, 4), target=3.0)))


@settings(max_examples=25, deadline=None)
@given(rate=st.floats(5.0, 1500.0), start=st.integers(1, 8))
def test_a_steady_load_gets_executors_that_meet_the_target_where_any_do(rate, start):
    policy = BatchMpc(target=2.2, executors=(1, 8))
    count, decision = settle(policy, rate, start, steps=16)
    response = MicroBatch(rate, 1.0, 0.3, 0.005, workers=count).percentile(0.95)
    most = MicroBatch(rate, 1.0, 0.3, 0.005, workers=8).percentile(0.95)
    assert response <= 2.2 * 1.1 or most > 2.2 * 0.95
    assert "against 2.2 s" in decision.reason


def test_a_steady_load_does_not_get_far_more_than_it_needs():
    count, _ = settle(BatchMpc(target=3.0), 300.0, 8, steps=20)
    needed = MicroBatch(300.0, 1.0, 0.3, 0.005).workers_for(3.0, 0.95)
    assert needed <= count <= needed + 1


def test_a_backlog_asks_for_more():
    policy = BatchMpc(target=3.0)
    without, _ = settle(policy, 150.0, 2)
    with_one, _ = settle(policy, 150.0, 2, backlog=3000.0)
    assert with_one > without


def test_shares_are_a_second_knob():
    policy = BatchMpc(target=3.0, executors=(1, 4), shares=(0.5, 0.75, 1.0))
    _, decision = policy.step(policy.start(), seen(20.0, 4, share=1.0))
    assert decision.number(Knob.CPU_SHARE, "q", 1.0) < 1.0 or decision.number(Knob.EXECUTORS, "", 4) < 4


def test_nothing_known_changes_nothing():
    policy = BatchMpc()
    _, decision = policy.step(policy.start(), seen(nan))
    assert not decision.changes
    assert "not known" in decision.reason


@pytest.mark.parametrize(
    "arguments", [{"target": 0.0}, {"executors": (3, 2)}, {"shares": (1.5,)}, {"beta": -1.0}, {"horizon": 0}]
)
def test_impossible_parameters_are_refused(arguments):
    with pytest.raises(PenstockError):
        BatchMpc(**arguments)
