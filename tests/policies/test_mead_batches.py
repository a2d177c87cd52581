"""MEAD's choice of CPU shares for operators that work on the same micro-batches."""

from dataclasses import replace

import numpy as np
import pytest

from penstock.core.capacity import Capacity, Knob
from penstock.core.errors import PenstockError
from penstock.core.observation import Observation, StageObservation
from penstock.models import MicroBatch
from penstock.policies import Mead
from penstock.testing import check_policy
from penstock.traffic import map2

DEMANDS = {"parser": 2e-5, "matcher": 3e-4, "counter": 5e-5}


def seen(
    gaps, shares, time=0.0, trigger=1.0, overhead=0.2, demands=DEMANDS, levels=(0, 0, 0), visits=1.0,
    branched=False,
):  # fmt: skip
    """A chain of the operators, or (MEAD's Fig. 3) a branch: the first one feeds all others."""
    rate = 1.0 / gaps.mean()
    names = list(demands)
    below = {n: tuple(names[i + 1 : i + 2]) for i, n in enumerate(names)}
    if branched:
        below = {n: () if i else tuple(names[1:]) for i, n in enumerate(names)}
    stages = tuple(
        StageObservation(
            name,
            Capacity.steady(1),
            downstream=below[name],
            arrival_rate=rate,
            interarrivals=gaps if i == 0 else None,
            tuples_in=rate,
            tuples_out=rate,
            service_time=demands[name] / shares[name],
            cpu_share=Capacity.steady(shares[name]),
            trigger=trigger,
            overhead_time=overhead,
            level=levels[i],
            visits=visits,
        )
        for i, name in enumerate(names)
    )
    return Observation(time, 2.0, stages)


def settled(policy, gaps, **given):
    shares, state, decision = dict.fromkeys(DEMANDS, 1.0), policy.start(), None
    for i in range(8):
        state, decision = policy.step(state, seen(gaps, shares, 100.0 * i, **given))
        shares |= {c.where: c.number for c in decision.changes if c.knob is Knob.CPU_SHARE}
    return shares, decision


@pytest.fixture(scope="module")
def bursty():
    return np.diff(map2(1200.0, 1000.0).sample(15.0, 4))


def test_it_keeps_the_contract_of_a_policy():
    check_policy(Mead(model="mg1", target=2.0))


def test_only_the_slowest_operator_gets_more_than_the_least(bursty):
    shares, decision = settled(Mead(target=1.5, best=2, max_states=8), bursty)
    assert shares["parser"] == shares["counter"] == 0.4
    assert shares["matcher"] > 0.4
    assert "against 1.5 s" in decision.reason


def test_poisson_arrivals_need_no_more_than_bursty_ones(bursty):
    by_bursts, _ = settled(Mead(target=1.5, best=2, max_states=8), bursty)
    by_poisson, _ = settled(Mead(model="mg1", target=1.5), bursty)
    assert by_poisson["matcher"] <= by_bursts["matcher"]


def test_the_prediction_is_that_of_the_micro_batch_queue(bursty):
    policy = Mead(model="mg1", target=5.0, windows=1)
    shares, decision = settled(policy, bursty)
    slowest = max(DEMANDS[n] / shares[n] for n in DEMANDS)
    expected = MicroBatch(1 / bursty.mean(), 1.0, 0.2, slowest).mean_response
    assert next(iter(decision.predicted.values())) == pytest.approx(expected, rel=0.05)


def test_too_few_arrivals_are_said(bursty):
    policy = Mead(least=10_000_000)
    _, decision = policy.step(policy.start(), seen(bursty, dict.fromkeys(DEMANDS, 1.0)))
    assert "inter-arrival times seen" in decision.reason


def test_kingmans_arrivals_count_for_all_operators_too(bursty):
    shares, _ = settled(Mead(model="gig1", target=3.0), bursty)
    assert shares["parser"] == shares["counter"] == 0.4


def test_operators_that_are_equally_slow_rise_together(bursty):
    equal = dict.fromkeys(DEMANDS, 3e-4)
    shares, decision = settled(Mead(model="mg1", target=1.4), bursty, demands=equal)
    assert set(shares.values()) == {0.55}
    assert decision.feasible


def test_levels_one_after_another_add_up(bursty):
    policy = Mead(model="mg1", target=5.0, windows=1)
    shares, decision = settled(policy, bursty, levels=(0, 1, 1))
    per_tuple = DEMANDS["parser"] / shares["parser"] + DEMANDS["matcher"] / shares["matcher"]
    expected = MicroBatch(1 / bursty.mean(), 1.0, 0.2, per_tuple).mean_response
    assert next(iter(decision.predicted.values())) == pytest.approx(expected, rel=0.05)


def test_an_operator_that_sees_half_of_the_tuples_needs_half(bursty):
    policy = Mead(model="mg1", target=5.0, windows=1)
    shares, decision = settled(policy, bursty, visits=0.5)
    expected = MicroBatch(1 / bursty.mean(), 1.0, 0.2, 0.5 * DEMANDS["matcher"] / shares["matcher"])
    assert next(iter(decision.predicted.values())) == pytest.approx(expected.mean_response, rel=0.05)


def test_a_target_that_no_share_meets_is_said_and_gets_the_most_that_helps(bursty):
    shares, decision = settled(Mead(model="mg1", target=0.6), bursty)
    assert not decision.feasible
    assert "no configuration is expected to meet the target" in decision.reason
    assert shares["matcher"] == 1.0
    assert shares["parser"] == 0.4


def test_without_a_trigger_there_is_no_prediction(bursty):
    policy = Mead(model="mg1")
    _, decision = policy.step(policy.start(), seen(bursty, dict.fromkeys(DEMANDS, 1.0), trigger=float("nan")))
    assert decision.changes == ()
    assert "time between two batches" in decision.reason


BRANCH = {"levels": (0, 1, 1), "branched": True}


@pytest.mark.parametrize("sink", ["counter", "matcher"])
def test_each_branch_may_have_a_target_and_the_batch_meets_the_tightest(bursty, sink):
    """Rows of all sinks are there when their batch is committed, so that whose target it is makes no difference."""
    asked = Mead(model="mg1", target=5.0, targets={sink: 1.4}, windows=1)
    shares, decision = settled(asked, bursty, **BRANCH)
    alone, _ = settled(replace(asked, targets={}), bursty, **BRANCH)
    assert (shares, decision) == settled(Mead(model="mg1", target=1.4, windows=1), bursty, **BRANCH)
    assert shares["matcher"] > alone["matcher"]  # also for the counter, whose batch waits for the matcher
    assert shares["counter"] == alone["counter"] == 0.4
    assert "against 1.4 s" in decision.reason
    assert decision.feasible


def test_a_target_may_be_that_of_a_sink_that_has_no_share_of_its_own(bursty):
    names = tuple(DEMANDS)
    plain = seen(bursty, dict.fromkeys(names, 1.0), **BRANCH)
    counter = replace(plain.stage("counter"), downstream=("writer/0",))
    writer = StageObservation("writer/0", Capacity.steady(1), region="writer", trigger=1.0)
    flow = replace(plain, stages=(*plain.stages[:2], counter, writer))
    policy = Mead(model="mg1", target=5.0, targets={"writer": 0.6}, windows=1)
    _, decision = policy.step(policy.start(), flow)
    assert "against 0.6 s" in decision.reason
    with pytest.raises(
        PenstockError, match="'counter', in which no path ends; give it to matcher or writer/0"
    ):
        replace(policy, targets={"counter": 0.6}).step(policy.start(), flow)


def test_a_target_of_a_region_is_that_of_its_last_pipeline(bursty):
    plain = seen(bursty, dict.fromkeys(DEMANDS, 1.0), levels=(0, 1, 2))
    flow = replace(plain, stages=(plain.stages[0], *(replace(s, region="rest") for s in plain.stages[1:])))
    policy = Mead(model="mg1", target=5.0, targets={"rest": 0.6}, windows=1)
    assert "against 0.6 s" in policy.step(policy.start(), flow)[1].reason
