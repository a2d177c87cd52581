"""Timers and expiry: keys are called for when their time has come, as a loop over all keys would, whatever the layout."""

import tempfile
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.errors import PenstockError
from penstock.dataflow.firing import need_all
from penstock.dataflow.graph import Graph
from penstock.dataflow.operators import operator
from penstock.dataflow.reference import Reference
from penstock.dataflow.running_figures import running_count
from penstock.testing.flow_run import start_in_process

ROW = {"k": int, "t": float}
SESSION = {"k": int, "start": float, "end": float, "n": int}
GAP = 5.0


def close(key, state, output):
    output.emit({**key, **state})
    state.clear()


@operator(
    keys="k",
    grain="key",
    state={"start": float, "end": float, "n": int},
    output=SESSION,
    time="t",
    on_timer=close,
)
def sessions(rows, state, output):
    for row in rows:
        state["start"] = row["t"] if state["n"] == 0 else min(state["start"], row["t"])
        state["end"], state["n"] = max(state["end"], row["t"]), state["n"] + 1
    state.timer(state["end"] + GAP)


@operator(keys="k", state={"start": float, "end": float, "n": int}, output=SESSION, time="t", on_timer=close)
def sessions_of_tables(rows, state, output):
    first = state["n"] == 0
    state["start"][first] = np.inf
    np.minimum.at(state["start"], rows.slots, rows["t"])
    np.maximum.at(state["end"], rows.slots, rows["t"])
    running_count(rows.slots, state["n"])
    state.timer(np.arange(len(state)), state["end"] + GAP)


@operator(keys="k", grain="key", output=SESSION, ttl=("t", GAP), on_expiry=close)
def sessions_by_expiry(rows, state, output):
    for row in rows:
        state["start"] = min(state.get("start", row["t"]), row["t"])
        state["end"], state["n"] = max(state.get("end", row["t"]), row["t"]), state.get("n", 0) + 1


@operator(keys="k", state={"n": int}, output={"k": int, "n": int})
def numbered(rows, state, output):
    output.emit({"k": rows.column("k"), "n": running_count(rows.slots, state["n"])})


ALL = [sessions, sessions_of_tables, sessions_by_expiry]


def flow(op):
    graph = Graph("sessions")
    found = graph.source("rows", ROW).through(op, name="op")
    found.sink("out")
    found.through(numbered, name="numbered").sink("numbers")
    return graph


def rows_of(batch):
    return {"rows": pa.table({"k": pa.array([k for k, _ in batch], pa.int64()), "t": pa.array([t for _, t in batch], pa.float64())})}  # fmt: skip


def expected(batches, strict):
    """Sessions in the order in which a loop over all keys finds them over, by the event times of the batches before."""
    open_, clock, found = {}, None, []
    for batch in batches:
        if clock is not None:
            over = [k for k, s in open_.items() if (s[1] + GAP < clock if strict else s[1] + GAP <= clock)]
            found += [(k, *open_.pop(k)) for k in over]
        for k, t in batch:
            a, b, n = open_.get(k, (t, 0.0, 0))
            open_[k] = (min(a, t), max(b, t), n + 1)
            clock = t if clock is None else max(clock, t)
    return sorted(found)


def found_in(rows):
    return sorted((r["k"], r["start"], r["end"], r["n"]) for r in rows)


some_batches = st.lists(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 40).map(float)), min_size=1, max_size=6), min_size=1, max_size=8
)  # fmt: skip


@given(some_batches, st.sampled_from(ALL))
def test_sessions_are_given_out_when_they_are_over(batches, op):
    out = Reference(flow(op)).run_all([rows_of(b) for b in batches])
    wanted = expected(batches, strict=op is sessions_by_expiry)
    assert found_in(out["out"].to_pylist() if "out" in out else []) == wanted
    numbers = [(r["k"], r["n"]) for r in (out["numbers"].to_pylist() if "numbers" in out else [])]
    assert sorted(numbers) == sorted(
        (k, n + 1) for k in range(6) for n in range(sum(w[0] == k for w in wanted))
    )


@settings(max_examples=25)
@given(some_batches, st.sampled_from(ALL), st.lists(st.integers(1, 4), min_size=8, max_size=8), st.booleans())
def test_the_same_with_replicas_that_come_and_go_and_with_restarts(batches, op, replicas, restarts):
    with tempfile.TemporaryDirectory() as folder:
        run = start_in_process(flow(op), folder, groups=8)
        for number, batch in enumerate(batches):
            if restarts and number:
                run.abandon()
                run = start_in_process(flow(op), folder, groups=8)
            run.rescale(replicas={"op": replicas[number]})
            run._next = number
            run.feed(rows_of(batch))
        run.finish()
        files = Path(folder, "out", "out").glob("*.parquet")
        found = found_in([r for f in files for r in pq.read_table(f).to_pylist()])
    assert found == expected(batches, strict=op is sessions_by_expiry)


def test_a_key_is_called_for_though_no_tuple_comes_to_the_operator(tmp_path):
    graph = Graph("quiet")
    rows = graph.source("rows", ROW)
    other = graph.source("other", ROW)
    told = operator(keys="k", grain="key", output=ROW, time="t", on_timer=lambda key, state, output: output.emit({**key, "t": state["at"]}))  # fmt: skip

    @told
    def remind(rows, state, output):
        state["at"] = rows[-1]["t"]
        state.timer(rows[-1]["t"])

    rows.through(remind, name="remind").sink("out")
    other.through(operator()(lambda rows, output: None)).sink("nothing")
    reference = Reference(graph)
    quiet = {"other": rows_of([(1, 9.0)])["rows"]}
    assert reference.run(rows_of([(1, 3.0)])) == {}
    assert reference.run(quiet)["out"].to_pylist() == [{"k": 1, "t": 3.0}]
    assert reference.run(quiet) == {}
    run = start_in_process(graph, tmp_path, groups=8)
    run.rescale(replicas={"remind": 3})
    results = []
    for batch in (rows_of([(1, 3.0)]), quiet, quiet):
        run.feed(batch)
        results.append(run.totals.results)
    assert results == [0, 1, 1]


def test_a_timer_by_processing_time_goes_by_the_time_of_the_batch():
    noon = datetime(2026, 1, 1, 12, tzinfo=UTC)

    @operator(keys="k", grain="key", output={"k": int}, on_timer=lambda key, state, output: output.emit(key))
    def remind(rows, state, output):
        state["n"] = 1
        state.timer(noon, clock="processing")

    graph = Graph("clock")
    graph.source("rows", ROW).through(remind, name="op").sink("out")
    reference = Reference(graph)
    assert reference.run(rows_of([(1, 3.0)]), now=noon.timestamp() - 2) == {}
    assert reference.run({}, now=noon.timestamp() - 1) == {}
    assert reference.run({}, now=noon.timestamp())["out"].to_pylist() == [{"k": 1}]
    assert reference.run({}, now=noon.timestamp() + 1) == {}


def test_a_timer_can_be_set_again_and_taken_back():
    def later(key, state, output):
        state["n"] += 1
        output.emit({**key, "n": state["n"]})
        if state["n"] < 3:
            state.timer(state["n"] + 0.5)

    @operator(keys="k", grain="key", state={"n": int}, output={"k": int, "n": int}, time="t", on_timer=later)
    def start(rows, state, output):
        state.timer(rows[0]["t"] if rows[0]["k"] == 1 else None)

    graph = Graph("again")
    graph.source("rows", ROW).through(start, name="op").sink("out")
    reference = Reference(graph)
    reference.run(rows_of([(1, 0.0), (2, 9.0)]))
    seen = [reference.run({}).get("out", pa.table({"n": []})).to_pylist() for _ in range(4)]
    assert [[r["n"] for r in rows] for rows in seen] == [[1], [2], [3], []]


@pytest.mark.parametrize("forgets", [False, True])
def test_tuples_that_wait_are_not_lost_by_a_timer(forgets):
    @operator(keys="k", grain="key", need=need_all(**{"in": 2}), time="t", output={"k": int, "n": int},
              on_timer=lambda key, state, output: state.clear() if forgets else None)  # fmt: skip
    def pairs(rows, state, output):
        state["n"] = 1
        state.timer(0.0)
        output.emit({"k": rows[0]["k"], "n": len(rows)})

    graph = Graph("waiting")
    graph.source("rows", ROW).through(pairs, name="op").sink("out")
    reference = Reference(graph)
    assert len(reference.run(rows_of([(1, 1.0), (1, 2.0), (1, 3.0)]))["out"]) == 1
    assert reference.run({}) == {}
    assert len(reference.run(rows_of([(1, 4.0)]))["out"]) == 1


@pytest.mark.parametrize(
    ("build", "sentence"),
    [
        (lambda: operator(on_timer=close), "A stateless operator has no keys"),
        (lambda: operator(keys="k", grain="key", on_expiry=close), "give ttl="),
        (lambda: operator(keys="k", grain="key", time="x", on_timer=close), "needs the time column 'x'"),
    ],
)
def test_a_timer_that_cannot_be_is_refused(build, sentence):
    def attempt():
        graph = Graph("bad")
        graph.source("rows", ROW).through(build()(lambda rows, state, output: None), name="op")
        graph.check()

    with pytest.raises(PenstockError, match=sentence):
        attempt()


def test_a_timer_without_a_declaration_and_an_error_in_one_are_named():
    def run(op):
        graph = Graph("bad")
        graph.source("rows", ROW).through(op, name="op").sink("out")
        reference = Reference(graph)
        reference.run(rows_of([(7, 1.0)]))
        reference.run({})

    @operator(keys="k", grain="key", output={"k": int})
    def undeclared(rows, state, output):
        state.timer(1.0)

    @operator(keys="k", grain="key", output={"k": int}, time="t", on_timer=lambda key, state, output: 1 / 0)
    def failing(rows, state, output):
        state["n"] = 1
        state.timer(1.0)

    with pytest.raises(PenstockError, match="has no timers"):
        run(undeclared)
    with pytest.raises(
        PenstockError, match=r"Operator 'op' failed with ZeroDivisionError.*of the key \{'k': 7\}"
    ):
        run(failing)
