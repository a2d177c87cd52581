"""Grain "key": nothing is lost without a word; what does not fit is told with operator, column and value."""

from datetime import date, datetime

import numpy as np
import pyarrow as pa
import pytest

from penstock.core.errors import PenstockError
from penstock.dataflow.graph import Graph
from penstock.dataflow.operators import operator
from penstock.dataflow.reference import Reference


def run(op, values=(1,), **given):
    graph = Graph("strict")
    graph.source("rows", {"k": str, "v": int}).through(op, name="op", **given).sink("out")
    reference = Reference(graph)
    rows = pa.table({"k": ["a"] * len(values), "v": list(values)})
    return reference.run({"rows": rows}).get("out", pa.table({})).to_pylist(), reference


def giving(row, **declared):
    """Operators of grain "key", stateless and keyed, that give out one row."""

    def with_state(rows, state, output):
        output.emit(row)

    def without(rows, output):
        output.emit(row)

    return [
        operator(keys="k", grain="key", **declared)(with_state),
        operator(keys="k", grain="key", state={"n": int}, **declared)(with_state),
        operator(grain="key", **declared)(without),
    ]


@pytest.mark.parametrize(
    ("kind", "value", "shown"),
    [
        (int, 1.9, "1.9"),
        (int, np.float64(1.9), "1.9"),
        (int, "7", "'7'"),
        (int, 2**63, "9223372036854775808"),
        ("int8", 300, "300"),
        (int, float("nan"), "nan"),
        (float, "x", "'x'"),
        (str, 5, "5"),
        (bool, 1, "1"),
        ("date32", datetime(2026, 1, 1, 12), "datetime.datetime"),
        (pa.timestamp("s"), datetime(2026, 1, 1, 12, 0, 0, 5), "datetime.datetime"),
        (pa.timestamp("us"), 1.5, "1.5"),
    ],
)
def test_a_value_that_does_not_fit_its_column_is_named(kind, value, shown):
    for op in giving({"k": "a", "n": value}, output={"k": str, "n": kind}):
        with pytest.raises(
            PenstockError, match=r"Operator 'op' gave out .* for the column 'n' of port 'out'"
        ) as told:
            run(op)
        assert shown in str(told.value)


@pytest.mark.parametrize(
    ("kind", "value", "kept"),
    [(int, 2.0, 2), (int, np.int32(3), 3), (float, 4, 4.0), (int, None, None), ("date32", date(2026, 1, 1), date(2026, 1, 1))],
)  # fmt: skip
def test_a_value_that_fits_exactly_is_taken(kind, value, kept):
    for op in giving({"k": "a", "n": value}, output={"k": str, "n": kind}):
        assert run(op)[0] == [{"k": "a", "n": kept}]


def test_a_misspelt_output_column_is_named_and_not_null():
    for op in giving({"k": "a", "m": 1}, output={"k": str, "n": int}):
        with pytest.raises(
            PenstockError, match=r"'op' gave out a row without the column 'n' of port 'out': .*'m': 1"
        ):
            run(op)


def test_the_list_of_a_table_is_as_strict_as_a_row():
    @operator(output={"n": int})
    def listed(rows, output):
        output.emit({"n": [1.9] * len(rows)})

    with pytest.raises(
        PenstockError, match=r"gave out 1\.9 for the column 'n' of port 'out', which is int64"
    ):
        run(listed)


def keeping(change, **declared):
    @operator(keys="k", grain="key", output={"k": str, "n": int}, **declared)
    def keep(rows, state, output):
        change(state)
        output.emit({"k": rows[0]["k"], "n": 1})

    return keep


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda s: s.update(m=5), "put 5 into 'm', which its state does not have; it has n, t"),
        (lambda s: s.update(n=1.9), "put 1.9 into its state column 'n', which is int64"),
        (lambda s: s.update(n="x"), "put 'x' into its state column 'n'"),
        (lambda s: s.update(n=2**63), "put 9223372036854775808 into its state column 'n'"),
        (lambda s: s.update(t=5), "The state column 't' does not hold string any more"),
        (lambda s: s.pop("t"), "took 't' out of its state"),
    ],
)
def test_a_state_that_was_not_declared_so_is_named(change, sentence):
    with pytest.raises(PenstockError, match=f"Operator 'op'.*{sentence}"):
        run(keeping(change, state={"n": int, "t": str}))


def test_a_cleared_state_forgets_the_key_with_declared_columns_too():
    @operator(keys="k", grain="key", state={"n": int}, output={"k": str, "n": int})
    def up_to_two(rows, state, output):
        for row in rows:
            state["n"] += 1
            output.emit({"k": row["k"], "n": state["n"]})
        if state["n"] >= 2:
            state.clear()

    graph = Graph("clear")
    graph.source("rows", {"k": str}).through(up_to_two).sink("out")
    out = Reference(graph).run_all([{"rows": pa.table({"k": ["a"]})}] * 3)["out"].to_pylist()
    assert [r["n"] for r in out] == [1, 2, 1]


def test_fractions_for_a_state_of_whole_numbers_are_refused_in_grain_table():
    @operator(keys="k", state={"n": int}, output={"k": str})
    def halves(rows, state, output):
        state["n"] = np.full(len(state), 0.5)

    with pytest.raises(PenstockError, match="The state column 'n' holds whole numbers"):
        run(halves)


@pytest.mark.parametrize("grain", ["key", "table"])
@pytest.mark.parametrize("cut", [1, 3])
def test_a_state_of_nothing_in_another_column_stays_nothing_however_batches_are_cut(grain, cut):
    declared = {
        "keys": "k",
        "state": {"t": (str, "new"), "l": (pa.list_(pa.int64()), [7])},
        "output": {"k": str, "was": str},
    }

    @operator(grain="key", **declared)
    def by_key(rows, state, output):
        for row in rows:
            output.emit({"k": row["k"], "was": f"{state['t']} {state['l']}"})
            state["t"] = state["l"] = None

    @operator(**declared)
    def by_table(rows, state, output):
        was = []
        for slot in rows.slots:
            was.append(f"{state['t'][slot]} {state['l'][slot]}")
            state["t"][slot] = state["l"][slot] = None
        output.emit({"k": rows.column("k"), "was": was})

    graph = Graph("nothing")
    graph.source("rows", {"k": str}).through({"key": by_key, "table": by_table}[grain]).sink("out")
    rows = pa.table({"k": ["a"] * 3})
    out = Reference(graph).run_all([{"rows": rows.slice(at, cut)} for at in range(0, 3, cut)])["out"]
    assert out["was"].to_pylist() == ["new [7]", "None None", "None None"]


def test_a_state_of_nothing_in_a_column_of_numbers_is_named():
    @operator(keys="k", grain="key", state={"n": int}, output={"k": int})
    def forgetful(rows, state, output):
        state["n"] = None

    graph = Graph("bad")
    graph.source("rows", {"k": int}).through(forgetful, name="op").sink("out")
    with pytest.raises(PenstockError, match="Operator 'op' put None into its state column 'n'"):
        Reference(graph).run({"rows": pa.table({"k": [1]})})
