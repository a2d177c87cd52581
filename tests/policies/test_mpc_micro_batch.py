"""Mpc with the micro-batch model, as it runs on Spark."""

from dataclasses import replace
from math import e, nan

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core import Knob
from penstock.core.capacity import Capacity
from penstock.core.metrics import Metric
from penstock.core.observation import Latency, Observation, StageObservation
from penstock.forecast.holt import Holt
from penstock.models import MicroBatch
from penstock.policies import Mpc
from penstock.policies.batch_waiting import BatchQuery


def make(target=3.0, workers=(1, 8), **more):
    options = {
        "horizon": 4,
        "alpha": 2 / e,
        "steep": 5.0,
        "percentile": 0.95,
        "waiting": "microbatch",
        "margin": 1.0,
        "drain": target,
        "knob": Knob.EXECUTORS,
        "speed_knob": Knob.CPU_SHARE,
        "forecaster": Holt(alpha=0.3, beta=0.0, phi=0.5),
    }
    return Mpc("latency", target=target, workers=workers, **(options | more))


def seen(rate, executors=1, time=1.0, backlog=0.0, service=0.005, share=None, name="q"):
    stage = StageObservation(
        name,
        Capacity.steady(executors),
        arrival_rate=rate,
        service_time=service,
        backlog=backlog,
        utilisation=rate * service / executors,
        cpu_share=Capacity.steady(share) if share else None,
        trigger=1.0,
        overhead_time=0.3,
    )
    return Observation(time, 1.0, (stage,), executors=Capacity.steady(executors), slots=float(executors))


def settle(policy, rate, executors, steps=8, **more):
    state, decision = policy.start(), None
    for i in range(steps):
        state, decision = policy.step(state, seen(rate, executors, float(i), **more))
        executors = int(decision.number(Knob.EXECUTORS, "", executors))
    return executors, decision


@settings(max_examples=25, deadline=None)
@given(rate=st.floats(5.0, 1500.0), start=st.integers(1, 8))
def test_a_steady_load_gets_executors_that_meet_the_target_where_any_do(rate, start):
    count, decision = settle(make(2.2), rate, start, steps=16)
    response = MicroBatch(rate, 1.0, 0.3, 0.005, workers=count).percentile(0.95)
    most = MicroBatch(rate, 1.0, 0.3, 0.005, workers=8).percentile(0.95)
    assert response <= 2.2 * 1.1 or most > 2.2 * 0.95
    assert "against 2.2 s" in decision.reason


def test_a_steady_load_does_not_get_far_more_than_it_needs():
    count, decision = settle(make(), 300.0, 8, steps=20)
    needed = MicroBatch(300.0, 1.0, 0.3, 0.005).workers_for(3.0, 0.95)
    assert needed <= count <= needed + 1
    assert decision.predicted[Metric.LATENCY_P95] <= 3.0


def test_a_load_beyond_all_executors_gets_all_of_them():
    count, decision = settle(make(workers=(1, 4)), 5000.0, 1, steps=3)
    assert count == 4
    assert not decision.feasible


def test_a_backlog_asks_for_more():
    without, _ = settle(make(), 150.0, 2)
    with_one, _ = settle(make(), 150.0, 2, backlog=3000.0)
    assert with_one > without


def test_errors_of_the_forecast_make_room():
    def wanted(margin, rates):
        policy, executors = make(margin=margin), 2
        state = policy.start()
        for i, rate in enumerate(rates):
            state, decision = policy.step(state, seen(rate, executors, float(i)))
        return decision.number(Knob.EXECUTORS, "", executors)

    uneven, steady = [100.0, 500.0] * 20, [300.0] * 40
    assert wanted(1.0, uneven) > wanted(0.0, uneven)
    assert wanted(1.0, steady) == wanted(0.0, steady)


def test_shares_are_a_second_knob():
    policy = make(workers=(1, 4), speeds=(0.5, 0.75, 1.0))
    _, decision = policy.step(policy.start(), seen(20.0, 4, share=1.0))
    assert decision.number(Knob.CPU_SHARE, "q", 1.0) < 1.0 or decision.number(Knob.EXECUTORS, "", 4) < 4


def test_the_wait_is_corrected_by_the_percentile_that_is_aimed_at():
    """By the 95th it seemed a third shorter than predicted where the 99th is the target."""

    def corrections(latency):
        policy = make(percentile=0.99, waiting="microbatch-map")
        state, gaps = policy.start(), np.random.default_rng(1).exponential(1 / 200, 4000)
        for time in range(1, 6):
            one = seen(200.0, 2, float(time))
            told = replace(one.stages[0], interarrivals=gaps, latency=latency)
            state, _ = policy.step(state, replace(one, stages=(told,)))
        return dict(state.stages)["q"].ratios

    assert corrections(Latency(p95=1.3, p99=nan)) == ()
    assert corrections(Latency(p95=1.3, p99=2.0)) == corrections(Latency(p95=0.1, p99=2.0)) != ()


def test_queries_that_share_the_executors_are_sized_for_together():
    alone, both = (seen(300.0, 2, name=name) for name in "ab")
    both = replace(both, stages=alone.stages + both.stages)
    policy = make()
    few, many = (policy.step(policy.start(), o)[1].number(Knob.EXECUTORS, "", 2) for o in (alone, both))
    assert many > few


def test_nothing_known_changes_nothing():
    policy = make()
    _, decision = policy.step(policy.start(), seen(nan))
    assert not decision.changes
    assert "not known" in decision.reason


@given(rho=st.floats(0.05, 0.9), workers=st.integers(1, 8), rate=st.floats(50.0, 5000.0))
@settings(max_examples=20, deadline=None)
def test_the_cached_answers_are_those_of_the_model(rho, workers, rate):
    query = BatchQuery(trigger=2.0, fixed=0.4, tasks=0.8, percentile=0.95)
    got = float(query(np.array([[rho]]), rate, (workers,), (1.0,))[0, 0])
    exact = MicroBatch(rate, 2.0, 0.4 + 0.8 / workers, rho * workers / rate, workers=workers).percentile(0.95)
    assert got == pytest.approx(exact, rel=0.15)
