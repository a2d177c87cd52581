"""What operators see, in both grains: state, waiting tuples, errors, time to live."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.errors import PenstockError
from penstock.dataflow.firing import FiringRule, need_all, need_any
from penstock.dataflow.graph import Graph
from penstock.dataflow.operators import Operator, operator
from penstock.dataflow.reference import Reference
from penstock.dataflow.running_figures import running_count, running_max, running_sum

OUT = {"k": str, "n": int, "s": float}


@operator(keys="k", state={"n": int, "s": float}, output=OUT)
def totals(rows, state, output):
    n, s = running_count(rows.slots, state["n"]), running_sum(rows.slots, rows["v"], state["s"])
    output.emit({"k": rows.column("k"), "n": n, "s": s})


@operator(keys="k", grain="key", output=OUT)
def totals_by_key(rows, state, output):
    for row in rows:
        state["n"] = state.get("n", 0) + 1
        state["s"] = state.get("s", 0.0) + row["v"]
        output.emit({"k": row["k"], "n": state["n"], "s": state["s"]})


@operator(keys="k", grain="key", state={"n": int, "s": float}, output=OUT)
def totals_by_key_in_columns(rows, state, output):
    for row in rows:
        state["n"] += 1
        state["s"] += row["v"]
        output.emit({"k": row["k"], "n": state["n"], "s": state["s"]})


def run(op, *batches, schema=None, **given):
    graph = Graph("one")
    graph.source("rows", schema or {"k": str, "v": float}).through(op, name="op", **given).sink("out")
    reference = Reference(graph)
    out = reference.run_all([{"rows": b} for b in batches])
    return out.get("out", pa.table({})).to_pylist(), reference


def by_key(rows):
    found = {}
    for row in rows:
        found.setdefault(row["k"], []).append((row["n"], row["s"]))
    return found


batches_of_rows = st.lists(
    st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(-5, 5)), max_size=12), min_size=1, max_size=4
)


@given(batches_of_rows)
def test_both_grains_have_the_same_meaning(batches):
    tables = [
        pa.table(
            {
                "k": pa.array([k for k, _ in b], pa.string()),
                "v": pa.array([float(v) for _, v in b], pa.float64()),
            }
        )
        for b in batches
    ]
    truth = {}
    for b in batches:
        for k, v in b:
            n, s = truth.setdefault(k, [(0, 0.0)])[-1]
            truth[k].append((n + 1, s + v))
    truth = {k: seen[1:] for k, seen in truth.items()}
    for op in (totals, totals_by_key, totals_by_key_in_columns):
        assert by_key(run(op, *tables)[0]) == truth


def table(**columns):
    return pa.table(columns)


def test_a_stateful_operator_has_one_state_for_all_tuples():
    @operator(stateful=True, state={"largest": (float, float("-inf"))}, output={"m": float})
    def peak(rows, state, output):
        output.emit({"m": running_max(rows.slots, rows["v"], state["largest"])})

    rows, _ = run(peak, table(k=["a", "b"], v=[1.0, 3.0]), table(k=["c"], v=[2.0]))
    assert [r["m"] for r in rows] == [1.0, 3.0, 3.0]


def barrier_graph(op):
    graph = Graph("barrier")
    left = graph.source("left", {"k": str, "num": int})
    right = graph.source("right", {"k": str, "num": int})
    left.through(op, right, name="barrier").sink("sums")
    return graph


@operator(
    keys="k",
    inputs=["left", "right"],
    need=need_all(left=2, right=2),
    grain="key",
    output={"k": str, "total": int},
)
def barrier(inputs, state, output):
    assert len(inputs["left"]) == len(inputs["right"]) == 2
    pairs = zip(inputs["left"], inputs["right"], strict=True)
    state["total"] = state.get("total", 0) + sum(max(a["num"], b["num"]) for a, b in pairs)
    output.emit({"k": inputs["left"][0]["k"], "total": state["total"]})


@operator(
    keys="k",
    inputs=["left", "right"],
    need=need_all(left=2, right=2),
    state={"total": int},
    output={"k": str, "total": int},
)
def barrier_of_tables(inputs, state, output):
    left, right = inputs["left"], inputs["right"]
    assert (left.slots == right.slots).all()
    best = np.maximum(left["num"], right["num"]).reshape(-1, 2).sum(axis=1)
    at = left.slots[::2]
    totals = running_sum(at, best, state["total"])
    newest = np.maximum(left.positions, right.positions).reshape(-1, 2).max(axis=1)
    output.emit({"k": state.keys.column("k").take(pa.array(at)), "total": totals}, at=newest)


sides = st.lists(
    st.tuples(
        st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 9)), max_size=6),
        st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 9)), max_size=6),
    ),
    min_size=1,
    max_size=5,
)


@given(sides)
def test_tuples_wait_until_both_ports_have_enough_for_their_key(batches):
    truth, queues, totals_ = {}, {}, {}
    for left, right in batches:
        for side, rows in (("l", left), ("r", right)):
            for k, n in rows:
                queues.setdefault((k, side), []).append(n)
        for k in "ab":
            a, b = queues.setdefault((k, "l"), []), queues.setdefault((k, "r"), [])
            while len(a) >= 2 and len(b) >= 2:
                totals_[k] = totals_.get(k, 0) + max(a.pop(0), b.pop(0)) + max(a.pop(0), b.pop(0))
                truth.setdefault(k, []).append(totals_[k])
    for op in (barrier, barrier_of_tables):
        reference = Reference(barrier_graph(op))
        given_ = [
            {
                side: table(
                    k=pa.array([k for k, _ in rows], pa.string()),
                    num=pa.array([n for _, n in rows], pa.int64()),
                )
                for side, rows in (("left", a), ("right", b))
            }
            for a, b in batches
        ]
        out = reference.run_all(given_).get("sums", pa.table({"k": [], "total": []})).to_pylist()
        assert {k: [r["total"] for r in out if r["k"] == k] for k in {r["k"] for r in out}} == truth


def test_a_port_that_runs_away_waits_in_the_state_and_loses_nothing():
    reference = Reference(barrier_graph(barrier.composed(need=need_all(hold=4, left=2, right=2))))
    numbers = list(range(5_000))
    for begin in range(0, 5_000, 1_000):
        assert reference.run({"left": table(k=["a"] * 1_000, num=numbers[begin : begin + 1_000])}) == {}
    out = reference.run({"right": table(k=["a"] * 5_000, num=[0] * 5_000)})["sums"].to_pylist()
    assert [row["total"] for row in out] == np.cumsum(numbers)[1::2].tolist()


def test_any_port_with_enough_is_enough():
    calls = []

    @operator(keys="k", inputs=["left", "right"], need=need_any(left=3), grain="key", output={"k": str})
    def either(inputs, state, output):
        calls.append({p: len(r) for p, r in inputs.items()})

    reference = Reference(barrier_graph(either))
    reference.run({"left": table(k=["a", "a"], num=[1, 2])})
    assert calls == []
    reference.run({"right": table(k=["a"], num=[1])})
    assert calls == [{"left": 0, "right": 1}]
    reference.run({"left": table(k=["a"], num=[3])})
    assert calls[1:] == [{"left": 3, "right": 0}]


def test_the_tuple_that_makes_an_operator_fail_is_shown():
    @operator(output={"v": float})
    def invert(rows, output):
        if (rows["v"] == 0).any():
            raise ZeroDivisionError("division by zero")
        output.emit({"v": 1 / rows["v"]})

    with pytest.raises(
        PenstockError, match=r"Operator 'op' failed with ZeroDivisionError.*'k': 'bad', 'v': 0.0"
    ):
        run(invert, table(k=["a", "bad", "c"], v=[1.0, 0.0, 2.0]))


@pytest.mark.parametrize("grain", ["table", "key"])
def test_a_tuple_that_fails_can_be_put_aside_and_the_others_go_on(grain):
    @operator(keys="k", state={"s": float}, output={"k": str, "s": float}, on_error="dead-letter")
    def by_table(rows, state, output):
        sums = running_sum(rows.slots, rows["v"], state["s"])
        if (rows["v"] < 0).any():
            raise ValueError("negative")
        output.emit({"k": rows.column("k"), "s": sums})

    @operator(
        keys="k", grain="key", state={"s": float}, output={"k": str, "s": float}, on_error="dead-letter"
    )
    def by_one(rows, state, output):
        for row in rows:
            state["s"] += row["v"]
            if row["v"] < 0:
                raise ValueError("negative")
            output.emit({"k": row["k"], "s": state["s"]})

    rows, reference = run(
        {"table": by_table, "key": by_one}[grain], table(k=["a", "a", "b", "a"], v=[1.0, -5.0, 7.0, 2.0])
    )
    assert sorted((r["k"], r["s"]) for r in rows) == [("a", 1.0), ("a", 3.0), ("b", 7.0)]
    assert reference.dead == [("op", "ValueError: negative")]


def test_rows_without_a_key_are_put_aside():
    rows, reference = run(totals, table(k=["a", None], v=[1.0, 2.0]))
    assert len(rows) == 1
    assert reference.dead == [("op", "no value in one of k")]


def test_a_key_is_forgotten_after_its_time_to_live():
    timed = totals.composed(ttl=("t", 10))
    schema = {"k": str, "v": float, "t": float}
    rows, _ = run(
        timed,
        table(k=["a", "b"], v=[1.0, 1.0], t=[0.0, 5.0]),
        table(k=["b"], v=[1.0], t=[11.0]),
        table(k=["a", "b"], v=[1.0, 1.0], t=[11.5, 11.5]),
        schema=schema,
    )
    assert [(r["k"], r["n"]) for r in rows] == [("a", 1), ("b", 1), ("b", 2), ("a", 1), ("b", 3)]


def test_dropping_a_key_starts_it_afresh():
    @operator(keys="k", grain="key", output={"k": str, "n": int})
    def up_to_two(rows, state, output):
        for row in rows:
            state["n"] = state.get("n", 0) + 1
            output.emit({"k": row["k"], "n": state["n"]})
            if state["n"] == 2:
                state.clear()

    rows, _ = run(up_to_two, *[table(k=["a"], v=[1.0])] * 5)
    assert [r["n"] for r in rows] == [1, 2, 1, 2, 1]


def test_rows_given_out_without_a_cause_are_refused():
    @operator(output={"v": float})
    def half(rows, output):
        output.emit({"v": rows["v"][:1]})

    with pytest.raises(PenstockError, match="'op' gave out 1 rows without telling which rows caused them"):
        run(half, table(k=["a", "b"], v=[1.0, 2.0]))


def test_giving_out_on_a_port_that_is_not_there_or_closed_names_the_operator():
    kept = []

    @operator(output={"v": float})
    def wrong(rows, output):
        output.emit({"v": rows["v"]}, port="side")

    @operator(output={"v": float})
    def late(rows, output):
        kept.append(output)

    with pytest.raises(PenstockError, match="Operator 'op': Unknown output port 'side'"):
        run(wrong, table(k=["a"], v=[1.0]))
    run(late, table(k=["a"], v=[1.0]))
    with pytest.raises(PenstockError, match="'op' gave out rows on port 'out' after its call was over"):
        kept[0].emit({"v": [1.0]})


def test_an_operator_that_breaks_its_own_schema_is_named():
    @operator(output={"v": float})
    def wrong(rows, output):
        output.emit({"w": rows["v"]})

    with pytest.raises(PenstockError, match="'op' gave out rows without the column 'v'"):
        run(wrong, table(k=["a"], v=[1.0]))


def test_a_class_can_be_an_operator_with_initialize():
    class Scale(Operator):
        def __init__(self, by):
            self.by = by

        def initialize(self, context):
            self.factor = float(self.by)
            assert context.name == "op"

        def invoke(self, rows, state, output):
            output.emit({"k": rows.column("k"), "v": rows["v"] * self.factor})

    rows, _ = run(Scale("3"), table(k=["a"], v=[2.0]))
    assert rows == [{"k": "a", "v": 6.0}]


@pytest.mark.parametrize(
    ("build", "sentence"),
    [
        (lambda g, s: s.through(totals, keys="missing"), "needs the key column 'missing'"),
        (
            lambda g, s: s.through(operator(inputs={"in": {"v": int}})(lambda r, o: None), name="x"),
            "the column 'v' is double where int64 is wanted",
        ),
        (lambda g, s: s.through(totals, s), "has 1 input ports"),
        (
            lambda g, s: g.connect(s, g.add(totals, name="x"), "side"),
            "Unknown input port of operator 'x' 'side'",
        ),
        (lambda g, s: g.add(totals, name="lonely"), "'in' of operator 'lonely' is fed by nothing"),
        (lambda g, s: s.through(print), "is not an operator"),
    ],
)
def test_what_does_not_fit_is_told_in_one_sentence(build, sentence):
    graph = Graph("bad")
    stream = graph.source("rows", {"k": str, "v": float})

    def attempt():
        build(graph, stream)
        graph.check()

    with pytest.raises(PenstockError, match=sentence):
        attempt()


def test_a_cycle_is_named():
    graph = Graph("loop")
    stream = graph.source("rows", {"k": str, "v": float})
    same = operator(inputs=["a", "b"])(lambda rows, output: None)
    first, second = graph.add(same, name="first"), graph.add(same, name="second")
    graph.connect(stream, first, "a")
    graph.connect(second.stream(), first, "b")
    graph.connect(first.stream(), second, "a")
    graph.connect(stream, second, "b")
    with pytest.raises(PenstockError, match=r"first -> second -> first|second -> first -> second"):
        graph.check()


def test_contradictions_in_a_declaration_are_refused():
    for given_, sentence in [
        ({"keys": ["k"]}, "needs typed state columns"),
        ({"state": {"n": int}}, "stateless operator has no state"),
        ({"keys": ["k"], "state": {"n": int}, "need": FiringRule("all", {"x": 1})}, "names the port 'x'"),
        ({"need": need_any(**{"in": 2})}, "keeps them as state"),
        ({"keys": ["k"], "state": {"__n": int}}, "begins with '__'"),
    ]:
        with pytest.raises(PenstockError, match=sentence):
            operator(**given_)(lambda rows, state, output: None)


def test_a_property_that_an_operator_does_not_have_is_refused():
    same = operator()(lambda rows, output: None)
    stream = Graph("words").source("rows", {"k": str})
    for call in (lambda: operator(size=3), lambda: stream.through(same, size=3)):
        with pytest.raises(TypeError, match="unexpected keyword argument 'size'"):
            call()
