"""What key groups cost: calls in slices give out the same, and their times tell the groups apart."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.dataflow.firing import need_all
from penstock.dataflow.graph import Graph
from penstock.dataflow.invoke import Before, invoke
from penstock.dataflow.key_costs import KeyCosts, RegionCosts
from penstock.dataflow.operators import operator
from penstock.dataflow.regions import find_regions
from penstock.dataflow.rows import Chunk
from penstock.dataflow.running_figures import running_count
from penstock.dataflow.slices import SLICES, SliceTime, Slicing
from penstock.dataflow.wiring import make_tasks


@operator(keys="k", state={"n": int}, output={"k": int, "n": int}, on_error="dead-letter")
def tables(rows, state, output):
    if (rows["v"] == 0).any():
        raise ValueError("no value")
    output.emit({"k": rows.column("k"), "n": running_count(rows.slots, state["n"])})


@operator(keys="k", state={"n": int}, output={"k": int, "n": int}, grain="key", on_error="dead-letter")
def by_key(rows, state, output):
    for row in rows:
        if row["v"] == 0:
            raise ValueError("no value")
        state["n"] += 1
        output.emit({"k": row["k"], "n": state["n"]})


@operator(keys="k", state={"n": int}, output={"k": int, "n": int}, grain="key", need=need_all(**{"in": 3}))
def in_threes(rows, state, output):
    state["n"] += sum(row["v"] for row in rows)
    output.emit({"k": rows[0]["k"], "n": state["n"]})


@settings(max_examples=30, deadline=None)
@given(
    st.integers(0, 10_000),
    st.integers(1, 200),
    st.integers(1, 40),
    st.sampled_from([tables, by_key, in_threes]),
)
def test_a_call_in_slices_gives_out_what_one_call_does(seed, rows, keys, code):
    graph = Graph("sliced")
    graph.source("rows", {"k": int, "v": int}).through(code).sink("out")
    (task,) = make_tasks(graph, find_regions(graph)).values()
    task.operator.initialize(task.context)
    rng = np.random.default_rng(seed)
    table = pa.table({"k": rng.integers(0, keys, rows), "v": rng.integers(0, 30, rows)})
    chunk = Chunk(table, np.arange(rows))
    plain = invoke(task, {"in": chunk}, Before())
    sliced = invoke(task, {"in": chunk}, Before(slicing=Slicing(16, seed)))
    assert plain.outputs.keys() == sliced.outputs.keys()
    for port, given_out in plain.outputs.items():
        assert sliced.outputs[port].table.equals(given_out.table)
        assert (sliced.outputs[port].positions == given_out.positions).all()
    assert (plain.layer is None) == (sliced.layer is None)
    assert plain.layer is None or sliced.layer.equals(plain.layer)
    put_aside = [
        sorted(r for d in x.dead for r in zip(*d.rows.to_pydict().values(), strict=True))
        for x in (plain, sliced)
    ]
    assert put_aside[0] == put_aside[1]
    assert len(sliced.slices) <= SLICES
    counted = sum(sum(s.rows) for s in sliced.slices)
    assert counted in (0, rows)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([16, 64]), st.integers(1, 3))
def test_dear_groups_are_told_from_cheap_ones(seed, groups, dear):
    rng = np.random.default_rng(seed)
    rows, cost = rng.integers(20, 60, groups), np.ones(groups)
    hot = rng.permutation(groups)[:dear]
    cost[hot] = rng.uniform(20, 60, dear)
    costs = KeyCosts(groups)
    for _ in range(40):
        parts = np.array_split(rng.permutation(groups), 2 * SLICES)
        noise = rng.uniform(0.9, 1.1, len(parts))
        costs.add(
            [
                SliceTime(tuple(p), tuple(rows[p]), float((rows * cost)[p].sum() * n))
                for p, n in zip(parts, noise, strict=True)
            ]
        )
    assert (np.sort(costs.seconds.argsort()[-dear:]) == np.sort(hot)).all()
    assert costs.seconds[hot] == pytest.approx(cost[hot], rel=0.5)
    assert np.median(np.delete(costs.seconds, hot)) == pytest.approx(1.0, rel=0.7)


def test_a_chain_costs_what_its_operators_do_and_nothing_is_told_of_a_single_call():
    costs = RegionCosts(2)
    for calls in range(3):
        assert costs.of(["a", "b"], {"a": 10, "b": 5}) is None, calls
        costs.add("a", [SliceTime((0,), (5,), 5.0), SliceTime((1,), (5,), 5.0)])
        costs.add("b", [SliceTime((0,), (5,), 10.0), SliceTime((1,), (5,), 10.0)])
    assert costs.of(["a", "b"], {"a": 10, "b": 5}).tolist() == pytest.approx([2.0, 2.0])
