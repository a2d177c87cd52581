"""MEAD's choice of CPU shares for a chain in micro-batches."""

import numpy as np
import pytest

from penstock.core.capacity import Capacity, Knob
from penstock.core.observation import Observation, StageObservation
from penstock.models import MicroBatch
from penstock.spark.vertical.policy import BatchMead
from penstock.testing import check_policy
from penstock.traffic import map2

DEMANDS = {"parser": 2e-5, "matcher": 3e-4, "counter": 5e-5}


def seen(gaps, shares, time=0.0, trigger=1.0, overhead=0.2):
    rate = 1.0 / gaps.mean()
    names = list(DEMANDS)
    stages = tuple(
        StageObservation(
            name,
            Capacity.steady(1),
            downstream=tuple(names[i + 1 : i + 2]),
            arrival_rate=rate,
            interarrivals=gaps if i == 0 else None,
            tuples_in=rate,
            tuples_out=rate,
            service_time=DEMANDS[name] / shares[name],
            cpu_share=Capacity.steady(shares[name]),
            extra={"trigger": trigger, "overhead_time": overhead},
        )
        for i, name in enumerate(names)
    )
    return Observation(time, 2.0, stages)


def settled(policy, gaps):
    shares, state, decision = dict.fromkeys(DEMANDS, 1.0), policy.start(), None
    for i in range(8):
        state, decision = policy.step(state, seen(gaps, shares, 100.0 * i))
        shares |= {c.where: c.number for c in decision.changes if c.knob is Knob.CPU_SHARE}
    return shares, decision


@pytest.fixture(scope="module")
def bursty():
    return np.diff(map2(1200.0, 1000.0).sample(15.0, 4))


def test_it_keeps_the_contract_of_a_policy():
    check_policy(BatchMead(model="mg1", target=2.0))


def test_only_the_slowest_operator_gets_more_than_the_least(bursty):
    shares, decision = settled(BatchMead(target=1.5, best=2, max_states=8), bursty)
    assert shares["parser"] == shares["counter"] == 0.4
    assert shares["matcher"] > 0.4
    assert "against 1.5 s" in decision.reason


def test_poisson_arrivals_need_no_more_than_bursty_ones(bursty):
    by_bursts, _ = settled(BatchMead(target=1.5, best=2, max_states=8), bursty)
    by_poisson, _ = settled(BatchMead(model="mg1", target=1.5), bursty)
    assert by_poisson["matcher"] <= by_bursts["matcher"]


def test_the_prediction_is_that_of_the_micro_batch_queue(bursty):
    policy = BatchMead(model="mg1", target=5.0, windows=1)
    shares, decision = settled(policy, bursty)
    slowest = max(DEMANDS[n] / shares[n] for n in DEMANDS)
    expected = MicroBatch(1 / bursty.mean(), 1.0, 0.2, slowest).mean_response
    assert next(iter(decision.predicted.values())) == pytest.approx(expected, rel=0.05)


def test_too_few_arrivals_are_said(bursty):
    policy = BatchMead(least=10_000_000)
    _, decision = policy.step(policy.start(), seen(bursty, dict.fromkeys(DEMANDS, 1.0)))
    assert "inter-arrival times seen" in decision.reason
