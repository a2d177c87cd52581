"""Ready operators against loops over all rows, however the rows are cut into batches and laid out on replicas."""

import itertools
import tempfile
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.errors import PenstockError
from penstock.dataflow import Reference, deduplicate, interval_join, sessions, top_n
from penstock.dataflow.graph import Graph
from penstock.dataflow.key_state import KeyState
from penstock.testing.flow_run import start_in_process

SLACK = 4.0
ROW = pa.schema([("k", pa.int64()), ("t", pa.float64()), ("v", pa.int64())])
#: Far past everything, under a key of its own: after two of these all is over.
END = [(99, 80_000.0, 0)]


@st.composite
def disordered(draw, most=40):
    """Rows (key, time, value) at most SLACK seconds out of order, cut into batches."""
    gaps = draw(st.lists(st.integers(0, 6), min_size=1, max_size=most))
    newest, rows = 0, []
    for gap in gaps:
        newest += gap
        late = draw(st.integers(0, int(SLACK)))
        rows.append((draw(st.integers(0, 3)), float(max(0, newest - late)), draw(st.integers(-9, 9))))
    cuts = sorted(draw(st.sets(st.integers(1, max(1, len(rows) - 1)), max_size=6)))
    return [rows[a:b] for a, b in itertools.pairwise([0, *cuts, len(rows)]) if b > a]


def table(rows, schema=ROW):
    return pa.table({f.name: pa.array([r[i] for r in rows], f.type) for i, f in enumerate(schema)})


def flow(op, *sources):
    graph = Graph("ready")
    first, *others = [graph.source(name, ROW) for name in sources or ("rows",)]
    out = first.through(op, *others, name="op")
    out.sink("out")
    if "late" in op.spec.outputs:
        out.port_named("late").sink("late")
    return graph


def run_in_process(graph, batches, replicas, restarts):
    """What the real runtime gives out, by sink, with replicas that come and go and with kills."""
    with tempfile.TemporaryDirectory() as folder:
        run = start_in_process(graph, folder, groups=8)
        for number, batch in enumerate(batches):
            if restarts and number:
                run.abandon()
                run = start_in_process(graph, folder, groups=8)
            run.rescale(replicas={"op": replicas[number % len(replicas)]})
            run._next = number
            run.feed(batch)
        run.finish()
        return {
            sink: [r for f in sorted(Path(folder, "out", sink).glob("*.parquet")) for r in pq.read_table(f).to_pylist()]
            for sink in graph.sinks
        }  # fmt: skip


layouts = st.lists(st.integers(1, 4), min_size=1, max_size=5)


def sessions_of(rows, gap):
    """Sort the rows of each key by time and cut where they are a gap apart."""
    found = []
    for key in {r[0] for r in rows}:
        ordered = sorted((t, n, v) for n, (k, t, v) in enumerate(rows) if k == key)
        group = [ordered[0]]
        for one in ordered[1:]:
            if one[0] - group[-1][0] >= gap:
                found.append((key, group))
                group = []
            group.append(one)
        found.append((key, group))
    return sorted(
        (k, g[0][0], g[-1][0], len(g), sum(v for _, _, v in g), max(v for _, _, v in g), g[0][2], g[-1][2])
        for k, g in found
    )


FIGURES = {
    "sum": ("v", "sum"), "most": ("v", "max"), "first": ("v", "first"), "last": ("v", "last"),
}  # fmt: skip


@settings(max_examples=60)
@given(disordered(), st.sampled_from([1.0, 3.0, 10.0]), layouts, st.booleans())
def test_sessions_are_those_of_the_sorted_rows(batches, gap, replicas, restarts):
    graph = flow(sessions(keys="k", time="t", gap=gap, slack=SLACK, figures=FIGURES))
    fed = [{"rows": table(b)} for b in [*batches, END, END]]
    out = run_in_process(graph, fed, replicas, restarts)
    assert sorted(tuple(r.values()) for r in out["out"]) == sessions_of(list(itertools.chain(*batches)), gap)
    assert out["late"] == []


@given(disordered(), st.integers(0, 3))
def test_a_row_that_is_too_late_for_a_session_goes_to_the_port_late(batches, slack):
    run = Reference(flow(sessions(keys="k", time="t", gap=1.0, slack=float(slack))))
    clock, wanted = None, []
    for batch in batches:
        wanted += [r for r in batch if clock is not None and r[1] + 1.0 <= clock - slack]
        clock = max([*(t for _, t, _ in batch), *([] if clock is None else [clock])])
    out = run.run_all([{"rows": table(b)} for b in [*batches, END, END]])
    late = [tuple(r.values()) for r in out["late"].to_pylist()] if "late" in out else []
    assert sorted(late) == sorted(wanted)
    assert sum(out["out"].column("rows").to_pylist()) + len(late) == sum(map(len, batches))


def summed(kind, values):
    """The sums of the sessions of rows, one after another, and what was put aside."""
    graph = Graph("sums")
    rows = graph.source("rows", pa.schema([("k", pa.string()), ("t", pa.float64()), ("v", kind)]))
    rows.through(sessions(keys="k", time="t", gap=5, figures={"paid": ("v", "sum")}), name="op").sink("out")
    run, found = Reference(graph), []
    for at, value in [*values, (90.0, None), (100.0, None)]:
        exact = Decimal(value) if pa.types.is_decimal(kind) and value is not None else value
        table = pa.table({"k": ["a"], "t": [at], "v": pa.array([exact], kind)})
        found += run.run({"rows": table}).get("out", pa.table({"paid": []})).to_pylist()
    return [row["paid"] for row in found], run.dead


def test_sums_of_decimals_have_ten_digits_more_and_are_exact():
    most = Decimal("999.99")
    assert summed(pa.decimal128(5, 2), [(float(at), most) for at in range(4)]) == ([4 * most], [])
    long = Decimal("1" * 36 + ".25")
    assert summed(pa.decimal128(38, 2), [(0.0, long), (1.0, long)]) == ([Decimal("2" * 36 + ".50")], [])


@pytest.mark.parametrize(
    ("kind", "most"), [(pa.int64(), 2**63 - 1), (pa.uint64(), 2**63 - 1), (pa.decimal128(38, 0), 10**38 - 1)],
    ids=str,
)  # fmt: skip
def test_a_row_with_which_a_sum_would_not_fit_is_put_aside_and_the_flow_goes_on(kind, most):
    rows = [(0.0, most - 1), (1.0, 2), (2.0, 1), (20.0, 5)]
    found, dead = summed(kind, rows)
    assert found == [most, 5]
    assert [operator for operator, _ in dead] == ["op"]
    assert f"the sum 'paid' of its session would be {most + 1}" in dead[0][1]


def test_a_sum_that_an_earlier_version_let_grow_too_large_does_not_hold_up_the_flow():
    by = sessions(keys="k", time="t", gap=5, figures={"paid": ("v", "sum"), "most": ("v", "max")}).by
    given_out = []
    state = KeyState({"open": [[0.0, 1.0, 2, 2**63, 2**63]]})
    type(state).event_time = 50.0
    try:
        by({"k": "a"}, state, SimpleNamespace(emit=given_out.append))
    finally:
        type(state).event_time = None
    assert given_out == [{"k": "a", "start": 0.0, "end": 1.0, "rows": 2, "paid": None, "most": 2**63}]


def test_a_figure_that_a_column_cannot_have_ends_the_run():
    with pytest.raises(PenstockError, match="The column 'v' has no sum"):
        summed(pa.timestamp("us"), [(0.0, datetime(2026, 1, 1)), (1.0, datetime(2026, 1, 1))])


def test_sessions_go_by_timestamps_too():
    noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    graph = Graph("times")
    clicks = graph.source("clicks", pa.schema([("k", pa.string()), ("t", pa.timestamp("us", "UTC"))]))
    clicks.through(sessions(keys=["k"], time="t", gap=60)).sink("out")
    run = Reference(graph)

    def click(key, seconds):
        return {"clicks": pa.table({"k": [key], "t": [noon + timedelta(seconds=seconds)]})}

    for seconds in (0, 59.5, 300):
        assert run.run(click("a", seconds)) == {}
    assert run.run(click("b", 301))["out"].to_pylist() == [
        {"k": "a", "start": noon, "end": noon + timedelta(seconds=59.5), "rows": 2}
    ]


@settings(max_examples=40)
@given(disordered(), st.sampled_from([2.0, 7.0]), layouts, st.booleans())
def test_a_duplicate_is_a_row_soon_after_the_last_one_passed_on(batches, within, replicas, restarts):
    passed, wanted = {}, []
    for k, t, v in list(itertools.chain(*batches)):
        if k not in passed or t > passed[k] + within:
            passed[k] = t
            wanted.append((k, t, v))
    graph = flow(deduplicate(keys="k", time="t", within=within, slack=SLACK))
    out = run_in_process(graph, [{"rows": table(b)} for b in batches], replicas, restarts)
    assert sorted(tuple(r.values()) for r in out["out"]) == sorted(wanted)


@given(disordered())
def test_without_a_time_a_key_passes_once(batches):
    out = Reference(flow(deduplicate(keys=["k", "v"]))).run_all([{"rows": table(b)} for b in batches])
    rows = list(itertools.chain(*batches))
    wanted = [r for n, r in enumerate(rows) if (r[0], r[2]) not in {(k, v) for k, _, v in rows[:n]}]
    assert [tuple(r.values()) for r in out["out"].to_pylist()] == wanted


@settings(max_examples=40)
@given(disordered(), st.integers(1, 4), st.booleans(), layouts, st.booleans())
def test_a_row_that_enters_the_best_of_its_key_is_given_out_with_its_place(
    batches, n, smallest, replicas, restarts
):
    best, wanted = {}, []
    for k, t, v in list(itertools.chain(*batches)):
        have = best.setdefault(k, [])
        place = sum((b <= v) if smallest else (b >= v) for b in have)
        if place < n:
            have.insert(place, v)
            del have[n:]
            wanted.append((k, t, v, place + 1))
    graph = flow(top_n(keys="k", by="v", n=n, smallest=smallest))
    out = run_in_process(graph, [{"rows": table(b)} for b in batches], replicas, restarts)
    found = [tuple(r.values()) for r in out["out"]]
    for key in range(4):
        assert [r for r in found if r[0] == key] == [r for r in wanted if r[0] == key]


@settings(max_examples=60)
@given(
    disordered(), st.tuples(st.integers(-6, 6), st.integers(0, 6)), st.booleans(), layouts, st.booleans(), st.data()
)  # fmt: skip
def test_pairs_are_those_of_a_loop_over_both_streams(batches, interval, outer, replicas, restarts, data):
    lower, upper = interval[0], interval[0] + interval[1]
    sides = [[data.draw(st.booleans()) for _ in batch] for batch in batches]
    left = [r for b, s in zip(batches, sides, strict=True) for r, one in zip(b, s, strict=True) if one]
    right = [r for b, s in zip(batches, sides, strict=True) for r, one in zip(b, s, strict=True) if not one]
    wanted = [
        (k, t, v, u, w)
        for k, t, v in left
        for other, u, w in right
        if k == other and t + lower <= u <= t + upper
    ]
    if outer:
        wanted += [
            (*one, None, None) for one in left if not any(one[0] == r[0] and one[1] + lower <= r[1] <= one[1] + upper for r in right)
        ]  # fmt: skip
    graph = flow(interval_join(keys="k", time="t", lower=lower, upper=upper, slack=SLACK, outer=outer), "left", "right")  # fmt: skip
    fed = [
        {
            "left": table([r for r, one in zip(b, s, strict=True) if one]),
            "right": table([r for r, one in zip(b, s, strict=True) if not one]),
        }
        for b, s in zip(batches, sides, strict=True)
    ]
    # The end comes on the right, so that it is not a left row without a partner.
    out = run_in_process(graph, [*fed, {"right": table(END)}, {"right": table(END)}], replicas, restarts)
    key = lambda row: tuple((x is None, x or 0) for x in row)  # noqa: E731 - nulls sort last
    assert sorted([tuple(r.values()) for r in out["out"]], key=key) == sorted(wanted, key=key)


def test_rows_that_no_partner_can_come_for_are_forgotten():
    run = Reference(flow(interval_join(keys="k", time="t", lower=0, upper=5), "left", "right"))
    for at in range(50):
        run.run({"left": table([(at, float(at), 0)])})
    run.run({})
    assert run.layers["op"][0].num_rows <= 8


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: sessions(keys="k", time="t", gap=0), "gap=0 is not a positive number of seconds"),
        (lambda: sessions(keys="k", time="t", gap=1, figures={"x": ("v", "mean")}), "Unknown way to make the figure 'x'"),
        (lambda: sessions(keys="k", time="t", gap=1, figures={"rows": ("v", "sum")}), "another name"),
        (lambda: sessions(keys="k", time="t", gap=1, figures={"x": ("w", "sum")}), "Unknown column 'w'"),
        (lambda: deduplicate(keys="k", within=3), "go together"),
        (lambda: top_n(keys="k", by="v", n=0), "not 0"),
        (lambda: top_n(keys="k", by="w", n=1), "Unknown column 'w'"),
        (lambda: top_n(keys="k", by="v", n=1, rank="t"), "name the place otherwise"),
        (lambda: interval_join(keys="k", time="t", lower=2, upper=1), "lower <= upper"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_in_one_sentence(make, sentence):
    with pytest.raises(PenstockError, match=sentence):
        flow(make()).check()
