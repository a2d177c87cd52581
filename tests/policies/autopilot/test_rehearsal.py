"""What a rehearsal remembers: totals since a mark within the memory, without what was before it counted."""

from dataclasses import replace

import numpy as np
import pytest

from penstock.policies.autopilot.rehearsal import MARKS, Rehearsal, score
from penstock.policies.autopilot.shadow import Bins, MeasuredCosts, Period, Shadow

COSTS = MeasuredCosts(1.0, 0.2, 0.01, 1.0)
TARGET = 5.0


def after(seconds, memory, uncounted=0.0, step=5.0):
    """A rehearsal of so long whose late share is 1 in the first half of it and 0 in the second."""
    nothing = Period(0.0)
    it = Rehearsal(Shadow(0.0, 2.0, 2.0), None, nothing, nothing, (nothing,))
    time = 0.0
    while time < seconds:
        time += step
        period = Period(time, 10.0, 10.0 if time <= seconds / 2 else 0.0, 2.0 * step, 1)
        it = it.did(period, time > uncounted, memory)
    return it


def told(rehearsal):
    return score(rehearsal, COSTS, TARGET)


def test_all_counts_within_the_memory():
    found = told(after(600.0, 3600.0))
    assert (found.late, found.cost, found.seconds) == pytest.approx((0.5, 120.0, 600.0))
    assert found.changes == pytest.approx(720.0)


def test_what_is_longer_ago_than_the_memory_is_forgotten_by_the_minute():
    it = after(1200.0, 300.0)
    found = told(it)
    assert found.late == 0.0
    assert 300.0 - MARKS <= found.seconds <= 300.0 + MARKS
    assert len(it.marks) <= 300.0 / MARKS + 2


def test_the_worst_minute_is_the_one_with_the_most_late_rows_the_present_one_included():
    it = after(600.0, 3600.0)  # 120 rows a minute, all late for five minutes
    assert told(it).worst == pytest.approx(120.0 / 1200.0)
    now = it.did(Period(605.0, 200.0, 200.0, 10.0, 0), True, 3600.0)
    assert told(now).worst == pytest.approx(200.0 / 1400.0)


def test_the_start_does_not_count():
    assert told(after(600.0, 3600.0, uncounted=300.0)).late == 0.0
    assert told(after(600.0, 3600.0, uncounted=300.0)).seconds == pytest.approx(300.0)


def test_rows_that_are_bound_to_be_late_count_before_their_batch_ends():
    it = after(600.0, 3600.0, uncounted=300.0)
    batch = Bins(np.array([594.0, 597.0]), np.array([3.0, 4.0]), np.array([5.0, 5.0]))
    it = replace(it, shadow=replace(it.shadow, now=600.0, batch=batch, started=597.0, ends=601.0))
    assert it.shadow.overdue(COSTS, TARGET) == 3.0  # by the end of the batch, which is known
    waiting = Bins(np.array([598.0]), np.array([9.0]), np.array([20.0]))
    slow = replace(it.shadow, waiting=waiting)  # 2 executors: 0.2 s and 10 s from 601 s on
    assert slow.overdue(COSTS, TARGET) == 12.0
    assert replace(slow, planned=20.0).overdue(COSTS, TARGET) == 3.0
    assert told(replace(it, shadow=slow)).late == pytest.approx(12.0 / (60 * 10.0 + 12.0))
