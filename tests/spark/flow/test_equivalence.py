"""Sequential equivalence: any plan, any sequence of plans and any crash give what one process gives, key by key.

Tasks run in this process (see ``penstock.testing.flow_run``), so hypothesis can try many flows; the suites beside this one do the
same with Spark itself.
"""

import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dying import Killed, dying_at
from penstock.dataflow.firing import need_all
from penstock.dataflow.graph import Graph
from penstock.dataflow.operators import operator
from penstock.dataflow.reference import Reference
from penstock.dataflow.regions import find_regions
from penstock.dataflow.running_figures import running_count, running_sum
from penstock.testing.flow_run import start_in_process

ROW = {"k": int, "j": int, "v": int}


@operator()
def double(rows, output):
    at = np.repeat(np.arange(len(rows)), 2)
    table = rows.table.take(pa.array(at))
    output.emit(table, at=rows.positions[at])


@operator()
def odd(rows, output):
    at = np.flatnonzero(rows["v"] % 2 == 1)
    output.emit(rows.table.take(pa.array(at)), at=rows.positions[at])


@operator(changes=["k"])
def swap(rows, output):
    output.emit({"k": rows.column("j"), "j": rows.column("k"), "v": rows.column("v")})


@operator(keys="k", state={"s": int}, output=ROW)
def summed(rows, state, output):
    sums = running_sum(rows.slots, rows["v"], state["s"])
    output.emit({"k": rows.column("k"), "j": rows.column("j"), "v": sums % 1009})


@operator(keys=["k", "j"], grain="key", output=ROW)
def latest(rows, state, output):
    for row in rows:
        output.emit({**row, "v": row["v"] + state.get("before", 0) % 101})
        state["before"] = row["v"]


@operator(keys="k", grain="key", need=need_all(**{"in": 3}), output=ROW)
def threes(rows, state, output):
    assert len(rows) == 3
    state["calls"] = state.get("calls", 0) + 1
    output.emit({**rows[0], "v": sum(r["v"] for r in rows) + state["calls"]})


@operator(stateful=True, state={"n": int}, output=ROW)
def numbered(rows, state, output):
    count = running_count(rows.slots, state["n"])
    output.emit({"k": rows.column("k"), "j": rows.column("j"), "v": (rows["v"] + count) % 1009})


@operator(keys="k", inputs=["left", "right"], need=need_all(left=1, right=1), grain="key", output=ROW)
def paired(inputs, state, output):
    (a,), (b,) = inputs["left"], inputs["right"]
    state["n"] = state.get("n", 0) + 1
    output.emit({"k": a["k"], "j": b["j"], "v": (a["v"] * 3 + b["v"] + state["n"]) % 1009})


@operator(keys="k", inputs=["left", "right"], state={"s": int}, output=ROW)
def merged(inputs, state, output):
    for rows in inputs.values():
        sums = running_sum(rows.slots, rows["v"], state["s"])
        output.emit({"k": rows.column("k"), "j": rows.column("j"), "v": sums % 1009}, at=rows)


SINGLE = [double, odd, swap, summed, latest, threes, numbered]
JOINS = [paired, merged]


@st.composite
def flows(draw):
    """One or two sources, up to five operators anywhere, joins among them; every loose end is a sink."""
    graph = Graph("random")
    streams = [graph.source(f"in{i}", ROW) for i in range(draw(st.integers(1, 2)))]
    for _ in range(draw(st.integers(1, 5))):
        if len(streams) > 1 and draw(st.booleans()):
            a, b = draw(st.permutations(range(len(streams))))[:2]
            streams.append(streams[a].through(draw(st.sampled_from(JOINS)), streams[b]))
        else:
            streams.append(draw(st.sampled_from(streams)).through(draw(st.sampled_from(SINGLE))))
    fed = {f for n in graph.nodes for f in graph.feeders(n)}
    for name in list(graph.nodes):
        if name not in fed or draw(st.integers(0, 3)) == 0:
            graph.sink(f"sink-{name}", graph.node(name).stream())
    return graph


@st.composite
def changes(draw, graph):
    """Something to reconfigure, for any region."""
    regions = find_regions(graph)
    region = draw(st.sampled_from(list(regions)))
    what = draw(st.sampled_from(["replicas", "pipelines", "overlap", "routing"]))
    if what == "replicas":
        return {what: {region.name: draw(st.integers(1, 4)) if region.replicable else 1}}
    if what == "overlap":
        return {what: {region.name: draw(st.booleans())}}
    if what == "pipelines":
        cuts = draw(st.sets(st.integers(1, max(1, len(region.operators) - 1))))
        return {what: {region.name: (0, *sorted(c for c in cuts if c < len(region.operators)))}}
    return (
        {
            "replicas": {region.name: 2},
            what: {region.name: tuple(draw(st.lists(st.integers(0, 1), min_size=16, max_size=16)))},
        }
        if region.scales
        else {}
    )


def batch(draw, graph):
    sizes = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 2), st.integers(0, 50)), max_size=12)
    found = {}
    for name in graph.sources:
        rows = draw(sizes)
        columns = [pa.array([r[i] for r in rows], pa.int64()) for i in range(3)]
        found[name] = pa.table(dict(zip(ROW, columns, strict=True)))
    return found


def outputs(folder, graph):
    found = {}
    for sink in graph.sinks:
        files = sorted(Path(folder, "out", sink).glob("*.parquet"))
        found[sink] = [row for file in files for row in pq.read_table(file).to_pylist()]
    return found


def keyed(rows, keys):
    """Rows in order, by key: order across keys is not promised."""
    found = {}
    for row in rows:
        found.setdefault(tuple(row[k] for k in keys), []).append((row["k"], row["j"], row["v"]))
    return found


def whole(rows):
    return sorted((r["k"], r["j"], r["v"]) for r in rows)


def check(data, crashes):
    graph = data.draw(flows(), label="flow")
    batches = [batch(data.draw, graph) for _ in range(data.draw(st.integers(1, 4)))]
    truth = {k: t.to_pylist() for k, t in Reference(graph).run_all(batches).items()}
    with tempfile.TemporaryDirectory() as folder:
        run = start_in_process(graph, folder)
        number, died = 0, -1
        while number < len(batches):
            if data.draw(st.booleans()):
                run.rescale(**data.draw(changes(graph)))
            point = data.draw(st.sampled_from(crashes)) if crashes and died < number else None
            try:
                with dying_at(point, number):
                    run._next = number
                    run.feed(batches[number])
                number += 1
            except Killed:
                died = number
                run.abandon()
                run = start_in_process(graph, folder)
        run.finish()
        seen = outputs(folder, graph)
    for sink in graph.sinks:
        assert whole(seen[sink]) == whole(truth.get(sink, [])), sink
        spec = graph.nodes[graph.sinks[sink].stream.node].spec
        if spec.kind == "partitioned":
            assert keyed(seen[sink], spec.keys) == keyed(truth.get(sink, []), spec.keys), sink


@settings(deadline=None, max_examples=50)
@given(st.data())
def test_any_sequence_of_plans_gives_what_one_process_gives(data):
    check(data, ())


@settings(deadline=None, max_examples=30)
@given(st.data())
def test_dying_anywhere_between_loses_and_repeats_nothing(data):
    check(data, (None, "state-written", "before-commit", "during-commit", "after-commit", "after-publish"))


def test_a_checkpoint_of_another_flow_is_refused(tmp_path):
    def graph(op, name="flow"):
        made = Graph(name)
        made.source("rows", ROW).through(op, name="op").sink("out")
        return made

    run = start_in_process(graph(summed), tmp_path)
    run.feed({"rows": pa.table({"k": [1], "j": [2], "v": [3]})})
    run.finish()
    with pytest.raises(ValueError, match="The state of operator 'op' cannot be carried over"):
        start_in_process(graph(latest), tmp_path)
    with pytest.raises(ValueError, match="belongs to another query: its name"):
        start_in_process(graph(summed, "other"), tmp_path)
