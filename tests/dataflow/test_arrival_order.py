"""What is promised about order: tuples of a key come as they arrived, also those of two ports of one operator."""

import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given
from hypothesis import strategies as st

from penstock.dataflow.graph import Graph
from penstock.dataflow.operators import operator
from penstock.dataflow.reference import Reference
from penstock.testing.flow_run import start_in_process

ROW = {"k": int, "t": float, "name": str}


@operator(keys="k", inputs=["left", "right"], grain="key", output={"k": int, "seen": str})
def listen(inputs, state, output):
    for row in (*inputs["left"], *inputs["right"]):
        state["seen"] = state.get("seen", "") + row["name"]
        output.emit({"k": row["k"], "seen": state["seen"]})


@operator(inputs=["left", "right"], grain="key", output={"k": int, "seen": str})
def pass_on(inputs, output):
    for row in (*inputs["left"], *inputs["right"]):
        output.emit({"k": row["k"], "seen": row["name"]})


def flow(op):
    graph = Graph("order")
    left = graph.source("left", ROW, time="t")
    right = graph.source("right", ROW, time="t")
    left.through(op, right, name="op").sink("out")
    return graph


def tables(events):
    """Events by source; an event is (key, whether it is on the left), and its time is its number."""
    found = {}
    for source, left in (("left", True), ("right", False)):
        mine = [(k, float(t), chr(97 + t)) for t, (k, side) in enumerate(events) if side == left]
        found[source] = pa.table({name: pa.array([m[i] for m in mine], kind) for i, (name, kind) in enumerate([("k", pa.int64()), ("t", pa.float64()), ("name", pa.string())])})  # fmt: skip
    return found


events_of_two_sources = st.lists(st.tuples(st.integers(0, 2), st.booleans()), max_size=20)


@given(events_of_two_sources, st.integers(1, 3))
def test_a_keyed_operator_of_two_ports_sees_them_in_the_order_of_their_times(events, replicas):
    expected = {
        k: "".join(chr(97 + t) for t, (key, _) in enumerate(events) if key == k)
        for k in {k for k, _ in events}
    }
    out = Reference(flow(listen)).run(tables(events)).get("out", pa.table({"k": [], "seen": []})).to_pylist()
    assert {r["k"]: r["seen"] for r in out} == expected
    with tempfile.TemporaryDirectory() as folder:
        run = start_in_process(flow(listen), folder, groups=8)
        run.rescale(replicas={"op": replicas})
        run.feed(tables(events))
        run.finish()
        found = [
            r
            for f in sorted(Path(folder, "out", "out").glob("*.parquet"))
            for r in pq.read_table(f).to_pylist()
        ]
    longest = {}
    for row in found:
        longest[row["k"]] = max(longest.get(row["k"], ""), row["seen"], key=len)
    assert longest == expected


@given(events_of_two_sources)
def test_a_stateless_operator_of_two_ports_hands_on_in_the_order_of_their_times(events):
    out = Reference(flow(pass_on)).run(tables(events)).get("out", pa.table({"k": [], "seen": []})).to_pylist()
    assert [r["seen"] for r in out] == [chr(97 + t) for t in range(len(events))]


def test_without_times_the_sources_of_a_batch_come_one_after_the_other():
    graph = Graph("order")
    left, right = graph.source("left", ROW), graph.source("right", ROW)
    left.through(listen, right, name="op").sink("out")
    out = Reference(graph).run(tables([(0, False), (0, True), (0, False), (0, True)]))["out"].to_pylist()
    assert out[-1]["seen"] == "bdac"


def test_a_table_operator_can_merge_its_ports_by_position():
    @operator(keys="k", inputs=["left", "right"], state={"n": int}, output={"name": str})
    def merged(inputs, state, output):
        names = np.concatenate([rows["name"] for rows in inputs.values()])
        positions = np.concatenate([rows.positions for rows in inputs.values()])
        output.emit({"name": names}, at=positions)

    out = (
        Reference(flow(merged)).run(tables([(0, False), (1, True), (0, True), (0, False)]))["out"].to_pylist()
    )
    assert [r["name"] for r in out] == ["a", "b", "c", "d"]
