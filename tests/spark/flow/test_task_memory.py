"""What a task of a flow holds: it is free when the task has ended, and messages that are too large for a batch go in several."""

import gc

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.dataflow.graph import Graph
from penstock.dataflow.operators import operator
from penstock.spark.flow import task_output
from penstock.spark.flow.task_output import Message, batches_of, messages_of
from penstock.spark.flow.tasks import Worker
from penstock.testing.flow_run import start_in_process


@operator(keys="k", state={"n": int}, output={"k": int})
def count(rows, state, output):
    state["n"][:] += 1
    output.emit({"k": rows["k"]}, at=rows.positions)


def test_a_task_that_has_ended_is_gone_without_the_collector(tmp_path):
    graph = Graph("memory")
    graph.source("rows", {"k": int}).through(count, name="count").sink("out")
    run = start_in_process(graph, tmp_path)
    gc.collect()
    gc.disable()
    try:
        for number in range(3):
            run.feed({"rows": pa.table({"k": list(range(number, number + 50))})})
        held = [one for one in gc.get_objects() if isinstance(one, Worker)]
    finally:
        gc.enable()
    run.abandon()
    assert not held


def test_messages_are_cut_into_batches_that_a_column_holds(monkeypatch):
    monkeypatch.setattr(task_output, "TOGETHER", 10)
    messages = [Message(0, 0, "in", 0, n, b"x" * size) for n, size in enumerate([4, 6, 1, 30, 2, 2])]
    batches = list(batches_of(messages))
    assert [batch.num_rows for batch in batches] == [2, 1, 1, 2]
    assert [(m.number, len(m.payload)) for m in messages_of(batches)] == list(enumerate([4, 6, 1, 30, 2, 2]))


@operator(keys="j", state={"n": int}, output={"j": int})
def total(rows, state, output):
    output.emit({"j": rows["j"]}, at=rows.positions)


@operator(keys="k", state={"n": int}, output={"j": int})
def passed(rows, state, output):
    output.emit({"j": rows["j"]}, at=rows.positions)


@pytest.mark.parametrize("overlap", [True, False])
def test_a_flow_whose_messages_are_cut_gives_out_all_rows(tmp_path, monkeypatch, overlap):
    monkeypatch.setattr(task_output, "TOGETHER", 1)
    graph = Graph("cut")
    rows = graph.source("rows", {"k": int, "j": int})
    rows.through(passed, name="passed").through(total, name="total").sink("out")
    run = start_in_process(graph, tmp_path)
    run.rescale(replicas={"passed": 3, "total": 3}, overlap={"total": overlap})
    for number in range(3):
        run.feed({"rows": pa.table({"k": list(range(number, number + 50)), "j": list(range(50))})})
    run.finish()
    out = [v for f in (tmp_path / "out" / "out").glob("*.parquet") for v in pq.read_table(f)["j"].to_pylist()]
    assert sorted(out) == sorted(3 * list(range(50)))
