"""Room for workers: slots that are what they are, and executors that come and go with the workers of a run."""

from collections import namedtuple
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from cluster_manager import Manager
from penstock.core.capacity import Knob
from penstock.core.decision import Change, Decision
from penstock.core.guards import Bound, Guards
from penstock.dataflow.graph import Graph
from penstock.dataflow.operators import operator
from penstock.dataflow.running_figures import running_count
from penstock.spark.actuators.executors import Executors
from penstock.spark.flow.flow_plant import FlowPlant
from penstock.spark.query.query_plant import QueryPlant
from penstock.spark.runtime.engine_choice import RESIDENT, EngineChoice, room_for_workers, taken_slots
from penstock.spark.runtime.worker_room import ClusterRoom, Room, most_workers, room_for_run
from penstock.testing.flow_run import start_in_process

DRIVER = """
    import sys, time
    import penstock as ps, penstock.spark
    from penstock.core.capacity import Knob
    from penstock.core.decision import Change, Decision
    from penstock.spark.actuators.executor_probe import reach
    from penstock.spark.actuators.executors import Executors
    from penstock.spark.cluster import LocalCluster

    class UpAndDown:
        name, wanted = "UpAndDown", 3
        def start(self):
            return None
        def step(self, state, seen):
            panes = seen.stage("panes").workers
            told = [panes.planned, panes.requested, panes.observed, seen.extra["executors_observed"]]
            print("saw", *map(int, told), flush=True)
            return state, Decision((Change(Knob.WORKERS, "panes", self.wanted),), "the test says so")

    spark = penstock.spark.session(sys.argv[1], config=LocalCluster().session_config(executor_memory="512m"))
    actuator = Executors(spark, warm=())
    reach(actuator, 2, 300.0)
    while actuator.leaving:
        time.sleep(0.1)
        actuator.advance(time.monotonic())
    rows = spark.readStream.format("rate").option("rowsPerSecond", 50).load()
    query = ps.PreferenceQuery(
        ps.skyline_of(ps.minimize("value")), time="timestamp", window="1 second", slide="1 second",
        pane_workers=1, window_workers=1,
    )
    policy = UpAndDown()
    run = query.start(
        rows, output=sys.argv[2] + "/out", checkpoint=sys.argv[2] + "/ck", trigger="500 milliseconds", policy=policy, period=0.5
    )
    print("engine", run.engine, flush=True)
    until = time.monotonic() + 500
    while time.monotonic() < until and run.is_active:
        there = run.workers["observed"]
        actuator.refresh()
        if there == 3 and policy.wanted == 3:
            print("grown", flush=True)
            policy.wanted = 1
        if there == 1 and policy.wanted == 1 and len(actuator.seen) == 2:
            print("back", flush=True)
            break
        time.sleep(0.1)
    windows = run.progress["totals"]["windows"]
    run.stop()
    print("windows", windows > 0, flush=True)
    spark.stop()
"""


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


Made = namedtuple("Made", "manager clock room told")


@pytest.fixture
def made():
    """Two executors of one core with resident workers on them: one worker, one slot left free."""
    manager, clock, told = Manager(2), Clock(), []
    executors = Executors(manager.session, patience=60.0, grace=float("inf"), warm=())
    room = ClusterRoom(executors, told.append, keep=10.0, clock=clock)
    room.engine(EngineChoice(RESIDENT, 1, ""))
    return Made(manager, clock, room, told)


def wait(made, seconds, workers):
    made.clock.now += seconds
    made.room.want(workers)


def test_executors_are_asked_for_where_workers_find_no_slot(made):
    assert (made.room.slots, made.room.holds, made.room.limit) == (2, 1, float("inf"))
    wait(made, 1, 3)
    assert made.manager.requests == [4]
    assert (made.room.holds, made.room.requested) == (1, 3)
    made.manager.arrive(2)
    wait(made, 1, 3)
    assert made.room.holds == 3
    assert made.room.figures == {"executors_planned": 4, "executors_requested": 4, "executors_observed": 4}


def test_those_that_are_idle_are_given_back_after_a_while_and_never_the_owners(made):
    wait(made, 1, 3)
    made.manager.arrive(2)
    wait(made, 1, 3)
    made.manager.busy = {"0", "1", "3"}
    wait(made, 5, 1)
    assert not made.manager.killed, "they are kept for a while"
    wait(made, 10, 1)
    assert made.manager.killed == ["2"], "3 has a task"
    made.manager.busy = {"0"}
    wait(made, 100, 1)
    assert made.manager.killed == ["2", "3"], "of those that are left, idle or not, two were there before"
    wait(made, 100, 1)
    assert len(made.manager.ids) == 2


def test_what_is_on_its_way_is_taken_back_at_once(made):
    wait(made, 1, 5)
    wait(made, 1, 1)
    assert made.manager.requests == [6, 2]


def test_a_cluster_that_has_none_left_limits_the_workers_and_says_so(made):
    wait(made, 1, 9)
    made.manager.arrive(1)
    wait(made, 1, 9)
    wait(made, 61, 9)
    assert made.room.limit == made.room.holds == 2
    assert made.room.limited_by == (
        "the 3 executor(s) that the cluster has to give (gave up 7 executor(s) that did not arrive within 60 s)"
    )
    assert len(made.told) == 1
    requests = len(made.manager.requests)
    wait(made, 1, 9)
    assert len(made.manager.requests) == requests, "nobody asks again at once"


class Program:
    """A query's program as far as a plant changes it."""

    target, shedding, overlap = None, 0.0, False

    @property
    def workers(self):
        return self.target or (1, 1)

    def workers_for(self, stages):
        return sum(stages) if self.overlap else max(stages)


def test_a_query_takes_workers_up_as_the_slots_come_and_waits_no_longer_than_for_what_there_is(made):
    program = Program()
    plant = QueryPlant(program, made.room)
    plant.apply(Decision((Change(Knob.WORKERS, "panes", 4),)))
    capacity = plant._workers(0, 1)
    assert program.workers == (1, 1)
    assert (capacity.planned, capacity.requested, capacity.observed) == (4, 4, 1)
    made.manager.arrive(2)
    made.clock.now += 1
    plant.maintain()
    assert program.workers == (3, 1)
    assert plant._workers(0, 3).planned == 4
    made.clock.now += 100  # the fifth never comes
    plant.maintain()
    made.clock.now += 100
    plant.maintain()
    assert plant._workers(0, 3).planned == 3
    assert plant._workers(0, 3).limit == 3
    program.target = (2, 2)  # by hand
    plant.maintain()
    assert program.workers == (2, 2)


def test_stages_that_overlap_share_the_room(made):
    program = Program()
    program.overlap = True
    plant = QueryPlant(program, made.room)
    made.manager.arrive(3)
    wait(made, 1, 1)
    plant.apply(Decision((Change(Knob.WORKERS, "panes", 8), Change(Knob.WORKERS, "windows", 1))))
    assert program.workers == (3, 1)


@operator(keys="k", state={"n": int}, output={"k": int})
def count(rows, state, output):
    running_count(rows.slots, state["n"])
    output.emit(rows.table)


def test_a_flow_takes_replicas_up_as_the_slots_come_and_a_routing_with_all_of_them(made, tmp_path):
    graph = Graph("growing")
    graph.source("rows", {"k": int}).through(count).sink("out")
    run = start_in_process(graph, tmp_path)
    profiles = []
    run.listen(profiles.append)
    run.feed({"rows": pa.table({"k": np.arange(100)})})
    plant = FlowPlant(run._program, made.room)
    wanted = lambda: run._program.wanted.regions["count"]  # noqa: E731
    plant.apply(Decision((Change(Knob.WORKERS, "count", 4),)))
    plant.put(replace(profiles[0], started=1000.0, seconds=0.1))
    replicas = plant.observe().region("count").replicas
    assert (replicas.planned, replicas.requested, replicas.observed) == (4, 4, 1)
    assert wanted().replicas == 1
    made.manager.arrive(2)
    made.clock.now += 1
    plant.maintain()
    assert wanted().replicas == 3
    routed = tuple(i % 4 for i in range(16))
    plant.apply(Decision((Change(Knob.WORKERS, "count", 4), Change(Knob.ROUTING, "count", routed))))
    assert wanted().replicas == 3
    made.manager.arrive(1)
    made.clock.now += 1
    plant.maintain()
    assert (wanted().replicas, wanted().routing) == (4, routed)
    run.finish()


def test_where_executors_cannot_be_added_the_slots_are_the_limit_and_the_reason_says_why():
    local = Manager(1, master="local[4]").session
    room = room_for_run(local, True, print)
    room.refresh()
    assert (room.limit, room.holds) == (1.0, float("inf"))
    assert room.limited_by.endswith("executors cannot be added in local mode (master local[4])")
    own = {"spark.dynamicAllocation.enabled": "true"}
    assert "dynamic allocation is on" in room_for_run(Manager(2, **own).session, True, print).limited_by
    assert isinstance(room_for_run(Manager(2).session, True, print), ClusterRoom)
    assert not isinstance(room_for_run(Manager(2).session, False, print), ClusterRoom)


def test_resident_workers_leave_slots_to_others_and_the_reason_says_so():
    room = Room(lambda: 4.0, "there are no others")
    room.engine(EngineChoice("resident", 3, "asked for"))
    assert room.limit == 3.0
    assert (
        room.limited_by
        == "the 4 slots of the application, 1 of them left to other tasks; there are no others"
    )
    room.engine(EngineChoice("jobs", 0, "asked for"))
    assert Room(lambda: 4.0).limit >= room.limit


def test_the_room_is_what_others_leave_now():
    manager = Manager(4)
    manager.busy = {"0", "1", "2"}
    assert taken_slots(manager.session, own=1) == 3
    assert room_for_workers(manager.session) == 0
    room = Room(lambda: 4.0)
    room.engine(EngineChoice("resident", 3, "asked for"))
    room.leave(taken_slots(manager.session, own=1))
    assert room.limit == 1.0


def test_a_policy_by_name_may_want_what_guards_or_the_cluster_allow():
    session = Manager(2, **{"spark.cores.max": "12"}).session
    assert most_workers(session, None) == 12
    assert most_workers(session, Guards(bounds=(Bound(Knob.WORKERS, 1, 5),))) == 5
    assert most_workers(Manager(2).session, Guards()) == 64


@pytest.mark.cluster
def test_a_query_on_a_cluster_gets_executors_for_its_workers_and_gives_them_back(drive, tmp_path):
    child = drive(DRIVER, tmp_path)
    out, err = child.communicate(timeout=600)
    assert child.returncode == 0, err[-2000:]
    lines = out.splitlines()
    assert lines[0] == "engine resident"
    assert "grown" in lines
    assert "back" in lines, (lines, err[-2000:])
    assert lines[-1] == "windows True"
    seen = [tuple(map(int, line.split()[1:])) for line in lines if line.startswith("saw")]
    assert seen[0] == (1, 1, 1, 2), "one worker, beside the slot that others need"
    assert any(s[2] == 3 and s[3] == 4 for s in seen), "working on executors that came"
