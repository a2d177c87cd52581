"""The four properties of a migration that MPC 4.2 asks for, each shown on a flow that moves key groups."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.dataflow.graph import Graph
from penstock.dataflow.keys import group_of, hash_keys
from penstock.dataflow.operators import operator
from penstock.dataflow.running_figures import running_count
from penstock.spark.flow import state_store
from penstock.spark.runtime.task import without_spark
from penstock.testing.flow_run import start_in_process
from penstock.testing.frames import InProcessFrame

GROUPS = 12


@operator(keys="k", state={"n": int}, output={"k": int, "n": int})
def count(rows, state, output):
    output.emit({"k": rows.column("k"), "n": running_count(rows.slots, state["n"])})


@pytest.fixture
def run(tmp_path):
    graph = Graph("moving")
    graph.source("rows", {"k": int}).through(count).sink("out")
    started = start_in_process(graph, tmp_path, groups=GROUPS)
    started.profiles = []
    started.listen(started.profiles.append)
    started.rescale(replicas={"count": 3})
    yield started
    started.finish()


def batch():
    return {"rows": pa.table({"k": np.arange(120).repeat(2)})}


def group(key):
    return int(group_of(hash_keys(pa.table({"k": [key]}), ["k"]), GROUPS)[0])


def moved_one(run, replica=1):
    """Move one group from replica 0 to another; its number."""
    table = list(run.plan.regions["count"].routing)
    chosen = table.index(0)
    table[chosen] = replica
    run.rescale(routing={"count": tuple(table)})
    return chosen


def rows(tmp_path):
    files = sorted((tmp_path / "out" / "out").glob("*.parquet"))
    return [[(r["k"], r["n"]) for r in pq.read_table(f).to_pylist()] for f in files]


def test_graceful_nothing_is_lost_repeated_or_out_of_order(run, tmp_path):
    for _ in range(3):
        run.feed(batch())
        moved_one(run)
    seen = {}
    for key, n in (r for file in rows(tmp_path) for r in file):
        seen.setdefault(key, []).append(n)
    assert seen == {key: [1, 2, 3, 4, 5, 6] for key in range(120)}


def test_fluid_rows_are_routed_to_the_new_owner_in_the_very_batch_without_a_further_job(run, monkeypatch):
    jobs = []
    to_arrow = InProcessFrame.toArrow
    monkeypatch.setattr(InProcessFrame, "toArrow", lambda self: jobs.append(1) or to_arrow(self))
    run.feed(batch())
    run.feed(batch())
    before = len(jobs)
    chosen = moved_one(run)
    run.feed(batch())
    assert len(jobs) - before == 1
    profile = run.profiles[-1]
    assert profile.change.moved == {"count": (chosen,)}
    assert profile.extra["drained"] == 0
    assert profile.change.delayed == sum(2 for key in range(120) if group(key) == chosen)


def test_not_intrusive_only_the_replicas_that_exchange_a_group_read_other_files(run, monkeypatch):
    run.feed(batch())
    read = state_store.read_segment
    opened = {}

    def record(folder, name, segment):
        opened.setdefault(without_spark.partition, set()).add(name.split("-")[-2])  # the writer's first group
        return read(folder, name, segment)

    monkeypatch.setattr(state_store, "read_segment", record)
    run.feed(batch())
    usual = dict(opened)
    assert all(len(files) == 1 for files in usual.values())
    opened.clear()
    moved_one(run, replica=1)
    run.feed(batch())
    assert opened[2] == usual[2]
    assert opened[1] == usual[1] | usual[0]


def test_fluent_keys_that_do_not_move_go_on_in_the_same_batch(run, tmp_path):
    run.feed(batch())
    chosen = moved_one(run)
    before = len(rows(tmp_path))
    run.feed(batch())
    now = [r for file in rows(tmp_path)[before:] for r in file]
    assert {k for k, n in now if n == 4} == set(range(120))
    assert any(group(k) == chosen for k, _ in now)
