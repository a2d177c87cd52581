"""What a task of a flow held is free when the task has ended, not when the collector of cycles next comes round."""

import gc

import pyarrow as pa

from penstock.dataflow.graph import Graph
from penstock.dataflow.operators import operator
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
