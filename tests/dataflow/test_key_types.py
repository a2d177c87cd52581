"""Keys of two ports that have different types: made one type where that is exact, refused otherwise."""

from datetime import UTC, date, datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.errors import PenstockError
from penstock.dataflow.firing import need_all
from penstock.dataflow.graph import Graph
from penstock.dataflow.keys import common_type
from penstock.dataflow.operators import operator
from penstock.dataflow.reference import Reference
from penstock.testing.flow_run import start_in_process

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


@operator(
    keys="k",
    inputs=["left", "right"],
    need=need_all(left=1, right=1),
    grain="key",
    output={"a": int, "b": int},
)
def pair(inputs, state, output):
    output.emit({"a": inputs["left"][0]["v"], "b": inputs["right"][0]["v"]})


def joined(left, right):
    graph = Graph("join")
    a = graph.source("left", {"k": left, "v": int})
    b = graph.source("right", {"k": right, "v": int})
    a.through(pair, b, name="pair").sink("pairs")
    return graph


def rows(values, kind, numbers):
    return pa.table({"k": pa.array(values, kind), "v": pa.array(numbers, pa.int64())})


@pytest.mark.parametrize(
    ("left", "right", "value", "other"),
    [
        (pa.int32(), pa.int64(), 7, 7),
        (pa.uint32(), pa.int16(), 7, 7),
        (pa.int32(), pa.float64(), 7, 7.0),
        (pa.float32(), pa.float64(), 0.5, 0.5),
        (pa.int16(), pa.float32(), 7, 7.0),
        (pa.string(), pa.large_string(), "x", "x"),
        (pa.date32(), pa.date64(), date(2026, 1, 1), date(2026, 1, 1)),
        (pa.timestamp("ms", "UTC"), pa.timestamp("us", "UTC"), NOON, NOON),
        (pa.timestamp("us", "UTC"), pa.timestamp("us", "Europe/Berlin"), NOON, NOON),
        (pa.decimal128(5, 2), pa.decimal128(9, 4), Decimal("1.50"), Decimal("1.5000")),
        (pa.int64(), pa.decimal128(9, 4), 3, Decimal("3.0000")),
    ],
)
def test_keys_whose_types_can_be_made_one_exactly_meet(left, right, value, other, tmp_path):
    batch = {"left": rows([value], left, [1]), "right": rows([other], right, [2])}
    for one, two in ((left, right), (right, left)):
        graph = joined(one, two)
        given_ = batch if one == left else {"left": batch["right"], "right": batch["left"]}
        out = Reference(graph).run(given_)["pairs"].to_pylist()
        assert [set(row.values()) for row in out] == [{1, 2}]
    run = start_in_process(joined(left, right), tmp_path, groups=8)
    run.rescale(replicas={"pair": 4})
    run.feed({"left": batch["left"]})
    run.feed({"right": batch["right"]})
    assert run.totals.results == 1


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (pa.int64(), pa.float64()),
        (pa.int64(), pa.string()),
        (pa.uint64(), pa.int64()),
        (pa.date32(), pa.timestamp("us", "UTC")),
        (pa.timestamp("us"), pa.timestamp("us", "UTC")),
        (pa.bool_(), pa.int64()),
        (pa.string(), pa.binary()),
    ],
)
def test_keys_that_would_never_be_equal_are_refused_when_the_flow_is_checked(left, right):
    with pytest.raises(
        PenstockError, match=r"The key column 'k' of operator 'pair' is .* on port 'left' and"
    ):
        joined(left, right).check()


@given(
    st.lists(st.integers(-4, 4), max_size=20),
    st.lists(st.integers(-4, 4), max_size=20),
    st.sampled_from([pa.int8(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.decimal128(12, 3)]),
    st.sampled_from([pa.int16(), pa.int32(), pa.float64(), pa.decimal128(9, 1)]),
)
def test_a_join_over_any_two_types_pairs_what_a_loop_pairs_or_is_refused(left, right, one, two):
    graph = joined(one, two)
    if common_type([one, two]) is None:
        with pytest.raises(PenstockError, match="cast it to one type"):
            graph.check()
        return
    a = rows([_as(v, one) for v in left], one, range(len(left)))
    b = rows([_as(v, two) for v in right], two, range(len(right)))
    out = Reference(graph).run({"left": a, "right": b}).get("pairs", pa.table({"a": [], "b": []})).to_pylist()
    expected = []
    for key in set(left) & set(right):
        ours, theirs = np.flatnonzero(np.array(left) == key), np.flatnonzero(np.array(right) == key)
        expected += list(zip(ours.tolist(), theirs.tolist(), strict=False))
    assert sorted((r["a"], r["b"]) for r in out) == sorted(expected)


def _as(value, kind):
    return Decimal(value) if pa.types.is_decimal(kind) else value


def test_an_operator_that_gives_a_key_another_type_ends_the_region(tmp_path):
    @operator(output={"k": float, "v": int})
    def widen(rows, output):
        output.emit({"k": rows["k"].astype(float), "v": rows.column("v")})

    @operator(keys="k", state={"n": int}, output={"k": int, "v": int})
    def number(rows, state, output):
        output.emit({"k": rows.column("k"), "v": rows.column("v")})

    @operator(keys="k", state={"n": int}, output={"k": float, "v": int})
    def again(rows, state, output):
        output.emit({"k": rows.column("k"), "v": rows.column("v")})

    graph = Graph("types")
    source = graph.source("rows", {"k": int, "v": int})
    source.through(number, name="number").through(widen, name="widen").through(again, name="again").sink(
        "out"
    )
    run = start_in_process(graph, tmp_path, groups=8)
    run.rescale(replicas={"number": 3, "again": 3})
    run.feed({"rows": pa.table({"k": list(range(20)), "v": list(range(20))})})
    assert run.totals.results == 20
