"""PreferenceQuery on a real Spark session."""

import json
import os
import threading
from datetime import timedelta
from pathlib import Path
from urllib.request import urlopen

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock as ps
from penstock.core.errors import PenstockError
from penstock.core.journal import MemoryJournal, read
from penstock.preference import skyline

pytestmark = pytest.mark.spark

SECOND = 1_000_000
ENGINES = pytest.mark.parametrize("engine", ["jobs", "resident"])


def stream_files(folder: Path, files: int = 3, rows: int = 400, seed: int = 7) -> pa.Table:
    """Files of a stream: out of order by up to 300 ms, with ties, two regions."""
    rng = np.random.default_rng(seed)
    folder.mkdir(parents=True)
    tables = []
    for number in range(files):
        times = number * SECOND + np.sort(rng.integers(0, SECOND, rows)) + rng.integers(0, 300_000, rows)
        tables.append(
            pa.table(
                {
                    "event_time": pa.array(times, pa.timestamp("us", "UTC")),
                    "price": rng.integers(1, 50, rows).astype(float),
                    "rating": rng.integers(1, 50, rows),
                    "region": rng.choice(["north", "south"], rows),
                    "offer": np.arange(number * rows, (number + 1) * rows),
                }
            )
        )
        path = folder / f"{number:03d}.parquet"
        pq.write_table(tables[-1], path)
        os.utime(path, (number, number))  # Spark takes files by their age
    return pa.concat_tables(tables)


def as_stream(spark, folder: Path):
    schema = spark.read.parquet(str(folder)).schema
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder))


def offers(**options) -> ps.PreferenceQuery:
    given = {"time": "event_time", "window": "1 second", "slide": "200 milliseconds"} | options
    return ps.PreferenceQuery(ps.skyline_of(ps.minimize("price"), ps.maximize("rating")), **given)


def windows_of(table: pa.Table, by: str | None = None) -> dict[tuple[int, str], set[int]]:
    answers: dict[tuple[int, str], set[int]] = {}
    starts = table["window_start"].cast(pa.int64()).to_pylist()
    groups = table[by].to_pylist() if by else [""] * len(starts)
    for start, group, offer in zip(starts, groups, table["offer"].to_pylist(), strict=True):
        answers.setdefault((start, group), set()).add(offer)
    return answers


def brute_force(
    table: pa.Table, by: str | None = None, upto: int | None = None
) -> dict[tuple[int, str], set[int]]:
    times = table["event_time"].cast(pa.int64()).to_numpy()
    points = np.column_stack([table["price"].to_numpy(), -table["rating"].to_numpy()])
    group = np.array(table[by].to_pylist() if by else [""] * len(times))
    answers = {}
    for start in range(-SECOND, int(times.max()) + 1, 200_000):
        if upto is not None and start + SECOND > upto:
            continue
        for name in np.unique(group):
            rows = np.flatnonzero((times >= start) & (times < start + SECOND) & (group == name))
            if len(rows):
                answers[(start, str(name))] = set(rows[skyline(points[rows])].tolist())
    return answers


def punctuation_of(run) -> int:
    manifests = sorted(Path(run.journal).parent.glob("penstock/commits/*.json"))
    return json.loads(manifests[-1].read_text())["state"]["disorder"]["punctuation"]


@pytest.mark.parametrize(
    ("splitting", "window_strategy", "disorder", "overlap"),
    [
        ("AS_PID", "SHARED", ps.KSlack(), False),
        ("TB_RR", "WIN_FB_MERGE", ps.KSlack(), False),
        ("PB_RR", "WIN_RR", ps.KSlack(), True),
        ("AS", "WIN_FB", ps.KSlack(), False),
        ("TB_RR", "WIN_PLAIN", ps.KSlack(), False),
        ("TB_RR", "SHARED", ps.InOrder(ps.KSlack()), True),
    ],
)
@ENGINES
def test_a_stream_gives_the_windows_of_the_oracle(
    spark, tmp_path, splitting, window_strategy, disorder, overlap, engine
):
    data = stream_files(tmp_path / "in")
    query = offers(
        splitting=splitting,
        window_strategy=window_strategy,
        disorder=disorder,
        pane_workers=2,
        window_workers=2,
        overlap=overlap,
    )
    run = query.start(
        as_stream(spark, tmp_path / "in"),
        output=tmp_path / "out",
        checkpoint=tmp_path / "ck",
        available_now=True,
        engine=engine,
    )
    run.await_termination()
    assert run.progress["engine"] == engine
    result = pq.read_table(tmp_path / "out")
    assert result.column_names == ["window_start", "window_end", *data.column_names]
    assert windows_of(result) == brute_force(data, upto=punctuation_of(run))
    assert run.progress["totals"]["rows"] == data.num_rows
    # What the last batch completes has no next batch to be computed beside.
    assert overlap == any((tmp_path / "out").glob("part-*-settled-*"))


@ENGINES
def test_rescaling_while_it_runs_changes_nothing_but_the_workers(spark, tmp_path, engine):
    data = stream_files(tmp_path / "in", files=5)
    run = offers(pane_workers=1, window_workers=1, by="region").start(
        as_stream(spark, tmp_path / "in"),
        output=tmp_path / "out",
        checkpoint=tmp_path / "ck",
        available_now=True,
        engine=engine,
    )
    wanted = iter([(4, 2), (1, 3), (3, 1), (2, 2)])
    run.listen(lambda _: run.rescale(*next(wanted, (2, 2))))
    run.await_termination()
    result = pq.read_table(tmp_path / "out")
    assert windows_of(result, "region") == brute_force(data, "region", upto=punctuation_of(run))
    tables = read(run.journal)
    assert {int(w) for w in tables.stage("panes")["workers_observed"]} > {1, 2}


class NeverAnswers:
    name = "NeverAnswers"

    def __init__(self):
        self.asked = threading.Event()

    def start(self):
        return None

    def step(self, state, observation):
        self.asked.set()
        threading.Event().wait()


def test_a_policy_that_hangs_and_a_listener_that_raises_cost_no_batch(spark, tmp_path):
    data = stream_files(tmp_path / "in")
    policy = NeverAnswers()
    run = offers().start(
        as_stream(spark, tmp_path / "in"),
        output=tmp_path / "out",
        checkpoint=tmp_path / "ck",
        available_now=True,
        policy=policy,
        period=0.0,
    )
    run.listen(lambda _: 1 / 0)
    run.await_termination()
    assert policy.asked.is_set()
    assert windows_of(pq.read_table(tmp_path / "out")) == brute_force(data, upto=punctuation_of(run))
    tables = read(run.journal)
    assert list(tables.stage("panes")["tuples_in"]) == [400.0] * 3
    assert any("ZeroDivisionError" in text for text in tables.warnings["text"])


def test_a_query_goes_on_where_it_stopped(spark, tmp_path):
    data = stream_files(tmp_path / "all", files=4)
    (tmp_path / "in").mkdir()
    for name in ("000", "001"):
        (tmp_path / "all" / f"{name}.parquet").rename(tmp_path / "in" / f"{name}.parquet")
    places = {"output": tmp_path / "out", "checkpoint": tmp_path / "ck", "available_now": True}
    offers().start(as_stream(spark, tmp_path / "in"), **places).await_termination()
    before = windows_of(pq.read_table(tmp_path / "out"))
    for name in ("002", "003"):
        (tmp_path / "all" / f"{name}.parquet").rename(tmp_path / "in" / f"{name}.parquet")
    run = offers(window_strategy="WIN_FB").start(as_stream(spark, tmp_path / "in"), **places)
    run.await_termination()
    after = windows_of(pq.read_table(tmp_path / "out"))
    assert before.items() <= after.items()
    assert after == brute_force(data, upto=punctuation_of(run))


def test_a_function_gets_the_rows_of_each_batch(spark, tmp_path):
    data = stream_files(tmp_path / "in")
    got: dict[int, list] = {}
    run = offers().start(
        as_stream(spark, tmp_path / "in"),
        output=lambda frame, number: got.update({number: frame.collect()}),
        checkpoint=tmp_path / "ck",
        available_now=True,
    )
    run.await_termination()
    rows = [row for rows in got.values() for row in rows]
    wanted = brute_force(data, upto=punctuation_of(run))
    assert {r.offer for r in rows} == set().union(*wanted.values())
    assert len(rows) == sum(map(len, wanted.values()))


def test_the_old_word_for_a_function_has_the_old_order_and_warns(spark, tmp_path):
    stream_files(tmp_path / "in", files=2)
    got: dict[int, int] = {}
    with pytest.warns(DeprecationWarning, match="output=f"):
        run = offers().start(
            as_stream(spark, tmp_path / "in"),
            foreach_batch=lambda number, frame: got.update({number: frame.count()}),
            checkpoint=tmp_path / "ck",
            available_now=True,
        )
    run.await_termination()
    assert sum(got.values()) == run.progress["totals"]["results"] > 0


def test_a_policy_by_name_decides_only_on_paper_in_a_dry_run_and_metrics_and_page_are_served(spark, tmp_path):
    stream_files(tmp_path / "in")
    journal, pages, shown = MemoryJournal(), [], []
    run = offers(pane_workers=2, window_workers=2).start(
        as_stream(spark, tmp_path / "in"),
        output=tmp_path / "out",
        checkpoint=tmp_path / "ck",
        available_now=True,
        policy="minimum",
        period=0,
        dry_run=True,
        journal=journal,
        metrics="127.0.0.1:0",
        page="127.0.0.1:0",
    )
    run.listen(lambda _: pages.append(urlopen(f"http://{run.metrics_address}/metrics").read().decode()))
    run.listen(lambda _: shown.append(json.load(urlopen(run.page_address.replace("/?", "/data?")))))
    run.await_termination()
    assert run.progress["pane_workers"] == 2
    assert {r["mode"] for r in journal.records if r["kind"] == "decision"} == {"dry-run"}
    assert 'penstock_decisions_total{reason="dry-run"}' in pages[-1]
    assert [node["name"] for node in shown[-1]["graph"]] == ["panes", "windows"]
    assert {"rate", "cores", "splitting", "slack", "observed|panes", "busy|panes|0"} <= set(
        shown[-1]["whole"]["columns"]
    )
    assert run.journal is journal


def test_numbers_of_workers_that_are_given_hold_at_every_start_and_the_last_ones_otherwise(spark, tmp_path):
    data, used = stream_files(tmp_path / "all", files=3), []
    (tmp_path / "in").mkdir()
    for number, given in enumerate([{"pane_workers": 1, "window_workers": 2}, {"pane_workers": 3}, {}]):
        (tmp_path / "all" / f"{number:03d}.parquet").rename(tmp_path / "in" / f"{number:03d}.parquet")
        run = offers(**given).start(
            as_stream(spark, tmp_path / "in"),
            output=tmp_path / "out",
            checkpoint=tmp_path / "ck",
            available_now=True,
        )
        run.await_termination()
        used.append((run.progress["pane_workers"], run.progress["window_workers"]))
    assert used == [(1, 2), (3, 2), (3, 2)]
    assert windows_of(pq.read_table(tmp_path / "out")) == brute_force(data, upto=punctuation_of(run))


# Settings with which a short run has something to change: busy stages are to have more workers, or idle ones fewer.
@pytest.mark.parametrize(
    "policy",
    [
        "Ds2:utilisation=0.01,boundary=0.001,settle=0",
        "Hpa:utilisation=0.01",
        "Dhalion:patience=1,settle=0,held=0.99",
    ],
)
def test_rivals_by_name_scale_the_workers_and_leave_the_answers(spark, tmp_path, policy):
    data = stream_files(tmp_path / "in", files=6)
    workers = 2 if policy.startswith("Dhalion") else 1
    run = offers(pane_workers=workers, window_workers=workers).start(
        as_stream(spark, tmp_path / "in"),
        output=tmp_path / "out",
        checkpoint=tmp_path / "ck",
        available_now=True,
        engine="resident",
        policy=policy,
        period=0,
    )
    run.await_termination()
    assert windows_of(pq.read_table(tmp_path / "out")) == brute_force(data, upto=punctuation_of(run))
    assert "workers" in set(read(run.journal).changes["knob"])


def test_late_rows_are_counted_and_kept_aside_and_bad_rows_go_to_the_dead_letters(spark, tmp_path):
    (tmp_path / "in").mkdir()
    columns = pa.schema([("t", pa.timestamp("us", "UTC")), ("x", pa.float64())])

    def write(name: str, rows: list[tuple[float | None, float | None]]) -> None:
        table = pa.table(
            [
                pa.array([None if t is None else int(t * SECOND) for t, _ in rows], pa.int64()).cast(
                    columns[0].type
                ),
                pa.array([x for _, x in rows], pa.float64()),
            ],
            schema=columns,
        )
        path = tmp_path / "in" / f"{name}.parquet"
        pq.write_table(table, path)
        os.utime(path, (ord(name), ord(name)))

    write("a", [(1.0, 5.0), (None, 1.0), (2.0, float("nan")), (-3.0, 2.0), (9.0, 4.0)])
    write("b", [(0.5, 0.0), (7.26e9, 0.0), (9.5, 3.0)])
    schema = spark.read.parquet(str(tmp_path / "in")).schema
    stream = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(tmp_path / "in"))
    query = ps.PreferenceQuery(
        ps.skyline_of(ps.minimize("x")), time="t", window="1 second", disorder=ps.FixedDelay("1 second")
    )
    run = query.start(
        stream,
        output=tmp_path / "out",
        checkpoint=tmp_path / "ck",
        late=tmp_path / "late",
        available_now=True,
    )
    run.await_termination()
    assert run.progress["totals"] | {"windows": 0, "results": 0} == {
        "rows": 8,
        "late": 1,
        "bad": 4,
        "windows": 0,
        "results": 0,
        "shed": 0,
    }
    assert pq.read_table(tmp_path / "late")["x"].to_pylist() == [0.0]
    dead = pq.read_table(tmp_path / "out" / "_dead_letters")
    assert sorted(dead["reason"].to_pylist()) == [
        "t is before 1970",
        "t is null",
        "t is too far ahead of the stream",
        "x is not a number",
    ]
    assert pq.read_table(tmp_path / "out")["x"].to_pylist() == [5.0]


def test_a_static_frame_gives_the_same_windows(spark, tmp_path):
    data = stream_files(tmp_path / "in")
    frame = spark.read.parquet(str(tmp_path / "in"))
    result = offers().evaluate(frame).toArrow()
    assert windows_of(result) == brute_force(data)
    assert {end - start for start, end in zip(*result.select([0, 1]).to_pydict().values(), strict=True)} == {
        timedelta(seconds=1)
    }
    grouped = offers(by="region").evaluate(frame).toArrow()
    assert windows_of(grouped, "region") == brute_force(data, "region")


def test_the_plain_answer_needs_no_windows(spark, tmp_path):
    data = stream_files(tmp_path / "in")
    frame = spark.read.parquet(str(tmp_path / "in"))
    points = np.column_stack([data["price"].to_numpy(), -data["rating"].to_numpy()])
    best = ps.skyline_of(ps.minimize("price"), ps.maximize("rating")).of(frame)
    assert {r.offer for r in best.collect()} == set(skyline(points).tolist())
    top = ps.top_delta_of(1, ps.minimize("price"), ps.maximize("rating")).of(frame)
    assert top.columns == [*frame.columns, "dominance_factor"]
    assert top.count() > 0
    cheapest = ps.top_k_of(3, by="price").of(frame).collect()
    assert {r.price for r in cheapest} == set(np.sort(data["price"].to_numpy())[:3].tolist())


def test_times_may_be_plain_numbers_and_windows_have_timestamps_all_the_same(spark):
    frame = spark.createDataFrame([(0.5, 3.0), (1.5, 1.0)], "t double, x double")
    result = ps.PreferenceQuery(ps.skyline_of(ps.minimize("x")), time="t", window="2 seconds").evaluate(frame)
    bounds = pa.array([0, 2_000_000], pa.int64()).cast(pa.timestamp("us", "UTC")).to_pylist()
    assert [tuple(r.values()) for r in result.toArrow().to_pylist()] == [(*bounds, 1.5, 1.0)]


def test_an_empty_static_frame_gives_no_windows(spark):
    frame = spark.createDataFrame([], "t timestamp, x double")
    query = ps.PreferenceQuery(ps.skyline_of(ps.minimize("x")), time="t", window="2 seconds")
    assert query.evaluate(frame).count() == 0
    assert ps.skyline_of(ps.minimize("x")).of(frame).count() == 0


def test_partitions_of_which_no_row_can_be_used_are_left_out(spark):
    frame = spark.createDataFrame([(1.0, None), (1.5, 2.0)], "t double, x double").repartition(2, "t")
    frame = frame.union(spark.createDataFrame([(0.5, None)], "t double, x double"))
    best = ps.skyline_of(ps.minimize("x"))
    query = ps.PreferenceQuery(best, time="t", window="2 seconds")
    assert [r.x for r in query.evaluate(frame).collect()] == [2.0]
    assert [r.x for r in best.of(frame).collect()] == [2.0]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"time": "when"}, "Unknown time column 'when'"),
        ({"time": "region"}, "it must be a timestamp"),
        ({"by": "shop"}, "Unknown group column 'shop'"),
        ({"preference": ps.skyline_of(ps.minimize("cost"))}, "Unknown column 'cost'"),
        ({"preference": ps.skyline_of(ps.minimize("region"))}, "no numeric order"),
        ({"slide": "2 seconds"}, "longer than the window"),
        ({"window": "0 seconds"}, "window"),
        ({"splitting": "AS_PIT"}, "did you mean 'AS_PID'"),
        ({"window_strategy": "WIN"}, "Unknown window strategy"),
    ],
)
def test_a_question_that_makes_no_sense_is_refused_before_anything_starts(spark, tmp_path, options, sentence):
    stream_files(tmp_path / "in", files=1, rows=5)
    given = {
        "preference": ps.skyline_of(ps.minimize("price")),
        "time": "event_time",
        "window": "1 second",
    } | options
    with pytest.raises(PenstockError, match=sentence):
        ps.PreferenceQuery(**given).start(
            as_stream(spark, tmp_path / "in"), output=tmp_path / "out", checkpoint=tmp_path / "ck"
        )
    assert not (tmp_path / "out").exists()
    assert not (tmp_path / "ck").exists()


def test_a_checkpoint_of_another_query_is_refused(spark, tmp_path):
    stream_files(tmp_path / "in", files=1, rows=5)
    stream = as_stream(spark, tmp_path / "in")
    places = {"output": tmp_path / "out", "checkpoint": tmp_path / "ck", "available_now": True}
    offers().start(stream, **places).await_termination()
    with pytest.raises(
        PenstockError, match="belongs to another query: its window in microseconds is 1000000"
    ):
        offers(window="2 seconds").start(stream, **places)
    with pytest.raises(PenstockError, match="its input schema"):
        offers().start(stream.drop("offer"), **places)


def test_one_checkpoint_serves_one_query_at_a_time(spark, tmp_path):
    stream_files(tmp_path / "in", files=1, rows=5)
    stream = as_stream(spark, tmp_path / "in")
    run = offers().start(stream, output=tmp_path / "out", checkpoint=tmp_path / "ck")
    try:
        with pytest.raises(PenstockError, match="in use by another running query"):
            offers().start(stream, output=tmp_path / "out", checkpoint=tmp_path / "ck")
    finally:
        run.stop()


def test_a_static_frame_cannot_be_started_and_a_stream_cannot_be_evaluated(spark, tmp_path):
    stream_files(tmp_path / "in", files=1, rows=5)
    with pytest.raises(PenstockError, match="use evaluate"):
        offers().start(
            spark.read.parquet(str(tmp_path / "in")), output=tmp_path / "o", checkpoint=tmp_path / "c"
        )
    with pytest.raises(PenstockError, match=r"use start\(\)"):
        offers().evaluate(as_stream(spark, tmp_path / "in"))


class Cheapest(ps.Preference):
    """A preference of a user's own: the rows of the lowest price."""

    attributes = (ps.minimize("price"),)

    def select(self, points):
        return np.flatnonzero(points[:, 0] == points[:, 0].min(initial=np.inf))

    def merge(self, left, right):
        kept = self.select(np.vstack([left, right]))
        return kept[kept < len(left)], kept[kept >= len(left)] - len(left)


def test_a_preference_of_ones_own_runs_like_any_other(spark, tmp_path):
    data = stream_files(tmp_path / "in")
    run = ps.PreferenceQuery(
        Cheapest(), time="event_time", window="1 second", slide="200 milliseconds"
    ).start(
        as_stream(spark, tmp_path / "in"),
        output=tmp_path / "out",
        checkpoint=tmp_path / "ck",
        available_now=True,
    )
    run.await_termination()
    times, prices = data["event_time"].cast(pa.int64()).to_numpy(), data["price"].to_numpy()
    answers = windows_of(pq.read_table(tmp_path / "out"))
    assert len(answers) > 5
    for (start, _), found in answers.items():
        inside = np.flatnonzero((times >= start) & (times < start + SECOND))
        assert found == set(inside[prices[inside] == prices[inside].min()].tolist())
