"""Which regions share tasks: those whose tuples are there already."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.apps import finance
from penstock.core.errors import PenstockError
from penstock.dataflow.explain import explain
from penstock.dataflow.graph import Graph
from penstock.dataflow.layout import make_layout
from penstock.dataflow.operators import operator
from penstock.dataflow.plan import Plan
from penstock.dataflow.regions import find_regions
from penstock.dataflow.running_figures import running_count
from penstock.testing.flow_run import start_in_process

ROW = {"k": int, "n": int}


@operator(keys="k", state={"c": int}, output=ROW)
def count(rows, state, output):
    output.emit({"k": rows.column("k"), "n": running_count(rows.slots, state["c"])})


@operator(keys="k", inputs=["left", "right"], state={"c": int}, output=ROW)
def both(inputs, state, output):
    for rows in inputs.values():
        seen = running_count(rows.slots, state["c"])
        output.emit({"k": rows.column("k"), "n": seen}, at=rows.positions)


@operator()
def secretly(rows, output):
    output.emit({"k": rows["k"] + 1, "n": rows.column("n")})


@operator(changes=["k"])
def openly(rows, output):
    output.emit({"k": rows["k"] + 1, "n": rows.column("n")})


def diamond(*between):
    graph = Graph("diamond")
    rows = graph.source("rows", ROW)
    counted = rows.through(count)
    for one in between:
        counted = counted.through(one)
    counted.through(both, rows).sink("out")
    return graph


def layout_of(graph, **replicas):
    regions = find_regions(graph)
    return make_layout(graph, regions, Plan.first(regions, 8, replicas))


def test_a_join_by_the_same_key_runs_in_the_tasks_that_feed_it():
    trades = Graph("finance")
    sources = [trades.source(n, s, time="ts") for n, s in (("t", finance.TRADE), ("q", finance.QUOTE))]
    finance.build(*sources).sink("bargains")
    layout = layout_of(trades, add_up=2, find_bargains=2)
    assert layout.levels(0) == 1
    assert layout.workers(0, 1) == 2
    host, colocated = layout.of("add_up"), layout.of("find_bargains")
    assert layout.colocated(host) == [colocated]
    assert [layout.worker(colocated, r) for r in (0, 1)] == [layout.worker(host, r) for r in (0, 1)]
    assert "stage 1: add_up/0 + find_bargains/0 x1" in explain(trades)


def test_other_replicas_or_a_changed_key_give_it_tasks_of_its_own():
    assert layout_of(diamond(), count=2, both=2).levels(0) == 1
    assert layout_of(diamond(), count=2, both=3).levels(0) == 2
    assert layout_of(diamond(openly), count=2, both=2).levels(0) == 2


@pytest.mark.parametrize("between", [(), (openly,)])
def test_rows_are_the_same_wherever_the_join_runs(tmp_path, between):
    found = []
    for number, replicas in enumerate(({"count": 3, "both": 3}, {"count": 3, "both": 2})):
        folder = tmp_path / str(number)
        run = start_in_process(diamond(*between), folder, groups=8)
        run.rescale(replicas=replicas)
        for _ in range(3):
            run.feed({"rows": pa.table({"k": np.arange(40) % 10, "n": np.zeros(40, dtype=np.int64)})})
        run.finish()
        rows = [
            r for f in sorted((folder / "out/out").glob("*.parquet")) for r in pq.read_table(f).to_pylist()
        ]
        by_key = {}
        for row in rows:
            by_key.setdefault(row["k"], []).append(row["n"])
        found.append(by_key)
    assert found[0] == found[1]
    assert sum(map(len, found[0].values())) == 240


@pytest.mark.parametrize("replicas", [1, 3])
def test_a_key_that_changes_without_a_word_is_named(tmp_path, replicas):
    run = start_in_process(diamond(secretly), tmp_path, groups=8)
    run.rescale(replicas={"count": replicas, "both": replicas})
    with pytest.raises(PenstockError, match=r"'secretly' changes the key \(k\).*say so with changes"):
        run.feed({"rows": pa.table({"k": np.arange(40), "n": np.zeros(40, dtype=np.int64)})})
    run.abandon()
