"""Several observations as one."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.capacity import Capacity
from penstock.core.merging import merge, merged
from penstock.core.observation import KeyLoad, Latency, Observation, StageObservation

NAN = float("nan")


def seen(time, period, workers=1, latency=NAN, **stage):
    made = StageObservation("op", Capacity.steady(workers), **stage)
    return Observation(time, period, (made,), latency=Latency(mean=latency))


def test_sums_are_summed_rates_are_means_over_time_and_costs_means_over_tuples():
    both = merge(
        seen(1, 1.0, latency=1.0, arrival_rate=100.0, tuples_in=100.0, tuples_out=10.0, service_time=0.001,
             busy_time=0.1, utilisation=0.1, backlog=7.0),
        seen(4, 3.0, latency=2.0, arrival_rate=500.0, tuples_in=300.0, tuples_out=30.0, service_time=0.005,
             busy_time=1.5, utilisation=0.5, backlog=9.0),
    )  # fmt: skip
    stage = both.stage("op")
    assert (both.time, both.period) == (4, 4.0)
    assert (stage.tuples_in, stage.tuples_out, stage.backlog) == (400, 40, 9)
    assert stage.busy_time == pytest.approx(1.6)
    assert stage.arrival_rate == pytest.approx(400)
    assert stage.utilisation == pytest.approx(0.4)
    assert stage.service_time == pytest.approx(0.004)
    assert both.latency.mean == pytest.approx(1.75)


def test_what_one_of_them_does_not_know_the_other_tells():
    both = merge(seen(1, 1.0, utilisation=0.3, splitting=2.0), seen(2, 1.0, utilisation=NAN))
    assert both.stage("op").utilisation == 0.3
    assert both.stage("op").splitting == 2.0


def test_after_a_change_of_configuration_only_the_later_counts():
    later = seen(2, 1.0, workers=2, utilisation=0.2)
    assert merge(seen(1, 1.0, workers=1, utilisation=0.9), later) is later


def test_key_frequencies_are_means_over_tuples_and_the_routing_is_the_later():
    a = seen(1, 1.0, tuples_in=100.0, keys=KeyLoad((1.0, 0.0), routing=(0, 1)))
    b = seen(2, 1.0, tuples_in=300.0, keys=KeyLoad((0.0, 1.0), routing=(0, 1)))
    assert merge(a, b).stage("op").keys == KeyLoad((0.25, 0.75), routing=(0, 1))


@given(
    st.lists(st.tuples(st.floats(0.01, 10), st.floats(0, 5), st.integers(0, 1000)), min_size=1, max_size=8)
)
def test_merging_one_by_one_is_the_mean_of_all(batches):
    whole = merged(
        [
            seen(i, period, utilisation=rho, tuples_in=float(rows), service_time=rho)
            for i, (period, rho, rows) in enumerate(batches)
        ]
    )
    time = sum(p for p, _, _ in batches)
    assert whole.period == pytest.approx(time)
    assert whole.stage("op").utilisation == pytest.approx(sum(p * r for p, r, _ in batches) / time)
    rows = sum(n for _, _, n in batches)
    if rows > 0:
        expected = sum(n * r for _, r, n in batches) / rows
        assert whole.stage("op").service_time == pytest.approx(expected, abs=1e-9)


def test_stages_of_another_observation_are_not_mixed_in():
    one = seen(1, 1.0)
    other = replace(one, stages=(replace(one.stages[0], name="another"),))
    assert merge(one, other) is other
