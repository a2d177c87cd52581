"""Flows that change between two starts: what can be carried over is, and the rest is refused with a way to go on."""

import json
import os
import tarfile
import tempfile
import time
from collections import Counter
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import penstock
from penstock.cli import app
from penstock.core.errors import PenstockError
from penstock.dataflow.firing import need_all
from penstock.dataflow.graph import Graph
from penstock.dataflow.operators import operator
from penstock.spark.runtime.manifest import Manifest
from penstock.testing.flow_run import start_in_process

DEFAULTS = {"a": 0, "b": 10, "c": -5}
OPTIONS = {"columns": frozenset("a"), "other": False, "extra": False, "ttl": None, "grain": "key"}


def counting(columns, ttl=None, grain="key"):
    """Adds one to every column of the state for each row, and gives out what they are then."""
    names = sorted(columns)
    state = {c: (int, DEFAULTS[c]) for c in names}

    def by_key(rows, state, output):
        for row in rows:
            for c in names:
                state[c] += 1
            output.emit({"k": row["k"], "seen": ",".join(f"{c}={state[c]}" for c in names)})

    def by_table(rows, state, output):
        seen = []
        for slot in rows.slots.tolist():
            for c in names:
                state[c][slot] += 1
            seen.append(",".join(f"{c}={state[c][slot]}" for c in names))
        output.emit({"k": rows.column("k"), "seen": seen})

    made = operator(keys="k", state=state, grain=grain, ttl=ttl, output={"k": int, "seen": str})
    return made(by_key if grain == "key" else by_table)


def flow(columns=frozenset("a"), other=False, extra=False, ttl=None, grain="key"):
    graph = Graph("evolving")
    rows = graph.source("rows", {"k": int, "t": float, **({"more": str} if extra else {})})
    rows.through(counting(columns, ttl, grain), name="count").sink("out")
    if other:
        rows.through(counting("a"), name="other").sink("others")
    return graph


def batch(keys, extra, at=0.0):
    table = {"k": pa.array(keys, pa.int64()), "t": pa.array([at] * len(keys), pa.float64())}
    return {"rows": pa.table({**table, **({"more": ["x"] * len(keys)} if extra else {})})}


def given_out(folder, sink):
    files = sorted(Path(folder, "out", sink).glob("*.parquet"))
    return [(r["k"], r["seen"]) for f in files for r in pq.read_table(f).to_pylist()]


class Loop:
    """What a flow that changed would give out if its state were dictionaries."""

    def __init__(self):
        self.count, self.other, self.out, self.others = {}, {}, [], []

    def changed(self, options):
        kept = options["columns"]
        self.count = {k: {c: v.get(c, DEFAULTS[c]) for c in kept} for k, v in self.count.items()}
        if not options["other"]:
            self.other = {}

    def feed(self, keys, options):
        for key in keys:
            state = self.count.setdefault(key, {c: DEFAULTS[c] for c in options["columns"]})
            for c in state:
                state[c] += 1
            self.out.append((key, ",".join(f"{c}={state[c]}" for c in sorted(state))))
            if options["other"]:
                self.other[key] = self.other.get(key, 0) + 1
                self.others.append((key, f"a={self.other[key]}"))


versions = st.fixed_dictionaries(
    {
        "columns": st.sets(st.sampled_from("abc"), min_size=1).map(frozenset),
        "other": st.booleans(),
        "extra": st.booleans(),
        "ttl": st.sampled_from([None, ("t", 1000.0), ("t", 5000.0)]),
        "grain": st.sampled_from(["key", "table"]),
    }
)
starts = st.lists(
    st.tuples(
        versions,
        st.lists(st.lists(st.integers(0, 6), min_size=1, max_size=6), max_size=3),
        st.integers(1, 3),
        st.booleans(),
    ),
    min_size=2,
    max_size=5,
)


@settings(max_examples=60)
@given(starts)
def test_a_flow_that_changes_goes_on_as_a_loop_would_with_replicas_that_come_and_go_and_with_kills(starts):
    loop, number, seen = Loop(), 0, Counter()
    with tempfile.TemporaryDirectory() as folder:
        for options, batches, replicas, killed in starts:
            run = start_in_process(flow(**options), folder, groups=8)
            run._next = number
            run.rescale(replicas={"count": replicas})
            for at, keys in enumerate(batches):
                if at == 0:
                    loop.changed(options)
                run.feed(batch(keys, options["extra"], at=float(number)))
                loop.feed(keys, options)
                number += 1
            run.abandon() if killed else run.finish()
        seen = {sink: given_out(folder, sink) for sink in ("out", "others")}
    for key in range(7):
        assert [r for r in seen["out"] if r[0] == key] == [r for r in loop.out if r[0] == key]
        assert [r for r in seen["others"] if r[0] == key] == [r for r in loop.others if r[0] == key]


def started(folder, graph, number=0, *batches):
    run = start_in_process(graph, folder, groups=8)
    run._next = number
    for one in batches:
        run.feed(one)
    run.finish()


def test_a_time_to_live_that_comes_later_begins_when_it_comes(tmp_path):
    live = flow(ttl=("t", 10.0))
    started(tmp_path, flow(), 0, batch([1, 2], False, 0.0))
    started(tmp_path, live, 1, batch([3], False, 50.0), batch([1], False, 51.0), batch([3], False, 100.0))
    started(tmp_path, live, 4, batch([3], False, 101.0), batch([1, 2], False, 102.0))
    found = given_out(tmp_path, "out")
    assert [seen for k, seen in found if k == 1] == ["a=1", "a=2", "a=1"]
    assert [seen for k, seen in found if k == 2] == ["a=1", "a=1"]


@pytest.mark.parametrize("others", [0, 12])
def test_keys_from_before_a_time_to_live_expire_whether_or_not_their_files_were_merged_meanwhile(
    tmp_path, others
):
    live = flow(ttl=("t", 10.0))
    started(tmp_path, flow(), 0, batch(range(20), False, 0.0))
    meanwhile = [batch([30 + i], False, 51.0 + i / 10) for i in range(others)]
    started(tmp_path, live, 1, batch([30], False, 50.0), *meanwhile, batch([31], False, 59.0))
    started(
        tmp_path, live, 3 + others, batch([5], False, 59.5), batch([30], False, 65.0), batch([6], False, 65.5)
    )
    found = given_out(tmp_path, "out")
    assert [seen for k, seen in found if k == 5] == ["a=1", "a=2"]
    assert [seen for k, seen in found if k == 6] == ["a=1", "a=1"]


def test_tuples_that_wait_get_nulls_for_a_column_that_came_and_lose_one_that_went(tmp_path):
    def pairs(columns):
        @operator(keys="k", grain="key", need=need_all(**{"in": 2}), output={"k": int, "seen": str})
        def pairs(rows, state, output):
            state["n"] = 1
            output.emit({"k": rows[0]["k"], "seen": str([r.get("more", "gone") for r in rows])})

        graph = Graph("waiting")
        graph.source("rows", {"k": int, **columns}).through(pairs, name="pairs").sink("out")
        return graph

    def rows(keys, **more):
        return {"rows": pa.table({"k": pa.array(keys, pa.int64()), **more})}

    started(tmp_path, pairs({}), 0, rows([1, 2]))
    started(tmp_path, pairs({"more": str}), 1, rows([1, 3], more=["x", "y"]))
    started(tmp_path, pairs({}), 2, rows([2, 3]))
    assert given_out(tmp_path, "out") == [
        (1, "[None, 'x']"),
        (2, "['gone', 'gone']"),
        (3, "['gone', 'gone']"),
    ]


@operator(keys="k", grain="key", output={"k": int, "n": int})
def tally(rows, state, output):
    state["n"] = state.get("n", 0) + len(rows)
    output.emit({"k": rows[0]["k"], "n": state["n"]})


def tallied(name=None, keys="k", kind=int, state=None, stateful=False, before=None):
    graph = Graph("tally")
    rows = graph.source("rows", {"k": kind, "j": int})
    rows = (
        rows
        if before is None
        else rows.through(tally, name="before", keys=before, output={"k": int, "j": int})
    )
    given = {"stateful": True, "keys": []} if stateful else {"keys": keys}
    op = (
        operator(stateful=True, grain="key", output={"k": int, "n": int})(tally.function)
        if stateful
        else tally
    )
    rows.through(op, name=name, state=state, **({} if stateful else given)).sink("out")
    return graph


def pair(k):
    return {"rows": pa.table({"k": pa.array([k], pa.int64()), "j": pa.array([1], pa.int64())})}


@pytest.mark.parametrize(
    ("then", "sentence"),
    [
        ({"keys": ["k", "j"]}, r"'tally' cannot be carried over: its keys were \(k\) and are \(k, j\)"),
        ({"kind": str}, "its key 'k' was int64 and is string"),
        ({"state": {"n": int}}, "its state was a free dictionary and is columns"),
        ({"stateful": True}, "it was partitioned and is stateful"),
        ({"name": "total"}, "keep the name with name='tally'.*--rename tally=total.*--reset tally"),
    ],
)  # fmt: skip
def test_what_cannot_be_carried_over_is_refused_and_goes_on_after_a_reset(tmp_path, then, sentence):
    kind = pa.string() if then.get("kind") is str else pa.int64()
    started(tmp_path, tallied(), 0, pair(1))
    with pytest.raises(PenstockError, match=sentence):
        start_in_process(tallied(**then), tmp_path, groups=8)
    started(tmp_path, tallied(), 1, pair(1))  # a refused start leaves the checkpoint as it was
    done = CliRunner().invoke(app, ["state", "migrate", str(tmp_path / "checkpoint"), "--reset", "tally"])
    assert done.exit_code == 0, done.output
    assert "The state of 'tally' is forgotten." in done.output
    if kind != pa.string():
        started(tmp_path, tallied(**then), 2, pair(1))
        files = sorted(Path(tmp_path, "out", "out").glob("*.parquet"))
        assert [r["n"] for f in files for r in pq.read_table(f).to_pylist()] == [1, 2, 1]


def test_a_state_moves_to_another_name_and_stays_with_name(tmp_path):
    started(tmp_path, tallied(), 0, pair(1))
    command = ["state", "migrate", str(tmp_path / "checkpoint")]
    assert CliRunner().invoke(app, [*command, "--rename", "tally=total"]).exit_code == 0
    started(tmp_path, tallied(name="total"), 1, pair(1))
    files = sorted(Path(tmp_path, "out", "out").glob("*.parquet"))
    assert [r["n"] for f in files for r in pq.read_table(f).to_pylist()] == [1, 2]
    for wrong, sentence in (
        ([], "Say what to change"),
        (["--reset", "nothing"], "Unknown operator with a state 'nothing'"),
        (["--rename", "total"], "takes OLD=NEW"),
    ):
        with pytest.raises(PenstockError, match=sentence):
            CliRunner().invoke(app, [*command, *wrong], catch_exceptions=False)


def test_other_sources_are_refused(tmp_path):
    started(tmp_path, tallied(), 0, pair(1))
    graph = Graph("tally")
    graph.source("lines", {"k": int, "j": int}).through(tally, name="tally", keys="k").sink("out")
    with pytest.raises(PenstockError, match="had the sources rows and has lines"):
        start_in_process(graph, tmp_path, groups=8)


def overlapping(*steps, sink="out"):
    @operator()
    def same(rows, output):
        output.emit(rows.table)

    @operator(keys="k", grain="key", output={"k": int, "j": int, "n": int})
    def count(rows, state, output):
        for row in rows:
            state["n"] = state.get("n", 0) + 1
            output.emit({**row, "n": state["n"]})

    graph = Graph("overlapping")
    stream = graph.source("rows", {"k": int, "j": int})
    for step in steps:
        stream = stream.through(same if step.startswith("same") else count, name=step)
    stream.sink(sink)
    return graph


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (("count",), ("same", "count")),
        (("same", "count"), ("count",)),
        (("count", "same"), ("count", "same", "same2")),
        (("same", "count"), ("same2", "count")),
    ],
)
def test_a_flow_that_changed_while_parts_of_batches_wait_is_refused_until_they_are_done(
    tmp_path, before, after
):
    run = start_in_process(overlapping(*before), tmp_path, groups=8)
    run.rescale(overlap={"count": True})
    run.feed(pair(1))
    run.feed(pair(1))
    run.abandon()
    sentence = (
        "changed while parts of its batches wait for a later segment; start it once as it was and stop it"
    )
    with pytest.raises(PenstockError, match=sentence):
        start_in_process(overlapping(*after), tmp_path, groups=8)
    started(tmp_path, overlapping(*before), 2)
    started(tmp_path, overlapping(*after), 2, pair(1))
    files = sorted(Path(tmp_path, "out", "out").glob("*.parquet"))
    assert sorted(r["n"] for f in files for r in pq.read_table(f).to_pylist()) == [1, 2, 3]


@pytest.mark.spark
def test_a_function_may_go_after_a_stop_and_not_while_rows_may_be_owed_to_it(spark, tmp_path):
    got = []

    def start(sink, to, *numbers):
        flow = penstock.Flow("rows")
        for number in numbers:
            (tmp_path / "in").mkdir(exist_ok=True)
            pq.write_table(pa.table({"k": [number]}), tmp_path / "in" / f"{number}.parquet")
        frame = spark.readStream.schema("k bigint").parquet(str(tmp_path / "in"))
        flow.source("rows", frame).through(
            operator()(lambda rows, output: output.emit(rows.table)), name="same"
        ).sink(sink, to)
        run = flow.start(spark, checkpoint=tmp_path / "checkpoint", available_now=True, engine="jobs")
        run.await_termination()

    def failing(frame, batch):
        raise ValueError("no disk")

    def taking(frame, batch):
        got.extend(row.k for row in frame.collect())

    with pytest.raises(Exception, match="no disk"):
        start("old", failing, 1)
    sentence = "the sink 'old', which is gone, may not have got the rows of batch 0.*with a function for 'old' and stop it"
    with pytest.raises(PenstockError, match=sentence):
        start("new", taking)
    start("old", taking)
    assert got == [1]
    start("new", taking, 2)
    assert got == [1, 2], "and what had been given is not given again"


def test_a_number_may_become_wider_and_not_narrower(tmp_path):
    def sums(kind):
        @operator(keys="k", grain="key", state={"n": kind}, output={"k": int, "seen": str})
        def sums(rows, state, output):
            state["n"] += 1
            output.emit({"k": rows[0]["k"], "seen": str(state["n"])})

        graph = Graph("sums")
        graph.source("rows", {"k": int, "j": int}).through(sums, name="sums").sink("out")
        return graph

    started(tmp_path, sums(pa.int32()), 0, pair(1))
    started(tmp_path, sums(pa.int64()), 1, pair(1))
    assert given_out(tmp_path, "out") == [(1, "1"), (1, "2")]
    with pytest.raises(PenstockError, match="its state column 'n' was int64 and is int32"):
        start_in_process(sums(pa.int32()), tmp_path, groups=8)


def test_checkpoints_carry_the_version_that_wrote_them(tmp_path):
    started(tmp_path, tallied(), 0, pair(1))
    (file,) = (tmp_path / "checkpoint" / "penstock" / "commits").glob("*.json")
    assert Manifest.read(file).version == penstock.__version__
    file.write_text(file.read_text().replace('"schema":1', '"schema":9'))
    with pytest.raises(
        PenstockError, match=rf"another version of Penstock \({penstock.__version__}, schema 9"
    ):
        Manifest.read(file)


@pytest.mark.spark
def test_checkpoints_of_version_0_1_open_and_go_on_exactly_once(spark, tmp_path):
    packed = Path(__file__).parents[2] / "data" / "checkpoints_0_1.tar.gz"
    with tarfile.open(packed) as archive:
        archive.extractall(tmp_path, filter="data")
    for file in tmp_path.rglob("*"):
        if file.is_file() and b"@HERE@" in file.read_bytes():
            file.write_bytes(file.read_bytes().replace(b"@HERE@", str(tmp_path).encode()))
    (tmp_path / "input" / "3.json").write_text(
        '{"word": "tide", "at": 40.0, "size": 1.0}\n{"word": "reef", "at": 41.0, "size": 2.0}\n'
    )
    for number in range(4):  # one file a batch, in this order
        stamp = time.time() - 100 + number
        os.utime(tmp_path / "input" / f"{number}.json", (stamp, stamp))
    one_by_one = spark.readStream.option("maxFilesPerTrigger", 1)
    frame = one_by_one.schema("word string, at double, size double").json(str(tmp_path / "input"))

    @penstock.operator(
        keys="word", state={"n": int, "new": (int, 7)}, output={"word": str, "n": int}, grain="key"
    )
    def count(rows, state, output):
        for row in rows:
            state["n"] += 1
            assert state["new"] == 7
            output.emit({"word": row["word"], "n": state["n"]})

    @penstock.operator(keys="word", output={"word": str, "longest": float}, grain="key", ttl=("at", 500.0))
    def longest(rows, state, output):
        for row in rows:
            state["longest"] = max(state.get("longest", 0.0), row["at"])
            output.emit({"word": row["word"], "longest": state["longest"]})

    flow = penstock.Flow("words")
    words = flow.source("words", frame)
    words.through(count, name="count").sink("counts")
    words.through(longest, name="longest").sink("longest")
    run = flow.start(
        spark, checkpoint=tmp_path / "flow-checkpoint", output=tmp_path / "flow-out", available_now=True, groups=16
    )  # fmt: skip
    run.await_termination()

    def rows(folder):
        return [r for f in sorted(Path(folder).glob("*.parquet")) for r in pq.read_table(f).to_pylist()]

    expected = Counter()
    for number in range(4):
        for line in (tmp_path / "input" / f"{number}.json").read_text().splitlines():
            expected[json.loads(line)["word"]] += 1
    found = rows(tmp_path / "flow-out" / "counts")
    assert sorted((r["word"], r["n"]) for r in found) == sorted(
        (w, n) for w, total in expected.items() for n in range(1, total + 1)
    )
    assert max(r["longest"] for r in rows(tmp_path / "flow-out" / "longest")) == 41.0

    query = penstock.PreferenceQuery(
        penstock.skyline_of(penstock.minimize("at"), penstock.maximize("size")),
        time="at", window="20 seconds", slide="10 seconds", by="word", pane_workers=1, window_workers=1,
    )  # fmt: skip
    for checkpoint, output in (("query-checkpoint", "query-out"), ("new-checkpoint", "new-out")):
        run = query.start(
            frame, checkpoint=tmp_path / checkpoint, output=tmp_path / output, available_now=True, name="best"
        )
        run.await_termination()

    def answers(
        folder,
    ):  # bounds of windows are timestamps now; version 0.1 wrote them as the numbers that came in
        seconds = lambda value: value.timestamp() if isinstance(value, datetime) else value  # noqa: E731
        return sorted(tuple(seconds(value) for value in row.values()) for row in rows(folder))

    assert answers(tmp_path / "query-out") == answers(tmp_path / "new-out")
    assert len(rows(tmp_path / "query-out")) > 8
