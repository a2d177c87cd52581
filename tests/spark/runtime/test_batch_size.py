"""Sizes of batches of a source that has more rows than one batch can do in its time."""

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.spark.runtime.batch_size import BatchSize


def worked_off(cost, waiting, arrivals=0.0, trigger=0.5, batches=200):
    """Rows and seconds of batches that work off what waits, where rows arrive meanwhile."""
    size, done = BatchSize.of(trigger), []
    for _ in range(batches):
        rows = min(waiting, size.rows)
        if rows < 1:
            break
        seconds = cost(rows)
        waiting += arrivals * max(seconds, 0.0 if size.filled(rows) else trigger) - rows
        size = size.after(rows, seconds)
        done.append((rows, seconds))
    return done


def test_nothing_is_held_back_while_batches_are_short():
    size = BatchSize.of(trigger=0.5).after(rows=1_000, seconds=0.1)
    assert size.rows == inf
    assert size.after(rows=10_000_000, seconds=1.9).rows == inf


def test_what_an_hour_left_is_worked_off_in_batches_of_some_triggers():
    done = worked_off(lambda rows: 0.05 + rows / 20_000, waiting=3_000_000)
    assert sum(rows for rows, _ in done) == pytest.approx(3_000_000)
    assert all(seconds < 2.5 for _, seconds in done[1:])


def test_batches_do_not_grow_with_the_backlog_of_an_overloaded_run():
    done = worked_off(lambda rows: rows / 10_000, waiting=5_000, arrivals=15_000)
    assert max(seconds for _, seconds in done) < 3.5
    assert sum(rows for rows, _ in done) / sum(seconds for _, seconds in done) == pytest.approx(10_000)


def test_a_first_batch_that_compiles_holds_back_only_for_a_moment():
    costs = iter([10.0])
    done = worked_off(lambda rows: next(costs, rows / 100_000), waiting=2_000, arrivals=20_000, batches=20)
    assert done[-1][1] < 0.5


COSTS = {"fixed": st.floats(0.0, 20.0), "power": st.floats(0.4, 1.0), "trigger": st.floats(0.1, 10.0)}


def of_costs(fixed, power, trigger):
    """Forty batches of a source that never ends: each costs something whatever its rows, and less a row the more they are."""
    return worked_off(lambda rows: fixed + 100.0 * (rows / 1e6) ** power, inf, trigger=trigger, batches=40)


@given(**COSTS)
def test_shorter_batches_cost_no_throughput(fixed, power, trigger):
    """Batches that cost much whatever their rows, or less a row the longer they are, are allowed to be long."""
    rates = [rows / seconds for rows, seconds in of_costs(fixed, power, trigger)]
    assert min(rates[20:]) >= 0.85 * rates[0]


@given(**COSTS)
def test_batches_are_no_longer_than_that_takes(fixed, power, trigger):
    (_, first), *later = of_costs(fixed, power, trigger)
    assert max(seconds for _, seconds in later[20:]) <= 3 * max(first, BatchSize.of(trigger).usual)


def test_a_run_that_became_slower_keeps_its_short_batches():
    size = BatchSize.of(trigger=0.5)
    for _ in range(5):
        size = size.after(size.rows, size.rows / 30_000)
    seconds = []
    for _ in range(20):
        seconds.append(size.rows / 10_000)
        size = size.after(size.rows, seconds[-1])
    assert max(seconds[8:]) < 2.5
