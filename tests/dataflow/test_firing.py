"""The four firing rules against a loop over queues; tuples that wait lose nothing; several output ports."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.errors import PenstockError
from penstock.core.journal import MemoryJournal
from penstock.dataflow.firing import need_all, need_any
from penstock.dataflow.graph import Graph
from penstock.dataflow.operators import operator
from penstock.dataflow.reference import Reference
from penstock.spark.flow import run as run_module
from penstock.testing.flow_run import start_in_process

RULES = {
    "all exactly": need_all(left=2, right=1),
    "all at least": need_all(left=2, right=1).at_least(),
    "any at least": need_any(left=2, right=3),
    "any exactly": need_any(left=2, right=3).exactly(),
}


def told(rule, calls):
    @operator(keys="k", inputs=["left", "right"], need=rule, grain="key", output={"k": int})
    def tell(inputs, state, output):
        key = (inputs["left"] or inputs["right"])[0]["k"]
        calls.append((key, *([r["v"] for r in inputs[port]] for port in ("left", "right"))))

    return tell


def told_tables(rule, calls):
    @operator(keys="k", inputs=["left", "right"], need=rule, state={"n": int}, output={"k": int})
    def tell(inputs, state, output):
        for slot, key in enumerate(state.keys.column("k").to_pylist()):
            got = [inputs[p]["v"][inputs[p].slots == slot].tolist() for p in ("left", "right")]
            if any(got):
                calls.append((key, *got))

    return tell


def flow(op):
    graph = Graph("firing")
    left, right = (graph.source(side, {"k": int, "v": int}) for side in ("left", "right"))
    left.through(op, right, name="tell").sink("out")
    return graph


def tables(batch):
    return {
        side: pa.table({"k": pa.array([k for k, _ in rows], pa.int64()), "v": pa.array([v for _, v in rows], pa.int64())})
        for side, rows in zip(("left", "right"), batch, strict=True)
    }  # fmt: skip


def expected(rule, batches):
    """Calls key by key: what a loop over two queues would make, batch by batch."""
    queues, calls = {}, []
    for batch in batches:
        touched = sorted({k for rows in batch for k, _ in rows})
        for port, rows in zip(("left", "right"), batch, strict=True):
            for k, v in rows:
                queues.setdefault((k, port), []).append(v)
        for k in touched:
            a, b = queues.setdefault((k, "left"), []), queues.setdefault((k, "right"), [])
            calls += _calls(rule, k, a, b)
    return calls


def _calls(rule, k, a, b):
    na, nb = rule.of("left"), rule.of("right")
    made = []
    if rule.mode == "all":
        while len(a) >= na and len(b) >= nb:
            take = (na, nb) if rule.exact else (len(a), len(b))
            made.append((k, [a.pop(0) for _ in range(take[0])], [b.pop(0) for _ in range(take[1])]))
    elif rule.exact:
        while len(a) >= na:
            made.append((k, [a.pop(0) for _ in range(na)], []))
        while len(b) >= nb:
            made.append((k, [], [b.pop(0) for _ in range(nb)]))
    elif len(a) >= na or len(b) >= nb:
        got = [[q.pop(0) for _ in range(len(q))] if len(q) >= n else [] for q, n in ((a, na), (b, nb))]
        made.append((k, *got))
    return made


rows_of_a_port = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 99)), max_size=10)
some_batches = st.lists(st.tuples(rows_of_a_port, rows_of_a_port), min_size=1, max_size=5)


@given(some_batches, st.sampled_from(list(RULES)))
def test_each_rule_calls_as_a_loop_over_queues_does(batches, name):
    rule, calls = RULES[name], []
    reference = Reference(flow(told(rule, calls)))
    for batch in batches:
        reference.run(tables(batch))
    wanted = expected(rule, batches)
    assert {k: [c for c in calls if c[0] == k] for k, *_ in wanted} == {k: [c for c in wanted if c[0] == k] for k, *_ in wanted}  # fmt: skip
    assert len(calls) == len(wanted)


@given(some_batches, st.sampled_from(list(RULES)))
def test_tables_get_the_tuples_of_all_calls_of_a_batch_at_once(batches, name):
    rule, calls = RULES[name], []
    reference = Reference(flow(told_tables(rule, calls)))
    for batch in batches:
        reference.run(tables(batch))
    for side in (1, 2):
        for key in range(3):
            got = [v for call in calls if call[0] == key for v in call[side]]
            assert got == [v for call in expected(rule, batches) if call[0] == key for v in call[side]]


def test_five_thousand_waiting_tuples_are_a_warning_and_not_the_end(tmp_path, monkeypatch):
    monkeypatch.setattr(run_module, "LONGEST_WAIT", 0.0)
    calls, journal = [], MemoryJournal()
    run = start_in_process(flow(told(need_all(left=1, right=1), calls)), tmp_path, groups=8, journal=journal)
    numbers = list(range(5_000))
    for begin in range(0, 5_000, 1_000):
        run.feed(tables(([(1, v) for v in numbers[begin : begin + 1_000]], [])))
    assert run.progress["waiting"] == 5_000
    assert run.progress["overfull"] == ["tell"]
    assert [
        t for t in journal.texts("warning") if "More than 4096 tuples of one key wait at operator 'tell'" in t
    ]
    run.feed(tables(([], [(1, -v) for v in numbers])))
    assert calls == [(1, [v], [-v]) for v in numbers]
    assert run.progress["overfull"] == []
    assert len(journal.texts("warning")) == 1


@pytest.mark.parametrize("grain", ["key", "table"])
@pytest.mark.parametrize("replicas", [1, 3])
def test_an_operator_gives_out_on_two_ports(tmp_path, grain, replicas):
    outputs = {"even": {"k": int, "v": int}, "odd": {"k": int, "text": str}}

    @operator(keys="k", grain="key", outputs=outputs)
    def by_row(rows, state, output):
        for row in rows:
            if row["v"] % 2:
                output.emit({"k": row["k"], "text": str(row["v"])}, port="odd")
            else:
                output.emit(row)

    @operator(keys="k", state={"n": int}, outputs=outputs)
    def by_table(rows, state, output):
        odd = rows["v"] % 2 == 1
        texts = [str(v) for v in rows["v"][odd]]
        output.emit({"k": rows["k"][odd], "text": texts}, port="odd", at=rows.positions[odd])
        output.emit(rows.table.filter(pa.array(~odd)), port="even", at=rows.positions[~odd])

    graph = Graph("ports")
    even = graph.source("rows", {"k": int, "v": int}).through(
        {"key": by_row, "table": by_table}[grain], name="split"
    )
    even.sink("even")
    even.port_named("odd").sink("odd")
    run = start_in_process(graph, tmp_path, groups=8)
    run.rescale(replicas={"split": replicas})
    run.feed({"rows": pa.table({"k": [n % 5 for n in range(20)], "v": list(range(20))})})
    run.finish()
    found = {
        sink: sorted(r[column] for f in (tmp_path / "out" / sink).glob("*.parquet") for r in pq.read_table(f).to_pylist())
        for sink, column in (("even", "v"), ("odd", "text"))
    }  # fmt: skip
    assert found == {"even": list(range(0, 20, 2)), "odd": sorted(str(v) for v in range(1, 20, 2))}


@operator(
    keys="k",
    inputs=["left", "right"],
    need=need_all(left=1, right=1),
    grain="key",
    output={"k": int, "got": str},
)
def growing(inputs, state, output):
    """Asks for one tuple more on the left after each call, and for any three in the end."""
    n = state["n"] = state.get("n", 0) + 1
    key = (inputs["left"] or inputs["right"])[0]["k"]
    output.emit({"k": key, "got": str([[r["v"] for r in inputs[p]] for p in ("left", "right")])})
    state.need(need_all(left=n + 1, right=1) if n < 3 else need_any(left=3, right=3).exactly())


def grown(batches):
    """What a loop gives that looks at the queues again after each call; of two ports the one that was complete first."""
    found, queues = {}, {}
    for batch in batches:
        for q in queues.values():
            for waiting in q.values():
                waiting[:] = [(v, -1) for v, _ in waiting]  # what waited came before all that comes now
        number = 0
        for port, rows in zip(("left", "right"), batch, strict=True):
            for k, v in rows:
                queues.setdefault(k, {"left": [], "right": []})[port].append((v, number))
                number += 1
        for k in sorted({k for rows in batch for k, _ in rows}):
            calls = found.setdefault(k, [])
            while (take := _wanted(queues[k], len(calls))) is not None:
                calls.append(
                    str([[queues[k][p].pop(0)[0] for _ in range(take[p])] for p in ("left", "right")])
                )
    return {k: calls for k, calls in found.items() if calls}


def _wanted(queue, calls):
    if calls < 3:
        take = {"left": calls + 1, "right": 1}
        return take if all(len(queue[p]) >= n for p, n in take.items()) else None
    full = [p for p in queue if len(queue[p]) >= 3]
    first = min(full, key=lambda p: queue[p][2][1], default=None)
    return None if first is None else {p: 3 if p == first else 0 for p in queue}


def seen(rows):
    found = {}
    for row in rows:
        found.setdefault(row["k"], []).append(row["got"])
    return found


@given(some_batches)
def test_an_operator_changes_the_rule_of_a_key_from_its_next_call_on(batches):
    out = Reference(flow(growing)).run_all([tables(b) for b in batches])
    assert seen(out["out"].to_pylist() if out else []) == grown(batches)


def test_a_changed_rule_outlives_a_restart_and_moves_with_its_key(tmp_path):
    batches = [
        ([(k, v) for k in range(6) for v in range(n, n + 3)], [(k, -n) for k in range(6)]) for n in range(9)
    ]
    for number, batch in enumerate(batches):
        run = start_in_process(flow(growing), tmp_path, groups=8)
        run.rescale(replicas={"tell": 1 + number % 3})
        run._next = number
        run.feed(tables(batch))
        run.finish()
    files = sorted((tmp_path / "out" / "out").glob("*.parquet"))
    assert seen([r for f in files for r in pq.read_table(f).to_pylist()]) == grown(batches)


def test_a_table_operator_changes_the_rule_of_keys_from_the_next_batch_on():
    calls = []

    @operator(
        keys="k",
        inputs=["left", "right"],
        need=need_any(left=1, right=9),
        state={"n": int},
        output={"k": int},
    )
    def tell(inputs, state, output):
        calls.append(inputs["left"]["v"].tolist())
        state.need(state.keys.column("k").to_numpy() == 1, need_any(left=3, right=9))

    reference = Reference(flow(tell))
    for v in range(6):
        reference.run(tables(([(1, v), (2, 10 + v)], [])))
    assert calls == [[0, 10], [11], [12], [1, 2, 3, 13], [14], [15]]


def test_a_rule_that_does_not_go_with_the_ports_or_was_never_declared_is_refused():
    def with_rule(first, then):
        @operator(keys="k", inputs=["left", "right"], need=first, grain="key", output={"k": int})
        def change(inputs, state, output):
            state.need(then)

        return Reference(flow(change))

    batch = tables(([(1, 1)], [(1, 1)]))
    with pytest.raises(PenstockError, match="names the port 'middle'"):
        with_rule(need_all(left=1, right=1), need_any(middle=2)).run(batch)
    with pytest.raises(PenstockError, match="without a firing rule cannot change it"):
        with_rule(need_any(), need_any(left=2)).run(batch)
