from dataclasses import replace

import numpy as np
import pytest

from penstock.core.capacity import Capacity, Knob
from penstock.core.controller import Controller, run
from penstock.core.errors import PenstockError
from penstock.core.journal import MemoryJournal
from penstock.core.observation import Observation, StageObservation
from penstock.policies import Threshold
from penstock.sim import SparkCosts, SparkLike, load
from penstock.sim.calibrate import calibrate


def test_the_costs_of_a_simulated_run_are_found_again():
    costs = SparkCosts(overhead=0.4, row_cost=0.003, noise=0.04, arrives_after=6.0, trigger=1.0)
    plant = SparkLike(load("walk:rate=700", 400.0, 3).arrivals, costs, 2, 8, seed=1)
    journal = MemoryJournal()
    policy = Threshold(high=0.83, low=0.17, knob=Knob.EXECUTORS, limits=(2, 8))
    run(Controller(plant, policy, journal=journal), plant, 2.0, 400.0)
    found = calibrate(journal.tables())
    assert found.costs.overhead == pytest.approx(0.4, rel=0.15)
    assert found.costs.row_cost == pytest.approx(0.003, rel=0.1)
    assert found.costs.noise == pytest.approx(0.04, rel=0.5)
    assert found.costs.trigger == 1.0
    assert found.costs.arrives_after == pytest.approx(6.0, abs=1.1)
    assert found.error < 0.06


@pytest.mark.parametrize("warm_up", [0.0, 1.5])
def test_what_new_executors_cost_is_found_again(warm_up):
    costs = SparkCosts(row_cost=0.003, arrives_after=6.0, warm_up=warm_up)
    plant = SparkLike(load("walk:rate=700", 400.0, 3).arrivals, costs, 2, 8, seed=1)
    journal = MemoryJournal()
    policy = Threshold(high=0.83, low=0.17, knob=Knob.EXECUTORS, limits=(2, 8))
    run(Controller(plant, policy, journal=journal), plant, 5.0, 400.0)
    found = calibrate(journal.tables())
    assert found.warm_ups >= 2
    assert found.parameters()["warm_up"] == pytest.approx(warm_up, abs=0.2)


def test_without_new_executors_what_they_cost_is_not_told():
    plant = SparkLike(load("walk:rate=700", 100.0, 3).arrivals, SparkCosts(), 2, 8, seed=1)
    journal = MemoryJournal()
    run(Controller(plant, Threshold(limits=(2, 2)), journal=journal), plant, 5.0, 100.0)
    assert "warm_up" not in calibrate(journal.tables()).parameters()


def preference_like(rows, seconds):
    panes = StageObservation("panes", Capacity.steady(2), busy_time=0.001 * rows, tuples_in=rows)
    windows = StageObservation("windows", Capacity.steady(2), busy_time=0.0005 * rows)
    return lambda t: Observation(t, 1.0, (panes, windows), extra={"rows": rows, "batch_seconds": seconds})


def test_a_journal_of_a_preference_query_is_understood():
    journal = MemoryJournal()
    for t, rows in enumerate(np.linspace(100, 1000, 40)):
        journal.observation(preference_like(float(rows), 0.3 + 0.0015 * rows / 2)(float(t + 1)))
    found = calibrate(journal.tables()).costs
    assert found.overhead == pytest.approx(0.3, abs=0.01)
    assert found.row_cost == pytest.approx(0.0015, rel=0.03)


def test_batches_of_one_size_fall_back_to_the_busy_time():
    journal = MemoryJournal()
    for t in range(20):
        journal.observation(preference_like(500.0, 0.7)(float(t + 1)))
    found = calibrate(journal.tables())
    assert found.method == "busy time over rows"
    assert found.costs.row_cost == pytest.approx(0.0015)
    assert found.costs.overhead == pytest.approx(0.7 - 0.375)


def test_a_journal_without_batches_is_refused():
    with pytest.raises(PenstockError, match="longer run"):
        calibrate(MemoryJournal().tables())


def test_a_journal_of_a_flow_is_understood():
    journal = MemoryJournal()
    for t, rows in enumerate(np.linspace(100, 1000, 40)):
        stage = StageObservation("r1/0", Capacity.steady(2), tuples_in=4.0 * rows)
        seconds = 0.2 + 0.001 * rows / 2
        extra = {"batches": 4.0, "busy": 4 * seconds / 5.0}
        journal.observation(Observation(5.0 * (t + 1), 5.0, (stage,), extra=extra))
    found = calibrate(journal.tables()).costs
    assert found.overhead == pytest.approx(0.2, abs=0.01)
    assert found.row_cost == pytest.approx(0.001, rel=0.03)


def test_executors_with_several_cores_are_simulated_with_them():
    plant = SparkLike(
        load("walk:rate=700", 200.0, 3).arrivals, SparkCosts(row_cost=0.003, cores=4), 2, 8, seed=1
    )
    journal = MemoryJournal()
    run(Controller(plant, Threshold(limits=(2, 2)), journal=journal), plant, 5.0, 200.0)
    found = calibrate(journal.tables()).parameters()
    assert found["cores"] == 4
    assert found["row_cost"] == pytest.approx(0.003, rel=0.1)


def test_a_plan_that_was_taken_back_is_no_arrival():
    journal = MemoryJournal()
    for t in range(12):
        seen = preference_like(500.0, 0.7)(5.0 * (t + 1))
        executors = Capacity(4 if t in (4, 5) else 2, 2, 2)
        journal.observation(replace(seen, executors=executors, slots=2.0))
    assert calibrate(journal.tables()).arrivals == 0
