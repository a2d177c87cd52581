"""Flows on Spark itself: one query, several sources, changes while it runs, commits that hold."""

import gc
import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from py4j.clientserver import JavaClient
from typer.testing import CliRunner

import penstock
from penstock.apps import finance, wordcount
from penstock.cli import app
from penstock.core.journal import MemoryJournal
from penstock.policies import Organic
from penstock.spark.sources.demo_sources import played
from waiting import PATIENCE, until

pytestmark = pytest.mark.spark


def lines(count=4000, parts=8):
    listed = wordcount.sentences(count)
    size = count // parts
    return listed, [pa.table({"line": listed[i : i + size]}) for i in range(0, count, size)]


def rows_of(folder):
    return [row for file in sorted(Path(folder).glob("*.parquet")) for row in pq.read_table(file).to_pylist()]


def started_word_count(spark, folder, tables, **given):
    """Word count on what is there, into a folder; gives the run and its journal."""
    flow, journal = penstock.Flow("wordcount"), MemoryJournal()
    wordcount.build(flow.source("lines", played(spark, tables, folder / "in"))).sink("counts")
    there = {"checkpoint": folder / "ck", "output": folder / "out", "available_now": True, "journal": journal}
    return flow.start(spark, **there, **given), journal


def last_counts(rows):
    return {r["word"]: r["count"] for r in rows}


@pytest.mark.parametrize("engine", ["jobs", "resident"])
def test_word_count_changes_its_plan_while_it_runs_and_counts_every_word_once(spark, tmp_path, engine):
    listed, tables = lines(3000, 6)
    run, journal = started_word_count(spark, tmp_path, tables, engine=engine)
    steps = [
        {"replicas": {"count": 3, "split": 2}},
        {"overlap": {"count": True}},
        {"replicas": {"count": 1}},
        {"overlap": {"count": False}, "replicas": {"count": 2, "split": 1}},
    ]
    seen = []

    def change(profile):
        seen.append(profile)
        if steps:
            run.rescale(**steps.pop(0))

    run.listen(change)
    run.await_termination()
    rows = rows_of(tmp_path / "out" / "counts")
    assert last_counts(rows) == dict(wordcount.oracle(listed))
    assert len(rows) == len(listed) * wordcount.WORDS_A_LINE
    made = [r for r in journal.records if r["kind"] == "reconfiguration"]
    assert [r["source"] for r in made][:1] == ["took effect"]
    assert seen[1].change.moved["count"]
    assert seen[1].pipelines["count/0"].cpu
    assert min(seen[1].pipelines["split/0"].rows) > 100, (
        "a stateless region's replicas have as many rows each"
    )
    inspected = CliRunner().invoke(app, ["state", "inspect", str(tmp_path / "ck"), "--json"])
    found = json.loads(inspected.stdout)
    assert found["operators"]["count"]["keys"] == len(set(" ".join(listed).split()))
    assert found["deferred"] == 0


def test_words_are_counted_where_the_session_has_wide_offsets(spark, tmp_path, request):
    offsets = "spark.sql.execution.arrow.useLargeVarTypes"
    spark.conf.set(offsets, "true")
    request.addfinalizer(lambda: spark.conf.unset(offsets))
    listed, tables = lines(600, 2)
    run, _ = started_word_count(spark, tmp_path, tables, engine="jobs")
    run.await_termination()
    assert last_counts(rows_of(tmp_path / "out" / "counts")) == dict(wordcount.oracle(listed))


def test_two_sources_are_one_query_merged_by_time_and_a_policy_may_drive_it(spark, tmp_path):
    trades, quotes = (pa.Table.from_pylist(rows) for rows in finance.synthetic_rows(4000, 5))
    edges = np.arange(1, 5) * 1000
    flow = penstock.Flow("finance")
    streams = [
        flow.source(name, played(spark, finance.by_time(table, edges), tmp_path / name), time="ts")
        for name, table in (("trades", trades), ("quotes", quotes))
    ]
    finance.build(*streams).sink("bargains")
    run = flow.start(
        spark,
        checkpoint=tmp_path / "ck",
        output=tmp_path / "out",
        available_now=True,
        policy=Organic(warmup=0, samples=1, bottleneck=0.01, max_replicas=2),
        period=0.01,
    )
    run.await_termination()
    expected = finance.oracle(trades.to_pylist(), quotes.to_pylist())
    assert finance.same(rows_of(tmp_path / "out" / "bargains"), expected)
    told = (tmp_path / "ck" / "journal.jsonl").read_text()
    assert '"policy":"Organic"' in told


# Settings with which a short run has something to change: a busy region is to have more, or an idle one less.
@pytest.mark.parametrize(
    "policy",
    ["Ds2:utilisation=0.01,boundary=0.001,settle=0", "Hpa:utilisation=0.01", "Dhalion:patience=1,settle=0"],
)
def test_rivals_by_name_scale_the_replicas_and_every_word_counts_once(spark, tmp_path, policy):
    listed, tables = lines(3000, 6)
    replicas = {"count": 2} if policy.startswith("Dhalion") else {}
    run, journal = started_word_count(spark, tmp_path, tables, policy=policy, period=0.01, replicas=replicas)
    run.await_termination()
    assert last_counts(rows_of(tmp_path / "out" / "counts")) == dict(wordcount.oracle(listed))
    changed = [c for r in journal.records if r["kind"] == "reconfiguration" for c in r["changes"]]
    assert ("workers", "count") in {tuple(c[:2]) for c in changed}


def test_a_sink_that_is_a_function_is_called_as_spark_calls_one(spark, tmp_path):
    listed, tables = lines(1500, 3)
    flow = penstock.Flow("wordcount")
    batches = {}
    counts = wordcount.build(flow.source("lines", played(spark, tables, tmp_path / "in")))
    counts.sink("counts", lambda frame, batch_id: batches.update({batch_id: frame.collect()}))
    with pytest.warns(DeprecationWarning, match="dead_letters"):
        run = flow.start(spark, checkpoint=tmp_path / "ck", available_now=True, dead_letter=tmp_path / "dead")
    run.await_termination()
    assert (tmp_path / "dead" / "count").is_dir()
    rows = [row.asDict() for batch_id in sorted(batches) for row in batches[batch_id]]
    assert len(rows) == len(listed) * wordcount.WORDS_A_LINE
    last = {}
    for row in rows:
        last[row["word"]] = max(row["count"], last.get(row["word"], 0))
    assert last == dict(wordcount.oracle(listed))


def test_a_stop_that_cancels_the_job_of_a_function_calls_it_again_before_it_returns(spark, tmp_path):
    listed, tables = lines(500, 1)
    begun, go, seen = threading.Event(), tmp_path / "go", {}

    def held(batches):
        until(go.exists, "the word to go on")
        yield from batches

    def take(frame, batch_id):
        begun.set()
        try:
            seen[batch_id] = frame.mapInArrow(held, frame.schema).collect()
        finally:
            go.touch()

    flow = penstock.Flow("wordcount")
    wordcount.build(flow.source("lines", played(spark, tables, tmp_path / "in"))).sink("counts", take)
    run = flow.start(spark, checkpoint=tmp_path / "ck")
    assert begun.wait(PATIENCE)
    run.stop()
    assert sum(map(len, seen.values())) == len(listed) * wordcount.WORDS_A_LINE
    assert run.await_termination(), "a stop is no failure"


def test_waiting_for_a_run_calls_nothing_in_java_where_an_interrupt_would_hang_up_on_the_batch(
    spark, tmp_path, monkeypatch
):
    flow = penstock.Flow("wordcount")
    wordcount.build(flow.source("lines", played(spark, lines(500, 1)[1], tmp_path / "in"))).sink("counts")
    run = flow.start(spark, checkpoint=tmp_path / "ck", output=tmp_path / "out")
    until(lambda: run.totals.rows == 500, "all lines", unless=lambda: not run.is_active)
    asked, send = [], JavaClient.send_command

    def noted(client, command, *rest, **named):
        if threading.current_thread() is threading.main_thread():
            asked.append(command)
        return send(client, command, *rest, **named)

    monkeypatch.setattr(JavaClient, "send_command", noted)
    gc.disable()  # what is collected is told to Java
    try:
        assert run.is_active
        assert not run.await_termination(0.2)
        assert asked == []
    finally:
        gc.enable()
    run.stop()
    assert asked
    assert not run.is_active


def test_a_flow_goes_on_where_it_ended_and_from_the_version_before_a_damaged_one_and_repeats_no_row(
    spark, tmp_path
):
    listed, tables = lines(2000, 4)
    for count in (2, 3, 4):
        flow = penstock.Flow("wordcount")
        wordcount.build(flow.source("lines", played(spark, tables[:count], tmp_path / "in"))).sink("counts")
        run = flow.start(
            spark,
            checkpoint=tmp_path / "ck",
            output=tmp_path / "out",
            available_now=True,
            replicas={"count": 2},
        )
        run.await_termination()
        rows = rows_of(tmp_path / "out" / "counts")
        taken = listed[: len(listed) * count // len(tables)]
        assert last_counts(rows) == dict(wordcount.oracle(taken))
        assert len(rows) == len(taken) * wordcount.WORDS_A_LINE
        if count == 3:
            newest = max((tmp_path / "ck" / "penstock" / "state").iterdir())
            newest.write_bytes(newest.read_bytes()[:-1])
    told = (tmp_path / "ck" / "journal.jsonl").read_text()
    assert told.count("is run again from the version before it") == 1


def test_an_operator_that_fails_ends_the_run_with_the_tuple(spark, tmp_path):
    @penstock.operator(output={"line": str})
    def fussy(rows, output):
        if "bad" in rows.column("line").to_pylist():
            raise ValueError("no such line")
        output.emit(rows.table)

    flow = penstock.Flow("fussy")
    source = played(spark, [pa.table({"line": ["good", "bad"]})], tmp_path / "in")
    flow.source("lines", source).through(fussy).sink("out")
    run = flow.start(spark, checkpoint=tmp_path / "ck", output=tmp_path / "out", available_now=True)
    with pytest.raises(
        penstock.PenstockError,
        match=r"Operator 'fussy' failed with ValueError: no such line on the tuple \{'line': 'bad'\}",
    ):
        run.await_termination()


def test_a_static_frame_and_a_sink_without_a_folder_are_refused(spark, tmp_path):
    flow = penstock.Flow("static")
    wordcount.build(flow.source("lines", spark.createDataFrame([("a",)], "line string"))).sink("counts")
    with pytest.raises(penstock.PenstockError, match="'lines' is a static DataFrame"):
        flow.start(spark, checkpoint=tmp_path / "ck", output=tmp_path / "out")
    flow = penstock.Flow("nowhere")
    _, tables = lines(8, 1)
    wordcount.build(flow.source("lines", played(spark, tables, tmp_path / "in"))).sink("counts")
    with pytest.raises(penstock.PenstockError, match="name a folder with output="):
        flow.start(spark, checkpoint=tmp_path / "ck2")


DRIVER = """
    import sys
    from pathlib import Path
    import penstock
    from penstock.apps import wordcount
    from penstock.testing.crashes import kill_at
    base = Path(sys.argv[1])
    for point in sys.argv[2:]:
        kill_at(point)
    spark = penstock.spark.session("local[2]", config={"spark.sql.shuffle.partitions": "2"})
    stream = spark.readStream.schema("line string").option("maxFilesPerTrigger", 1).parquet(str(base / "in"))
    flow = penstock.Flow("wordcount")
    wordcount.build(flow.source("lines", stream)).sink("counts")
    run = flow.start(spark, checkpoint=base / "ck", output=base / "out", available_now=True, replicas={"count": 2})
    run.rescale(overlap={"count": True}, replicas={"count": 3})
    run.await_termination()
"""


@pytest.mark.kill
def test_killing_the_driver_and_a_python_worker_loses_and_repeats_nothing(tmp_path):
    listed, tables = lines(2000, 4)
    (tmp_path / "in").mkdir()
    for number, table in enumerate(tables):
        pq.write_table(table, tmp_path / "in" / f"{number}.parquet")
    script = tmp_path / "driver.py"
    script.write_text("import penstock.spark\n" + textwrap.dedent(DRIVER))

    def start(crash=None):
        return subprocess.Popen(
            [sys.executable, str(script), str(tmp_path), *([crash] if crash else [])],
            start_new_session=True,
            stderr=subprocess.DEVNULL,
        )

    first = start("after-commit:1")
    assert first.wait(PATIENCE) == -signal.SIGKILL
    end_group(first.pid)
    second = start()
    until(
        lambda: kill_a_python_worker(second.pid),
        "a Python worker",
        unless=lambda: second.poll() is not None,
        every=0.02,
    )
    code = second.wait(PATIENCE)
    end_group(second.pid)
    if code != 0:  # Spark gave the task up; the next start goes on
        third = start()
        assert third.wait(PATIENCE) == 0
    rows = rows_of(tmp_path / "out" / "counts")
    assert last_counts(rows) == dict(wordcount.oracle(listed))
    assert Counter((r["word"], r["count"]) for r in rows).most_common(1)[0][1] == 1
    assert len(rows) == len(listed) * wordcount.WORDS_A_LINE
    assert not any((tmp_path / "out" / "counts" / "_staging").iterdir())


def kill_a_python_worker(driver):
    """SIGKILL to one Python worker process below the driver; True if one was found."""
    for pid in children_of(driver):
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
            parent = int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
            above = Path(f"/proc/{parent}/cmdline").read_bytes()
        except OSError:
            continue
        if b".daemon" in command and b".daemon" in above:  # forked by the daemon: a worker
            os.kill(pid, signal.SIGKILL)
            return True
    return False


def children_of(root):
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
            except OSError:
                continue
    found, grown = {root}, True
    while grown:
        more = {pid for pid, parent in parents.items() if parent in found} - found
        found |= more
        grown = bool(more)
    return sorted(found - {root})


def end_group(pid):
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


@pytest.mark.parametrize("engine", ["jobs", "resident"])
def test_sessions_are_given_out_by_timers_whichever_replica_has_them(spark, tmp_path, engine):
    def close(key, state, output):
        output.emit({**key, "n": state["n"]})
        state.clear()

    @penstock.operator(keys="k", grain="key", time="t", on_timer=close, output={"k": int, "n": int})
    def sessions(rows, state, output):
        state["n"] = state.get("n", 0) + len(rows)
        state.timer(rows[-1]["t"] + 5.0)

    # Each batch has keys of its own, so that the replicas of those before get nothing.
    tables = [
        pa.table({"k": [10 * n + i for i in range(4)] * 2, "t": [10.0 * n + i for i in range(8)]})
        for n in range(4)
    ]
    flow = penstock.Flow("sessions")
    flow.source("rows", played(spark, tables, tmp_path / "in")).through(sessions).sink("out")
    run = flow.start(
        spark,
        checkpoint=tmp_path / "ck",
        output=tmp_path / "out",
        available_now=True,
        replicas={"sessions": 3},
        engine=engine,
    )
    run.await_termination()
    found = sorted((r["k"], r["n"]) for r in rows_of(tmp_path / "out" / "out"))
    reference = penstock.dataflow.Reference(flow).run_all([{"rows": table} for table in tables])
    assert found == sorted((r["k"], r["n"]) for r in reference["out"].to_pylist())
    assert len(found) == 8
