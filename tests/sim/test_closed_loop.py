import numpy as np

from penstock.core.capacity import Knob
from penstock.policies import Static, Threshold
from penstock.sim import SparkCosts, SparkLike, compare


def make():
    return SparkLike(np.arange(30_000) / 100.0, SparkCosts(row_cost=0.02), limit=8, seed=3)


def test_policies_are_compared_on_the_same_stream():
    policies = {
        "few": Static(executors=1),
        "many": Static(executors=8),
        "threshold": Threshold(knob=Knob.EXECUTORS, limits=(1, 8)),
    }
    few, many, threshold = compare(make, policies, 5.0, 300.0, target=3.0)
    assert np.array_equal(few.series.arrival_rate, many.series.arrival_rate)
    assert few.response_mean > 10 * many.response_mean
    assert few.core_seconds < threshold.core_seconds < many.core_seconds
    assert threshold.quality.reconfigurations >= 2
    assert many.row()["violations"] < 0.1


def test_a_policy_that_fails_is_recorded_and_the_run_goes_on():
    class Broken(Static):
        def step(self, state, observation):
            raise ValueError("no idea")

    (outcome,) = compare(make, {"broken": Broken()}, 5.0, 100.0)
    assert any("no idea" in w for w in outcome.warnings)
    assert outcome.quality.observations == 20
