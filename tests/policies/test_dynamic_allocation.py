"""Spark's dynamic allocation: 1, 2, 4, ... executors while tasks wait; idle ones go after a minute."""

from penstock.core import Knob
from penstock.core.capacity import Capacity
from penstock.core.observation import Observation, StageObservation
from penstock.policies.dynamic_allocation import DynamicAllocation


def seen(time, executors=1, batch=0.5, busy=None):
    stage = StageObservation(
        "query",
        Capacity.steady(executors),
        busy_time=0.0 if batch is None else batch,
        batch_duration=float("nan") if batch is None else batch,
    )
    return Observation(time, 5.0, (stage,), executors=Capacity.steady(executors, 64))


def asked(policy, observation, state=None):
    state, decision = policy.step(state, observation)
    return state, decision.number(Knob.EXECUTORS, "", observation.executors.planned)


def test_the_longer_tasks_wait_the_more_are_asked_for():
    policy = DynamicAllocation(tasks=10_000)
    counts = [asked(policy, seen(5.0, 1, batch))[1] for batch in (0.5, 1.01, 2.01, 3.01, 4.01)]
    assert counts == [1, 2, 4, 8, 16]


def test_never_more_than_the_tasks_need():
    assert asked(DynamicAllocation(tasks=4), seen(5.0, 1, 30.0))[1] == 4


def test_idle_executors_go_after_a_minute_and_not_before():
    policy, state = DynamicAllocation(), None
    for time in range(5, 60, 5):
        state, count = asked(policy, seen(float(time), 8, None), state)
        assert count == 8
    assert asked(policy, seen(60.0, 8, None), state)[1] == 1


def test_small_batches_keep_every_executor():
    policy, state = DynamicAllocation(), None
    for time in range(5, 300, 5):
        state, count = asked(policy, seen(float(time), 8, 0.4), state)
        assert count == 8
