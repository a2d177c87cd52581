"""Requests, patience and release of executors, on a cluster manager that does what the test says."""

import pytest

from cluster_manager import Manager
from penstock.core.errors import PenstockError
from penstock.spark.actuators.executors import Executors


def scaled(manager, **options):
    return Executors(manager.session, warm=(), **options)


def test_planned_requested_and_observed_are_told_apart():
    manager = Manager(1)
    executors = scaled(manager)
    executors.set_target(3, now=0.0)
    assert (executors.planned, executors.requested, executors.observed) == (3, 3, 1)
    manager.arrive()
    executors.advance(1.0)
    assert executors.observed == 2


def test_requests_do_not_pile_up_while_one_is_pending():
    manager = Manager(1)
    executors = scaled(manager)
    executors.set_target(2, 0.0)
    assert "waits for 1" in executors.set_target(4, 1.0)
    assert manager.requests == [2]
    manager.arrive()
    executors.advance(2.0)
    assert manager.requests == [2, 4]


def test_a_pending_request_can_be_taken_back_at_once():
    manager = Manager(2)
    executors = scaled(manager)
    executors.set_target(4, 0.0)
    executors.set_target(2, 1.0)
    assert manager.requests == [4, 2]
    assert not manager.killed


def test_executors_that_never_arrive_are_given_up_and_not_asked_for_again_for_a_while():
    manager = Manager(1)
    executors = scaled(manager, patience=10.0, retry_after=100.0)
    executors.set_target(3, 0.0)
    assert executors.advance(5.0) == ""
    assert "gave up 2" in executors.advance(16.0)
    assert (executors.planned, executors.limit) == (1, 1.0)
    executors.advance(200.0)
    assert executors.limit == float("inf")


def test_an_executor_that_is_lost_and_replaced_is_no_reason_to_give_up():
    manager = Manager(1)
    executors = scaled(manager, patience=10.0)
    executors.set_target(2, 0.0)
    manager.arrive()
    executors.advance(1.0)
    manager.ids.pop()
    assert executors.advance(1000.0) == ""
    manager.arrive()
    assert executors.advance(1005.0) == ""
    assert executors.planned == 2


def test_idle_and_young_executors_go_first_and_busy_ones_may_finish():
    manager = Manager(3)
    manager.busy = {"1", "2"}
    executors = scaled(manager, grace=20.0)
    executors.set_target(1, 0.0)
    assert manager.killed == ["0"]
    assert executors.observed == 1
    executors.advance(10.0)
    assert manager.killed == ["0"], "the busy one keeps its tasks"
    executors.advance(25.0)
    assert manager.killed == ["0", "2"], "but not for ever"
    executors.advance(26.0)
    assert executors.leaving == 0


def test_with_decommissioning_blocks_are_handed_over_first():
    manager = Manager(2, **{"spark.decommission.enabled": "true"})
    executors = scaled(manager, handover=4.0)
    executors.set_target(1, 0.0)
    assert manager.decommissioned == ["1"]
    assert not manager.killed
    assert executors.observed == 1
    executors.advance(5.0)
    assert manager.killed == ["1"]


def test_an_application_that_still_collects_executors_is_not_shrunk_before_anyone_asked():
    manager = Manager(0)
    executors = scaled(manager)
    manager.arrive(4)
    assert executors.advance(1.0) == ""
    assert (executors.planned, executors.observed) == (4, 4)
    assert not manager.killed


@pytest.mark.parametrize(
    ("manager", "words"),
    [
        (Manager(1, master="local[2]"), "local mode"),
        (Manager(1, **{"spark.dynamicAllocation.enabled": "true"}), "dynamic allocation is on"),
    ],
)
def test_masters_that_cannot_scale_are_refused_in_one_sentence(manager, words):
    with pytest.raises(PenstockError, match=words):
        scaled(manager)


def test_no_executor_at_all_is_refused():
    with pytest.raises(PenstockError, match="at least 1"):
        scaled(Manager(1)).set_target(0, 0.0)
