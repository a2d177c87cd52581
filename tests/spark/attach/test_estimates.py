"""What rows and batches cost, found again from what was put in."""

from math import isnan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.spark.attach.batch_history import SeenBatch
from penstock.spark.attach.estimates import WorkEstimate, WorkMeter


def feed(meter, true, sizes, slots, rng=None, start=0.0):
    work = WorkEstimate()
    for i, size in enumerate(sizes):
        noise = 1.0 if rng is None else rng.uniform(0.9, 1.1)
        busy = (true.per_batch + true.service * int(size)) * noise
        duration = true.fixed + busy / slots
        work = meter.add([SeenBatch(i, start + i, duration, int(size), 1.0, busy=busy, slots=slots)])
    return work


def test_nothing_is_known_before_the_first_rows():
    meter = WorkMeter()
    assert not meter.add([]).known
    assert not meter.add([SeenBatch(0, 0.0, 1.0, 0, 1.0, busy=0.1, slots=1)]).known
    assert isnan(WorkEstimate().utilisation(10.0, 2.0, 1.0))


@given(
    service=st.floats(1e-5, 1e-2),
    per_batch=st.floats(0.01, 1.0),
    fixed=st.floats(0.05, 0.5),
    slots=st.integers(1, 8),
)
def test_costs_are_found_from_batches_of_different_sizes(service, per_batch, fixed, slots):
    true = WorkEstimate(service, per_batch, fixed)
    sizes = np.repeat([100, 400, 1600], 6)
    found = feed(WorkMeter(), true, sizes, slots)
    assert found.fixed == pytest.approx(fixed, rel=0.01)
    for rows in (100, 1000):
        assert found.duration(rows, slots) == pytest.approx(true.duration(rows, slots), rel=0.15)


def test_a_batch_of_the_measured_size_is_predicted_even_if_all_had_that_size():
    true = WorkEstimate(0.002, 0.3, 0.2)
    found = feed(WorkMeter(), true, [200] * 10, 2, np.random.default_rng(1))
    assert found.duration(200, 2) == pytest.approx(true.duration(200, 2), rel=0.1)


def test_what_a_busy_time_taught_is_kept_through_a_quiet_one():
    true = WorkEstimate(0.002, 0.3, 0.2)
    meter = WorkMeter()
    feed(meter, true, [500] * 6, 2)
    found = feed(meter, true, [10] * 200, 2)
    assert found.service == pytest.approx(true.service, rel=0.1)


def test_utilisation_is_one_where_a_batch_takes_its_trigger_interval():
    work = WorkEstimate(service=0.004, per_batch=0.2, fixed=0.3)
    rate = 2 * (1.0 - work.overhead(2)) / 0.004
    assert work.duration(rate, 2) == pytest.approx(1.0)
    assert work.utilisation(rate, 2, 1.0) == pytest.approx(1.0)
    assert work.utilisation(0.0, 2, 1.0) == 0.0
    assert work.utilisation(100.0, 2, 0.0) == pytest.approx(0.2)


def test_an_overhead_longer_than_the_interval_counts_as_overload():
    assert WorkEstimate(0.001, 0.0, 1.5).utilisation(10.0, 1, 1.0) > 1.0


def test_after_a_new_quota_only_new_measurements_count():
    meter = WorkMeter()
    feed(meter, WorkEstimate(0.002, 0.1, 0.1), [100] * 4 + [400] * 4, 2)
    meter.forget()
    assert feed(meter, WorkEstimate(0.004, 0.1, 0.1), [100] * 4 + [400] * 4, 2).service == pytest.approx(
        0.004, rel=0.1
    )
