"""Window queries, batch by batch in this process, against a loop over all rows of each window."""

import json
import math
import tempfile
from dataclasses import dataclass
from pathlib import Path

import datasketches
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.aggregates import Aggregate, count, distinct_of, max_of, mean_of, min_of, quantile_of, sum_of
from penstock.core.errors import PenstockError
from penstock.disorder.stats import BatchStats, partition_stats
from penstock.spark.query.outputs import QueryOutputs
from penstock.spark.query.window_program import WindowProgram
from penstock.spark.runtime.engine import BatchRows, JobsEngine
from penstock.spark.runtime.folders import OutputFolder
from penstock.spark.runtime.program import Batch
from penstock.testing.frames import InProcessFrame, InProcessSession

SCHEMA = pa.schema(
    [("t", pa.timestamp("us", "UTC")), ("v", pa.int64()), ("x", pa.float64()), ("g", pa.string())]
)


class Product(Aggregate):
    """One of a user's own: the product of one plus the values modulo 7, and how many there were."""

    partials = {"product": pa.int64(), "seen": pa.int64()}  # noqa: RUF012 - as a user writes it

    def result_type(self, column):
        return pa.int64()

    def lift(self, values):
        return {"product": (values % 3 + 1).astype(np.int64), "seen": np.ones(len(values), dtype=np.int64)}

    def combine(self, left, right):
        return {"product": left["product"] * right["product"] % 1009, "seen": left["seen"] + right["seen"]}

    def lower(self, partials, rows):
        assert (partials["seen"] == rows)[rows > 0].all()
        return partials["product"] % 1009


AGGREGATES = {
    "n": count(), "known": count("v"), "total": sum_of("v"), "mean": mean_of("x"), "low": min_of("v"), "high": max_of("x"),
    "newest": max_of("t"), "median": quantile_of("v", 0.5), "kinds": distinct_of("v"), "own": Product("v"),
}  # fmt: skip


@dataclass(frozen=True)
class Row:
    time: int
    v: int | None
    x: float | None
    g: str | None


def answer(rows):
    """The aggregates of some rows, by definition."""
    known = [r.v for r in rows if r.v is not None]
    product = 1
    for v in known:
        product = product * (v % 3 + 1) % 1009
    return {
        "n": len(rows),
        "known": len(known),
        "total": sum(known) if known else None,
        "mean": sum(r.x for r in rows) / len(rows),
        "low": min(known, default=None),
        "high": max(r.x for r in rows),
        "newest": max(r.time for r in rows),
        "median": sorted(known)[math.ceil(len(known) / 2) - 1] if known else None,
        "kinds": len(set(known)) if known else None,
        "own": product if known else None,
    }


def record_batch(rows):
    return pa.record_batch(
        [
            pa.array([r.time for r in rows], pa.int64()).cast(pa.timestamp("us", "UTC")),
            pa.array([r.v for r in rows], pa.int64()),
            pa.array([r.x for r in rows], pa.float64()),
            pa.array([r.g for r in rows], pa.string()),
        ],
        schema=SCHEMA,
    )


row = st.builds(
    Row,
    time=st.integers(0, 60),
    v=st.none() | st.integers(-9, 9),
    x=st.integers(-8, 8).map(lambda n: n / 4),
    g=st.sampled_from(["a", "b", "c", None]),
)
streams = st.lists(st.lists(row, max_size=14), min_size=1, max_size=7)
disorders = st.sampled_from(
    [ps.KSlack(), ps.FixedDelay("5 us"), ps.AdaptiveSlack(drop=0.2), ps.InOrder(ps.KSlack())]
)


@st.composite
def queries(draw):
    window = draw(st.integers(1, 12))
    chosen = draw(st.sets(st.sampled_from(sorted(AGGREGATES)), min_size=1))
    return ps.WindowQuery(
        {name: AGGREGATES[name] for name in sorted(chosen)},
        time="t",
        window=f"{window} us",
        slide=f"{draw(st.integers(1, window))} us",
        by=draw(st.sampled_from([(), ("g",), ("g", "v")])),
        disorder=draw(disorders),
        splitting=draw(st.sampled_from(["PB_RR", "TB_RR", "AS", "AS_PID"])),
        pane_workers=2,
        window_workers=2,
    )


def run(query, stream, scales, folder):
    """All rows given out, batch by batch; the state goes through JSON between batches, as in a restart."""
    (folder / "state").mkdir(parents=True, exist_ok=True)
    outputs = QueryOutputs(
        OutputFolder.made(folder, "output"), OutputFolder.made(folder / "dead", "dead-letter")
    )
    program = WindowProgram(query, SCHEMA, outputs, 1.0)
    query.check(SCHEMA)
    state, results = program.first_state(), []
    for number, rows in enumerate(stream):
        half = len(rows) // 2
        parts = [[record_batch(rows[:half])], [record_batch(rows[half:])]]
        session = InProcessSession()
        batch = Batch(
            number, BatchRows(frame=InProcessFrame(parts)), JobsEngine(session), session, state,
            str(folder / "state"), f"{number}", 0.0,
        )  # fmt: skip
        program.target = scales[number % len(scales)]
        outcome = program.run_batch(batch)
        state = json.loads(json.dumps(outcome.state))
        kept = set(outcome.files)  # what no version names may be gone
        for path in (folder / "state").iterdir():
            if path.name not in kept:
                path.unlink()
        results += [r for o in outcome.outputs for r in pq.read_table(folder / o.staged).to_pylist()]
    return results


def expected(query, stream):
    """Windows that are complete, over the rows that were not late."""
    model, disorder = query.panes, query.disorder
    state, on_time = disorder.start(), []
    for rows in stream:
        half = len(rows) // 2
        usable = [r for r in rows if state.punctuation is None or r.time >= state.punctuation]
        stats = BatchStats()
        for part in (rows[:half], rows[half:]):
            times = np.array([r.time for r in part], dtype=np.int64)
            if len(times):
                stats = stats.merge(partition_stats(times, seen=state.t_max, punctuation=state.punctuation))
        on_time += usable
        state = disorder.step(state, stats)
    found = []
    if state.punctuation is None:
        return found
    for number in range(-20, 80):
        (start,), (end,) = (b.tolist() for b in model.window_bounds([number]))
        if end > state.punctuation:
            continue
        groups = {}
        for r in on_time:
            if start <= r.time < end:
                groups.setdefault(tuple(getattr(r, name) for name in query.groups), []).append(r)
        found += [(start, end, key, answer(rows)) for key, rows in groups.items()]
    return found


def micros(value):
    return None if value is None else round(value.timestamp() * 1e6)


@settings(max_examples=150)
@given(queries(), streams, st.lists(st.tuples(st.integers(1, 4), st.integers(1, 4)), min_size=1, max_size=5))
def test_every_window_has_the_aggregates_of_its_rows_whatever_the_workers(query, stream, scales):
    with tempfile.TemporaryDirectory() as folder:
        rows = run(query, stream, scales, Path(folder))
    wanted = {(a, key): (b, figures) for a, b, key, figures in expected(query, stream)}
    assert len(rows) == len(wanted)
    for given_out in rows:
        key = (micros(given_out["window_start"]), tuple(given_out[name] for name in query.groups))
        end, figures = wanted.pop(key)
        assert micros(given_out["window_end"]) == end
        for name in query.aggregates:
            value = micros(given_out[name]) if name == "newest" else given_out[name]
            assert value == pytest.approx(figures[name]), name


def test_a_pane_is_combined_about_three_times_however_many_windows_overlap(tmp_path, monkeypatch):
    from penstock.spark.query.grouped_aggregates import GroupedAggregates

    combined = []
    whole = GroupedAggregates.merge
    monkeypatch.setattr(
        GroupedAggregates, "merge", lambda self, a, b: (combined.append(1), whole(self, a, b))[1]
    )
    query = ps.WindowQuery(
        {"n": count()}, time="t", window="50 us", slide="1 us", disorder=ps.FixedDelay("1 us"), window_workers=1
    )  # fmt: skip
    stream = [[Row(at, 1, 0.0, "a")] for at in range(300)]
    rows = run(query, stream, [(1, 1)], tmp_path)
    assert [r["n"] for r in rows][60:] == [50] * len(rows[60:])
    assert len(rows) > 290
    assert len(combined) < 3 * 300


def test_sketches_are_right_within_their_errors(tmp_path):
    rng = np.random.default_rng(7)
    rows = [Row(int(t), int(v), 0.0, "a") for t, v in zip(np.sort(rng.integers(0, 60, 30_000)), rng.integers(0, 20_000, 30_000), strict=True)]  # fmt: skip
    query = ps.WindowQuery(
        {"kinds": distinct_of("v"), "q": quantile_of("v", 0.9)}, time="t", window="60 us", slide="20 us",
        disorder=ps.FixedDelay("1 us"),
    )  # fmt: skip
    out = run(
        query,
        [rows[i : i + 3000] for i in range(0, 30_000, 3000)] + [[Row(62, 0, 0.0, "a")]],
        [(2, 1)],
        tmp_path,
    )
    (whole,) = [r for r in out if micros(r["window_start"]) == 0]
    kinds = len({r.v for r in rows})
    assert abs(whole["kinds"] - kinds) < 0.06 * kinds
    rank = np.mean([r.v <= whole["q"] for r in rows])
    assert abs(rank - 0.9) < 0.03


class Letters(Aggregate):
    """One of a user's own over texts, which cannot do with anything else: how many letters, and the largest text."""

    partials = {"letters": pa.int64(), "largest": pa.binary()}  # noqa: RUF012 - as a user writes it

    def result_type(self, column):
        return pa.int64()

    def lift(self, values):
        letters = np.array([len(value) for value in values])
        return {"letters": letters, "largest": np.array([value.encode() for value in values], dtype=object)}

    def combine(self, left, right):
        larger = np.where(left["largest"] > right["largest"], left["largest"], right["largest"])
        return {"letters": left["letters"] + right["letters"], "largest": larger}

    def lower(self, partials, rows):
        return partials["letters"]


def windows_of(query, stream, folder):
    """The figures of the first window, however the rows were cut."""
    later = [[Row(100, 0, 0.0, "z")]]
    batched = [
        r for r in run(query, stream + later, [(2, 2), (1, 1)], folder) if micros(r["window_start"]) == 0
    ]
    table = pa.Table.from_batches([record_batch([r for rows in stream for r in rows])])
    static = [r for r in query.evaluate(table).to_pylist() if micros(r["window_start"]) == 0]
    return batched, static


def over_texts(aggregate, **more):
    return ps.WindowQuery(
        {"n": aggregate}, time="t", window="30 us", slide="10 us", disorder=ps.FixedDelay("60 us"),
        pane_workers=2, window_workers=2, **more,
    )  # fmt: skip


def test_an_aggregate_of_ones_own_gets_a_column_of_texts_without_nulls(tmp_path):
    stream = [
        [Row(at, at, 0.0, g) for at, g in enumerate(part)]
        for part in (["a", None, "bcd", None], [None, None], ["efgh", None, "i"])
    ]
    for found in windows_of(over_texts(Letters("g")), stream, tmp_path):
        assert [r["n"] for r in found] == [9]
    only_nulls = [[Row(at, at, 0.0, None) for at in range(3)]]
    for found in windows_of(over_texts(Letters("g"), by="v"), only_nulls, tmp_path / "nulls"):
        assert [r["n"] for r in found] == [None] * 3


def test_the_smallest_of_numbers_that_are_none_and_nulls_is_no_number(tmp_path):
    nan = math.nan
    for cut in (1, 2, 4):
        values = [nan, None, None, nan]
        stream = [
            [Row(7 * at, 0, x, "a") for at, x in enumerate(values[i : i + cut], start=i)]
            for i in range(0, len(values), cut)
        ]
        for found in windows_of(over_texts(min_of("x")), stream, tmp_path / str(cut)):
            assert [math.isnan(r["n"]) for r in found] == [True]
        stream[-1].append(Row(8, 0, 3.0, "a"))
        for found in windows_of(over_texts(min_of("x")), stream, tmp_path / f"{cut} and a number"):
            assert [r["n"] for r in found] == [3.0]


def test_the_empty_text_counts_among_the_different_ones(tmp_path):
    stream = [
        [Row(at, 0, 0.0, g) for at, g in enumerate(["", "a", None, ""])],
        [Row(5, 0, 0.0, ""), Row(6, 0, 0.0, "b")],
    ]
    for found in windows_of(over_texts(distinct_of("g")), stream, tmp_path):
        assert [r["n"] for r in found] == [3]
    for found in windows_of(over_texts(distinct_of("g")), [[Row(1, 0, 0.0, "")]], tmp_path / "only"):
        assert [r["n"] for r in found] == [1]


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary(), pa.binary(1)], ids=str)
def test_bytes_that_are_no_text_are_told_apart(kind):
    values = [
        b"a",
        b"\xff",
        b"\xfe",
        b"\xff",
        None,
        *([] if kind == pa.binary(1) else [b"", b"\xff" * 8, b"\xc3\xa4"]),
    ]
    table = pa.table({"t": pa.array(range(len(values)), pa.timestamp("us")), "b": pa.array(values, kind)})
    query = ps.WindowQuery({"n": distinct_of("b")}, time="t", window="100 us")
    assert query.evaluate(table)["n"].to_pylist() == [3 if kind == pa.binary(1) else 6]


def test_sketches_of_texts_that_earlier_versions_wrote_are_merged():
    before = datasketches.hll_sketch(12, datasketches.tgt_hll_type.HLL_8)
    for text in ("a", "b", "ä"):
        before.update(text)
    for column in (pa.array(["a", "", "ä"]), pa.array([b"a", b"", "ä".encode()])):
        one = distinct_of("g")
        values = one.values(column)
        ones = np.ones(len(values), dtype=np.int64)
        new = one.lifted(values, ones, np.array([0]))["sketch"]
        both = one.combine({"sketch": [before.serialize_compact()]}, {"sketch": new})
        assert one.lower(both, ones[:1]) == [4]


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: ps.WindowQuery({}, time="t", window="1 s"), "needs aggregates by name"),
        (lambda: ps.WindowQuery({"n": 3}, time="t", window="1 s"), "The aggregate 'n' is 3"),
        (lambda: ps.WindowQuery({"n": sum_of("w")}, time="t", window="1 s"), "Unknown column of the aggregate 'n' 'w'"),
        (lambda: ps.WindowQuery({"n": sum_of("g")}, time="t", window="1 s"), "a column of type string has no sum"),
        (lambda: ps.WindowQuery({"g": count()}, time="t", window="1 s", by="g"), "cannot be called 'g'"),
        (lambda: ps.WindowQuery({"n": count()}, time="t", window="1 s", by="h"), "Unknown group column 'h'"),
        (lambda: ps.WindowQuery({"n": count()}, time="t", window="1 s", pane_workers=0), "at least one worker"),
        (lambda: ps.WindowQuery({"n": quantile_of("v", 2)}, time="t", window="1 s"), "share from 0 to 1"),
    ],
)  # fmt: skip
def test_what_cannot_be_asked_is_refused_in_one_sentence(make, sentence):
    with pytest.raises(PenstockError, match=sentence):
        make().check(SCHEMA)


def by_window(query, rows):
    """The aggregates of every window and group that has rows, by definition."""
    found = {}
    for number in range(-20, 80):
        (start,), (end,) = (b.tolist() for b in query.panes.window_bounds([number]))
        for r in rows:
            if start <= r.time < end:
                key = tuple(getattr(r, name) for name in query.groups)
                found.setdefault((start, end, key), []).append(r)
    return {key: answer(inside) for key, inside in found.items()}


@settings(max_examples=60)
@given(queries(), st.lists(row, max_size=40))
def test_the_windows_of_a_table_are_those_of_brute_force_in_the_same_kind(query, rows):
    table = pa.Table.from_batches([record_batch(rows)])
    wanted = by_window(query, rows)
    answered = query.evaluate(table)
    assert answered.num_rows == len(wanted)
    for r in answered.to_pylist():
        key = (micros(r["window_start"]), micros(r["window_end"]), tuple(r[name] for name in query.groups))
        for name in query.aggregates:
            value = micros(r[name]) if name == "newest" else r[name]
            assert value == pytest.approx(wanted[key][name]), name
    if any(r.g for r in rows) and any(r.v for r in rows):  # pandas knows no type of a column without a value
        frame = query.evaluate(table.to_pandas())
        assert isinstance(frame, pd.DataFrame)
        assert len(frame) == len(wanted)


@pytest.mark.spark
def test_a_partition_whose_times_are_all_null_is_left_out(spark):
    frame = spark.createDataFrame([(None, 1.0)], "t double, x double")
    frame = frame.union(spark.createDataFrame([(1.0, 2.0)], "t double, x double"))
    query = ps.WindowQuery({"n": count(), "half": quantile_of("x", 0.5)}, time="t", window="2 seconds")
    assert [(r.n, r.half) for r in query.evaluate(frame).collect()] == [(1, 2.0)]


@pytest.mark.spark
@pytest.mark.parametrize(("engine", "wide"), [("jobs", "false"), ("resident", "false"), ("jobs", "true")])
def test_a_window_query_on_spark_goes_on_from_its_checkpoint(spark, tmp_path, request, engine, wide):
    offsets = "spark.sql.execution.arrow.useLargeVarTypes"
    spark.conf.set(offsets, wide)
    request.addfinalizer(lambda: spark.conf.unset(offsets))
    rng = np.random.default_rng(3)
    times = np.sort(rng.integers(0, 4000, 2400))
    rows = [Row(int(t) * 1000, int(v), float(v), g) for t, v, g in zip(times, rng.integers(0, 50, 2400), rng.choice(["a", "b"], 2400), strict=True)]  # fmt: skip
    (tmp_path / "in").mkdir()
    query = ps.WindowQuery(
        {name: AGGREGATES[name] for name in ("n", "total", "low", "kinds", "own")},
        time="t", window="1 second", slide="100 milliseconds", by="g", disorder=ps.FixedDelay("1 us"),
        pane_workers=2, window_workers=2,
    )  # fmt: skip
    for start in range(2):
        for number in range(2):
            at = (2 * start + number) * 600
            some = pa.Table.from_batches([record_batch(rows[at : at + 600])])
            pq.write_table(some, tmp_path / "in" / f"{start}{number}.parquet")
        frame = spark.readStream.schema("t timestamp, v long, x double, g string").parquet(
            str(tmp_path / "in")
        )
        run = query.start(
            frame, output=tmp_path / "out", checkpoint=tmp_path / "ck", available_now=True, engine=engine
        )
        run.await_termination()
    found = [r for f in (tmp_path / "out").glob("*.parquet") for r in pq.read_table(f).to_pylist()]
    wanted = {}
    last = max(r.time for r in rows)
    for number in range(-10, 50):
        start = number * 100_000
        for g in "ab":
            inside = [r for r in rows if start <= r.time < start + 1_000_000 and r.g == g]
            if inside and start + 1_000_000 < last:
                wanted[start, g] = answer(inside)
    assert len(found) == len(wanted)
    for r in found:
        figures = wanted.pop((micros(r["window_start"]), r["g"]))
        assert all(r[name] == figures[name] for name in query.aggregates)
    if engine == "jobs":
        frame = spark.read.schema("t timestamp, v long, x double, g string").parquet(str(tmp_path / "in"))
        static = query.evaluate(frame).toArrow().to_pylist()
        whole = {}
        for start in range(-1_000_000, 4_000_000, 100_000):
            for r in rows:
                if start <= r.time < start + 1_000_000:
                    whole.setdefault((start, r.g), []).append(r)
        assert {(micros(r["window_start"]), r["g"]): r["own"] for r in static} == {
            key: answer(inside)["own"] for key, inside in whole.items()
        }
