"""Tuples that make an operator fail, or give out what does not fit, are put aside; the others go on as if they had not been."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.errors import PenstockError
from penstock.dataflow.firing import need_all
from penstock.dataflow.graph import Graph
from penstock.dataflow.operators import operator
from penstock.dataflow.reference import Reference
from penstock.dataflow.running_figures import running_sum

OUT = {"k": int, "s": int}


def judged(total, value):
    """What is given out for a value: the total, or what does not fit where the value is 7; fails where it is 9."""
    if value == 9:
        raise ValueError("nine")
    return "seven" if value == 7 else total


@operator(keys="k", grain="key", state={"s": int}, output=OUT, on_error="dead-letter")
def by_key(rows, state, output):
    for row in rows:
        state["s"] += row["v"]
        output.emit({"k": row["k"], "s": judged(state["s"], row["v"])})


@operator(keys="k", grain="key", output=OUT, on_error="dead-letter")
def by_free_key(rows, state, output):
    for row in rows:
        state.setdefault("values", []).append(row["v"])
        output.emit({"k": row["k"], "s": judged(sum(state["values"]), row["v"])})


@operator(keys="k", grain="key", state={"s": int, "text": str}, output=OUT, on_error="dead-letter")
def by_state(rows, state, output):
    for row in rows:
        state["s"] += row["v"]
        if row["v"] == 7:
            state["text"] = 7  # not a text
        output.emit({"k": row["k"], "s": 0 if row["v"] == 7 else judged(state["s"], row["v"])})


@operator(keys="k", state={"s": int}, output=OUT, on_error="dead-letter")
def by_table(rows, state, output):
    sums = running_sum(rows.slots, rows["v"], state["s"])
    output.emit({"k": rows.column("k"), "s": [judged(s, v) for s, v in zip(sums, rows["v"], strict=True)]})


ALL = [by_key, by_free_key, by_state, by_table]


def started(op):
    graph = Graph("dead")
    graph.source("rows", {"k": int, "v": int}).through(op, name="op").sink("out")
    return Reference(graph)


def rows_of(pairs):
    return {"rows": pa.table({"k": pa.array([k for k, _ in pairs], pa.int64()), "v": pa.array([v for _, v in pairs], pa.int64())})}  # fmt: skip


batches = st.lists(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9)), max_size=30), min_size=1, max_size=3
)


@given(batches, st.sampled_from(ALL))
def test_bad_tuples_are_put_aside_and_the_others_are_as_if_they_had_not_been_there(given_, op):
    reference = started(op)
    seen = (
        reference.run_all([rows_of(b) for b in given_]).get("out", pa.table({"k": [], "s": []})).to_pylist()
    )
    totals, expected = {}, []
    for batch in given_:
        for k, v in batch:
            if v not in (7, 9):
                totals[k] = totals.get(k, 0) + v
                expected.append((k, totals[k]))
    assert sorted((r["k"], r["s"]) for r in seen) == sorted(expected)
    for key in totals:
        assert [r["s"] for r in seen if r["k"] == key] == [s for k, s in expected if k == key]
    assert len(reference.dead) == sum(v in (7, 9) for b in given_ for _, v in b)


@pytest.mark.parametrize("op", ALL)
def test_the_reason_names_operator_column_and_value(op):
    reference = started(op)
    reference.run(rows_of([(1, 7), (1, 1), (2, 9)]))
    assert {name for name, _ in reference.dead} == {"op"}
    reasons = " ".join(reason for _, reason in reference.dead)
    assert "ValueError: nine" in reasons
    assert "'text'" in reasons if op is by_state else "'seven' for the column 's'" in reasons


@pytest.mark.parametrize("grain", ["key", "table"])
def test_a_firing_that_fails_is_put_aside_as_a_whole(grain):
    @operator(keys="k", grain="key", need=need_all(**{"in": 2}), output=OUT, on_error="dead-letter")
    def pairs(rows, state, output):
        state["s"] = state.get("s", 0) + sum(r["v"] for r in rows)
        output.emit({"k": rows[0]["k"], "s": max(judged(state["s"], r["v"]) for r in rows)})

    @operator(keys="k", need=need_all(**{"in": 2}), state={"s": int}, output=OUT, on_error="dead-letter")
    def tables(rows, state, output):
        for v in rows["v"]:
            judged(0, v)
        output.emit({"k": rows.column("k"), "s": rows.column("v")})

    reference = started({"key": pairs, "table": tables}[grain])
    out = reference.run(rows_of([(1, 1), (2, 9), (1, 2), (2, 1), (1, 4), (1, 5)]))["out"].to_pylist()
    assert [r["s"] for r in out] == ([3, 12] if grain == "key" else [1, 2, 4, 5])
    assert [reason for _, reason in reference.dead] == ["ValueError: nine"] * 2


def test_a_mistake_in_the_flow_ends_the_run_though_tuples_may_be_put_aside():
    @operator(output={"v": int}, on_error="dead-letter")
    def wrong(rows, output):
        output.emit({"v": rows["v"]}, port="side")

    with pytest.raises(PenstockError, match="Unknown output port 'side'"):
        started(wrong).run(rows_of([(1, 1)]))


@pytest.mark.parametrize("bad", [9, 7])
@pytest.mark.parametrize("grain", ["key", "table"])
def test_many_bad_tuples_cost_some_calls_each_and_not_all_keys_each(grain, bad):
    """8,000 bad tuples among 16,000 of 4,000 keys; the values that an operator looks at are counted, not seconds."""
    looked = 0

    def look(total, value):
        nonlocal looked
        looked += 1
        return judged(total, value)

    @operator(keys="k", grain="key", state={"s": int}, output=OUT, on_error="dead-letter")
    def rows_(rows, state, output):
        for row in rows:
            state["s"] += row["v"]
            output.emit({"k": row["k"], "s": look(state["s"], row["v"])})

    @operator(keys="k", state={"s": int}, output=OUT, on_error="dead-letter")
    def tables(rows, state, output):
        sums = running_sum(rows.slots, rows["v"], state["s"])
        assert len(state) <= len(rows)
        output.emit({"k": rows.column("k"), "s": [look(s, v) for s, v in zip(sums, rows["v"], strict=True)]})

    reference = started({"key": rows_, "table": tables}[grain])
    out = reference.run(rows_of([(n % 4_000, bad if n % 2 else 1) for n in range(16_000)]))["out"]
    assert out.num_rows == len(reference.dead) == 8_000
    assert looked < 6 * 16_000
