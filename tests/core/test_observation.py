from math import isnan

import pytest

from penstock.core import Knob
from penstock.core.capacity import Capacity
from penstock.core.errors import PenstockError
from penstock.core.metrics import Metric
from penstock.core.observation import Latency, Observation, StageObservation
from penstock.testing.policy_suite import example_observations


@pytest.fixture
def seen():
    return example_observations()[0]


def test_planned_requested_and_observed_are_told_apart():
    capacity = Capacity(planned=4, requested=3, observed=1)
    assert capacity.arriving
    assert not capacity.leaving
    assert Capacity(1, 1, 2).leaving


def test_a_negative_capacity_is_refused():
    with pytest.raises(PenstockError, match="not negative"):
        Capacity(1, 1, -1)


def test_every_knob_of_every_place_can_be_looked_up(seen):
    assert seen.value(Knob.WORKERS, "panes") == 2
    assert seen.value(Knob.WORKERS, "chain") == 1
    assert seen.value(Knob.PIPELINES, "chain") == (0,)
    assert len(seen.value(Knob.ROUTING, "panes")) == 16
    assert seen.value(Knob.SHEDDING, "panes") == 0
    assert seen.value(Knob.EXECUTORS) == 2
    assert seen.value(Knob.WORKERS, "nowhere") is None
    assert seen.value(Knob.CPU_SHARE, "chain") is None


def test_names_of_stages_and_regions_differ():
    with pytest.raises(PenstockError, match="same name"):
        Observation(
            0.0, 1.0, (StageObservation("a", Capacity.steady(1)), StageObservation("a", Capacity.steady(1)))
        )


def test_an_unknown_stage_is_named_with_a_hint(seen):
    with pytest.raises(PenstockError, match="did you mean 'panes'"):
        seen.stage("pane")


def test_every_metric_can_be_measured_for_a_stage_and_for_all(seen):
    for metric in Metric:
        assert isinstance(seen.measure(metric), float)
        assert isinstance(seen.measure(metric, "panes"), float)


def test_the_application_takes_arrivals_from_the_first_stage_and_results_from_the_last():
    first = StageObservation("a", Capacity.steady(2), arrival_rate=10.0, tuples_out=8.0, utilisation=0.4)
    last = StageObservation("b", Capacity.steady(3), arrival_rate=8.0, tuples_out=4.0, utilisation=0.9)
    seen = Observation(1.0, 2.0, (first, last), latency=Latency(mean=0.5))
    assert seen.measure(Metric.ARRIVAL_RATE) == 10
    assert seen.measure(Metric.THROUGHPUT) == 2
    assert seen.measure(Metric.UTILISATION) == 0.9
    assert seen.measure(Metric.WORKERS) == 5
    assert seen.measure(Metric.LATENCY_MEAN) == 0.5
    assert isnan(seen.measure(Metric.LATENCY_P95))


def test_extras_of_a_plant_are_metrics_too():
    stage = StageObservation("a", Capacity.steady(2), extra={"filter_ratio": 0.3})
    seen = Observation(1.0, 2.0, (stage,), extra={"state_size": 100.0})
    assert seen.measure(Metric.FILTER_RATIO, "a") == 0.3
    assert seen.measure(Metric.STATE_SIZE) == 100
