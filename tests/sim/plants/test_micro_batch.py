import numpy as np
import pytest

from penstock.core.capacity import Knob
from penstock.core.decision import Change, Decision
from penstock.core.errors import PenstockError
from penstock.core.metrics import Metric
from penstock.sim.plants.micro_batch import SparkCosts, SparkLike
from penstock.testing import check_plant


def steady(rate, seconds):
    return np.arange(int(rate * seconds)) / rate


def plant(rate=100.0, seconds=100.0, **costs):
    return SparkLike(steady(rate, seconds), SparkCosts(**{"noise": 0.0, **costs}), limit=8)


def test_it_keeps_the_contract_of_a_plant():
    p = plant(row_cost=0.004)
    ask = Decision((Change(Knob.EXECUTORS, "", 3),), "a test")
    check_plant(p, lambda s: p.wait_until(p.now() + s), ask, conserves=True)


def test_a_batch_takes_its_overhead_and_the_work_over_the_executors():
    p = plant(rate=100.0, overhead=0.2, row_cost=0.005)
    p.wait_until(10.0)
    seen = p.observe()
    # One batch a second: 100 rows x 5 ms on one executor in what the overhead leaves of the second.
    assert seen.measure(Metric.UTILISATION) == pytest.approx(0.5 / 0.8, abs=0.02)
    assert seen.latency.mean == pytest.approx(0.5 + 0.7, abs=0.03)


def test_executors_work_only_after_they_arrived():
    p = plant(rate=100.0, row_cost=0.02, arrives_after=4.0)
    p.wait_until(10.0)
    p.apply(Decision((Change(Knob.EXECUTORS, "", 4),), "a test"))
    p.wait_until(13.0)
    assert p.observe().executors.observed == 1
    p.wait_until(14.5)
    assert p.observe().executors.observed == 4


def test_a_query_that_is_too_slow_falls_behind_and_catches_up_with_more_executors():
    p = plant(rate=100.0, seconds=400.0, row_cost=0.02, warm_up=0.0)
    p.wait_until(60.0)
    slow = p.observe()
    assert slow.measure(Metric.UTILISATION) > 1.0
    p.apply(Decision((Change(Knob.EXECUTORS, "", 8),), "a test"))
    p.wait_until(200.0)
    p.observe()
    p.wait_until(210.0)
    assert p.observe().latency.mean < 2.0


def test_every_row_is_processed_shed_or_waiting():
    p = plant(rate=200.0, seconds=50.0, row_cost=0.001)
    p.apply(Decision((Change(Knob.SHEDDING, "query", 0.25),), "a test"))
    out = shed = 0.0
    for t in range(1, 61):
        p.wait_until(float(t))
        seen = p.observe()
        out += seen.stage().tuples_out
        shed += seen.stage().extra["shed"]
    assert out + shed == 10_000
    assert shed == pytest.approx(2500, abs=60)


def test_the_same_seed_gives_the_same_run_and_another_one_another():
    def run(seed):
        p = SparkLike(steady(50.0, 60.0), SparkCosts(row_cost=0.01), seed=seed)
        p.wait_until(60.0)
        return p.observe().latency

    assert run(1) == run(1)
    assert run(1) != run(2)


def test_impossible_changes_are_refused_with_a_reason():
    p = plant()
    done = p.apply(Decision((Change(Knob.EXECUTORS, "", 99), Change(Knob.CPU_SHARE, "query", 0.5)), "a test"))
    assert not done.changes
    assert "at most 8" in done.refused[0][1]


def test_gaps_in_a_trace_cost_no_batches():
    p = SparkLike(np.array([0.5, 1000.0]), SparkCosts(noise=0.0))
    p.wait_until(1010.0)
    assert p.observe().stage().extra["batches"] == 2


def test_negative_costs_are_refused():
    with pytest.raises(PenstockError, match="negative"):
        SparkCosts(row_cost=-1.0)


def test_utilisation_leaves_out_what_no_executor_can_speed_up():
    """0 without load and 1 where a batch takes its trigger, also where half of the trigger is overhead."""
    costs = SparkCosts(overhead=0.5, row_cost=0.001, trigger=1.0)
    assert costs.utilisation(0.0, 4) == 0.0
    for executors in (1, 2, 4):
        full = 0.5 * executors  # work a second for which a batch takes 1 s
        assert costs.duration(full, executors) == pytest.approx(1.0)
        assert costs.utilisation(full, executors) == pytest.approx(1.0)
    assert SparkCosts(overhead=1.5).utilisation(0.1, 1) > 1.0
