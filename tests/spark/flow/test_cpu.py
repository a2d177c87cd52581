"""CPU shares of pipelines on the real kernel: the quota goes with the pipeline, not with the process."""

import os
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock
from penstock.core.capacity import Knob
from penstock.core.decision import Change, Decision
from penstock.core.guards import Guards
from penstock.core.journal import MemoryJournal
from penstock.dataflow.plan import Plan
from penstock.policies import Mead
from penstock.spark.actuators import cpu_share
from penstock.spark.actuators.cgroup import find_hierarchy
from penstock.spark.flow.cpu import FREE, FlowCpu
from penstock.spark.flow.definition import Definition
from penstock.spark.flow.flow_plant import FlowPlant
from penstock.spark.runtime.worker_room import Room
from penstock.spark.sources.demo_sources import played
from penstock.testing.flow_run import start_in_process
from waiting import until

ABILITY = cpu_share.probe()
# Control groups need rights that not every machine gives; here everything is about the real kernel, and penstock doctor tells how to allow it.
pytestmark = pytest.mark.skipif(
    not ABILITY.works, reason=f"no CPU quotas here: {ABILITY.found} {ABILITY.how}"
)

TOLD = {"key": "int64", "where": str, "pid": "int64"}


def spin(seconds):
    """Use up CPU time, however long that takes."""
    enough = time.process_time() + seconds
    while time.process_time() < enough:
        pass


def own_group():
    """The last part of the CPU group of this process."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "" or "cpu" in controllers.split(","):
            return path.rsplit("/", 1)[-1]
    return ""


def told(rows):
    return {
        "key": rows.column("key"),
        "where": [own_group()] * len(rows),
        "pid": np.full(len(rows), os.getpid()),
    }


@penstock.operator(keys="key", state={"n": "int64"}, output=TOLD)
def limited(rows, state, output):
    spin(0.15)
    output.emit(told(rows))


@penstock.operator(stateful=True, state={"n": "int64"}, output=TOLD)
def unlimited(rows, state, output):
    spin(0.15)
    output.emit(told(rows))


def two_branches(stream=None):
    flow = penstock.Flow("shares")
    rows = flow.source("rows", {"key": "int64"} if stream is None else stream)
    rows.through(limited).sink("limited")
    rows.through(unlimited).sink("unlimited")
    return flow


def left_behind():
    return [p for p in find_hierarchy().base.glob(f"run-{os.getpid()}-*") if p.is_dir()]


@pytest.mark.spark
def test_a_quota_holds_wherever_the_task_lands_and_others_are_not_held_back(spark, tmp_path):
    tables = [pa.table({"key": np.arange(64)})] * 3
    flow = two_branches(played(spark, tables, tmp_path / "in"))
    run = flow.start(
        spark,
        checkpoint=tmp_path / "ck",
        output=tmp_path / "out",
        available_now=True,
        replicas={"limited": 2},
        cpu={"limited": 0.2},
        engine="resident",  # whose processes stay, so that it is known that some run both
    )
    assert run.engine == "resident"
    profiles, held_back = [], []

    def watch(profile):
        profiles.append(profile)
        held_back.append(run._program.cpu.throttled())

    run.listen(watch)
    run.await_termination()
    seen = {}
    for sink in ("limited", "unlimited"):
        files = sorted((tmp_path / "out" / sink).glob("*.parquet"))
        seen[sink] = pa.concat_tables([pq.read_table(f) for f in files])
    groups = {sink: set(table["where"].to_pylist()) for sink, table in seen.items()}
    assert len(groups["limited"]) == len(groups["unlimited"]) == 1
    assert groups["limited"] != groups["unlimited"]
    # Workers have run both, so the quota went with the pipeline.
    pids = {sink: set(table["pid"].to_pylist()) for sink, table in seen.items()}
    assert pids["limited"] & pids["unlimited"]
    work = profiles[-1].pipelines["limited/0"]
    assert sum(work.cpu) >= 0.3
    # Two replicas together may use 0.4 cores; a period of the kernel may be used up at each end.
    assert max(work.seconds) >= 0.3 / 0.4 - 0.15
    assert held_back[-1]["limited/0"] > 0  # how long depends on what else the machine does
    assert held_back[-1][FREE] == 0
    assert left_behind() == []


def test_shares_follow_replicas_and_changes_and_groups_go_with_the_run():
    definition = Definition(two_branches())
    plan = definition.regions
    cpu = FlowCpu(plan, {"limited": 0.4})
    other = FlowCpu(plan, {"unlimited": 0.5})
    two = Plan.first(plan, 16, {"limited": 2})
    groups = cpu.groups(definition.wiring(two).layout)
    assert set(groups) == {FREE, "limited/0"}
    assert cpu._cpu.shares == pytest.approx({Path(groups["limited/0"]).name: 0.8})
    cpu.set({"limited": 0.3})
    assert list(cpu._cpu.shares.values()) == pytest.approx([0.6])
    theirs = other.groups(definition.wiring(two).layout)
    cpu.close()
    assert not Path(groups["limited/0"]).exists()
    assert Path(theirs["unlimited/0"]).exists()
    other.close()
    assert left_behind() == []


def test_wrong_shares_are_refused_in_a_sentence_and_leave_nothing():
    regions = Definition(two_branches()).regions
    with pytest.raises(penstock.PenstockError, match="'limited' must be above 0, not 0"):
        FlowCpu(regions, {"limited": 0})
    with pytest.raises(penstock.PenstockError, match="'nobody'"):
        FlowCpu(regions, {"nobody": 0.5})
    assert left_behind() == []


def test_a_policy_may_turn_the_share_where_the_flow_has_groups(tmp_path):
    run = start_in_process(two_branches(), tmp_path)
    plant = FlowPlant(run._program, Room(lambda: 2))
    run.listen(plant.put)
    rows = {"rows": pa.table({"key": np.arange(8)})}
    change = Change(Knob.CPU_SHARE, "limited/0", 0.55)
    assert "no control groups" in plant.apply(Decision((change,))).refused[0][1]
    run._program.cpu = FlowCpu(run.regions, {})
    run.feed(rows)
    assert plant.observe().stage("limited/0").cpu_share.observed == 1.0
    assert plant.apply(Decision((change,))).changes == (change,)
    run.feed(rows)
    assert plant.observe().stage("limited/0").cpu_share.observed == 0.55
    run.finish()
    assert left_behind() == []


@pytest.mark.spark
def test_mead_gives_pipelines_the_least_share_that_meets_the_target(spark, tmp_path):
    flow = two_branches(played(spark, [pa.table({"key": np.arange(64)})] * 30, tmp_path / "in"))
    journal = MemoryJournal()
    # Rows of both branches are there when their batch is, so the tighter target is that of the batch.
    policy = Mead(model="mg1", target=60.0, targets={"limited": 8.0}, interval=0.0, least=64, windows=1)
    run = flow.start(
        spark, checkpoint=tmp_path / "ck", output=tmp_path / "out", trigger="1 second",
        policy=policy, guards=Guards(), period=0.0, cpu={}, journal=journal,
    )  # fmt: skip
    until(
        lambda: all(run._program.cpu.share(n) == 0.4 for n in ("limited", "unlimited")),
        "the least share for both",
        unless=lambda: not run.is_active,
    )
    seen = run.controller.plant.observe()
    quotas = run._program.cpu._cpu.shares
    run.stop()
    assert run._program.cpu.share("limited") == run._program.cpu.share("unlimited") == 0.4
    assert sorted(quotas.values())[:2] == [0.4, 0.4]
    assert any("by the mg1 model against 8 s" in reason for reason in journal.texts("decision"))
    assert left_behind() == []
    assert seen.stage("limited/0").trigger == 1.0


def test_pipelines_of_one_level_work_side_by_side_and_see_their_part_of_the_tuples(tmp_path):
    run = start_in_process(two_branches(), tmp_path)
    plant = FlowPlant(run._program, Room(lambda: 2), trigger=1.0)
    run.listen(plant.put)
    for _ in range(2):
        run.feed({"rows": pa.table({"key": np.arange(64)})})
    seen = plant.observe()
    stages = [seen.stage("limited/0"), seen.stage("unlimited/0")]
    assert [s.level for s in stages] == [0, 0]
    assert [s.visits for s in stages] == [1.0, 1.0]
    assert len(stages[0].interarrivals) == 64
    assert seen.latency.mean >= 0.15
    run.finish()


def test_each_branch_of_a_flow_may_have_a_target_of_its_own(tmp_path):
    run = start_in_process(two_branches(), tmp_path)
    run._program.cpu = FlowCpu(run.regions, {})
    plant = FlowPlant(run._program, Room(lambda: 2), trigger=1.0)
    run.listen(plant.put)
    for _ in range(2):
        run.feed({"rows": pa.table({"key": np.arange(64)})})
    seen = plant.observe()
    run.finish()
    loose = Mead(model="mg1", target=60.0, least=64, windows=1)
    for sink in ("limited", "unlimited", "unlimited/0"):
        policy = replace(loose, targets={sink: 8.0})
        assert "by the mg1 model against 8 s" in policy.step(policy.start(), seen)[1].reason
    with pytest.raises(
        penstock.PenstockError, match="Unknown stage or region 'rows'; choose one of limited, "
    ):
        replace(loose, targets={"rows": 8.0}).step(loose.start(), seen)


def test_the_cost_of_cold_batches_is_forgotten(tmp_path):
    run = start_in_process(two_branches(), tmp_path)
    plant = FlowPlant(run._program, Room(lambda: 2), trigger=1.0)
    profiles = []
    run.listen(profiles.append)
    run.feed({"rows": pa.table({"key": np.arange(8)})})
    warm = profiles[0]
    cold = 9.0 + warm.seconds
    for seconds in (cold, cold, warm.seconds, warm.seconds):
        plant.put(replace(warm, seconds=seconds))
    stage = plant.observe().stage("limited/0")
    assert stage.overhead_time <= warm.seconds
    run.finish()
