"""Runs on resident workers inside Spark tasks: sources that the workers read, kills, restarts."""

import os
import signal
import time
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.types import Row, StructType

import penstock as ps
from penstock.core.capacity import Knob
from penstock.core.decision import Change, Decision
from penstock.core.errors import PenstockError
from penstock.core.guards import Guards
from penstock.core.journal import MemoryJournal
from penstock.spark.runtime import milestones, spark_log
from penstock.spark.runtime.python_source import Read, python_source_of
from penstock.spark.sources.demo_sources import played
from waiting import until

pytestmark = pytest.mark.spark

STREAM = {"model": "poisson", "rate": "4000", "dims": "3", "delayMean": "0.05", "seconds": "6", "seed": "5"}


def traffic(spark, **options):
    return spark.readStream.format("penstock-traffic").options(**(STREAM | options)).load()


def question():
    return ps.PreferenceQuery(
        ps.skyline_of(*[ps.minimize(f"a{i}") for i in range(3)]),
        time="event_time",
        window="1 second",
        slide="200 milliseconds",
        disorder=ps.FixedDelay(
            "5 seconds"
        ),  # nothing is late, so the answer does not hang on how batches are cut
        pane_workers=2,
        window_workers=2,
    )


def rows(table):
    return sorted(tuple(row.values()) for row in table.to_pylist())


@pytest.fixture(scope="module")
def expected(spark):
    """The windows of the static answer."""
    whole = spark.read.format("penstock-traffic").options(**STREAM).load()
    return rows(question().evaluate(whole).toArrow())


def checked(expected, folder):
    """The windows that were given out are those of the static answer, up to the last of them."""
    made = rows(pq.read_table(folder))
    assert len(made) > 100
    upto = max(row[1] for row in made)
    assert made == [row for row in expected if row[1] <= upto]


def test_workers_read_a_python_source_themselves_and_a_restart_goes_on_exactly_there(
    spark, tmp_path, expected
):
    places = {"output": tmp_path / "out", "checkpoint": tmp_path / "ck", "engine": "resident"}
    run = question().start(traffic(spark, rowsPerBatch="1000"), trigger="50 milliseconds", **places)
    until(lambda: run.progress.get("batch", -1) >= 3, "some batches are committed")
    run.stop()
    assert run.progress["workers"]["observed"] >= 1
    assert run.progress["worker_busy"]
    assert all(0 <= share <= 1 for share in run.progress["worker_busy"])
    assert not any((tmp_path / "ck" / "spark").glob("offsets/*"))  # no query of Spark's
    with pytest.raises(PenstockError, match="reads its source itself"):
        _ = run.query
    again = question().start(traffic(spark, rowsPerBatch="3000"), available_now=True, **places)
    again.await_termination()
    assert (
        again.progress["totals"]["rows"]
        == spark.read.format("penstock-traffic").options(**STREAM).load().count()
    )
    checked(expected, tmp_path / "out")
    with pytest.raises(PenstockError, match="same source, unchanged"):
        question().start(traffic(spark).select("*"), **places)


def from_now_on(path):
    """A source whose rows are the lines of a file, and which begins with what comes next."""

    class Lines(InputPartition):
        def __init__(self, first, last):
            self.first, self.last = first, last

    class Reader(DataSourceStreamReader):
        def end(self):
            return {"line": len(path.read_text().splitlines())}

        def initialOffset(self):
            return self.end()

        def latestOffset(self, start=None, limit=None):
            return self.end()

        def partitions(self, start, end):
            return [Lines(start["line"], end["line"])]

        def read(self, partition):
            for line in path.read_text().splitlines()[partition.first : partition.last]:
                yield float(line), float(line)

    class FromNowOn(DataSource):
        @classmethod
        def name(cls):
            return "from-now-on"

        def schema(self):
            return "t double, x double"

        def streamReader(self, schema):
            return Reader()

    return FromNowOn


def test_what_comes_between_two_runs_is_read_though_the_first_one_had_no_row(spark, tmp_path):
    lines = tmp_path / "lines"
    lines.write_text("1\n2\n")
    spark.dataSource.register(from_now_on(lines))
    query = ps.PreferenceQuery(ps.skyline_of(ps.minimize("x")), time="t", window="2 seconds", pane_workers=1)
    places = {"output": tmp_path / "out", "checkpoint": tmp_path / "ck", "engine": "resident"}
    run = query.start(spark.readStream.format("from-now-on").load(), trigger="50 milliseconds", **places)
    run.stop()
    with lines.open("a") as file:
        file.write("3\n4\n5\n6\n7\n")
    run = query.start(spark.readStream.format("from-now-on").load(), available_now=True, **places)
    run.await_termination()
    assert run.progress["totals"]["rows"] == 5


def test_a_first_batch_that_spark_planned_and_nobody_committed_is_left_to_spark(spark, tmp_path, monkeypatch):
    places = {"output": tmp_path / "out", "checkpoint": tmp_path / "ck", "available_now": True}

    def fails(point, batch):
        if point == "before-commit":
            raise RuntimeError("the end")

    with monkeypatch.context() as patched:
        patched.setattr(milestones, "hooks", [fails])
        run = question().start(traffic(spark, rowsPerBatch="9000"), engine="jobs", **places)
        with pytest.raises(Exception, match="the end"):
            run.await_termination(300)
    assert spark_log.has_planned(tmp_path / "ck" / "spark", 0)
    run = question().start(traffic(spark, rowsPerBatch="9000"), engine="resident", **places)
    assert run.query is not None  # Spark's own
    run.await_termination(300)


@pytest.fixture
def host_in_rome():
    before = os.environ.get("TZ")
    os.environ["TZ"] = "Europe/Rome"
    time.tzset()
    yield
    if before is None:
        del os.environ["TZ"]
    else:
        os.environ["TZ"] = before
    time.tzset()


def moments(values):
    """A source of these values, as a stream."""

    class Reader(DataSourceStreamReader):
        def initialOffset(self):
            return {"row": 0}

        def latestOffset(self, start=None, limit=None):
            return {"row": len(values)}

        def partitions(self, start, end):
            return [InputPartition(None)]

        def read(self, partition):
            yield from values

    class Moments(DataSource):
        @classmethod
        def name(cls):
            return "moments"

        def schema(self):
            return "t timestamp, x double"

        def streamReader(self, schema):
            return Reader()

    return Moments


def test_times_without_a_zone_are_what_spark_takes_them_for(spark, host_in_rome):
    from pyspark.sql.worker.plan_data_source_read import records_to_arrow_batches  # Spark's own, where it is

    noon = datetime(2024, 7, 1, 12)
    values = [(noon, 1.0), Row(x=2.0, t=noon), (noon.replace(tzinfo=UTC), 3.0), Row(noon, 4.0)]
    spark.dataSource.register(moments(values))
    source = python_source_of(spark.readStream.format("moments").load())
    (reading,) = source.readings({"row": 0}, {"row": len(values)})
    (made,) = reading()
    (read_by_spark,) = records_to_arrow_batches(iter(values), 100, source.spark_schema, None)
    assert made == read_by_spark
    assert [t.hour for t in made["t"].to_pylist()] == [10, 10, 12, 10]


def test_an_empty_batch_of_other_types_is_a_batch_without_rows():
    schema = pa.schema([("t", pa.timestamp("us", "UTC")), ("x", pa.float64())])
    given = pa.record_batch(
        {"x": pa.array([], pa.int32()), "t": pa.array([], pa.timestamp("us", "Europe/Rome"))}
    )

    class Reader(DataSourceStreamReader):
        def read(self, partition):
            yield given

    (made,) = Read(Reader(), InputPartition(None), schema, StructType())()
    assert made.schema == schema
    assert made.num_rows == 0


def test_logs_of_a_query_have_no_checksum_files_and_the_session_keeps_its_settings(spark, tmp_path, expected):
    manager, files = "spark.sql.streaming.checkpointFileManagerClass", "fs.file.impl"
    before = [spark.conf.get(key, None) for key in (manager, files)]
    places = {"output": tmp_path / "out", "checkpoint": tmp_path / "ck", "engine": "jobs"}
    for rows_a_batch in ("9000", "24000"):  # a restart reads what was logged
        run = question().start(traffic(spark, rowsPerBatch=rows_a_batch), available_now=True, **places)
        run.await_termination()
    assert [spark.conf.get(key, None) for key in (manager, files)] == before
    logged = {path.name for path in (tmp_path / "ck" / "spark" / "commits").iterdir()}
    assert "0" in logged
    assert not any(name.endswith(".crc") for name in logged)
    checked(expected, tmp_path / "out")


def test_workers_that_are_killed_are_replaced_and_nothing_is_lost_or_repeated(spark, tmp_path, expected):
    run = question().start(
        traffic(spark, rowsPerBatch="500"),
        output=tmp_path / "out",
        checkpoint=tmp_path / "ck",
        available_now=True,
        engine="resident",
    )
    killed = 0
    workers = run._resident.workers
    while run.is_active and killed < 4:
        members = workers.members()
        if members:
            os.kill(list(members.values())[killed % len(members)].pid, signal.SIGKILL)
            killed += 1
            until(lambda: workers.observed == 2 or not run.is_active, "the killed worker is replaced")
    run.await_termination()
    assert killed >= 1
    checked(expected, tmp_path / "out")


class Sheds:
    """A policy that drops a quarter of the rows."""

    name = "Sheds"

    def start(self):
        return None

    def step(self, state, observation):
        return state, Decision((Change(Knob.SHEDDING, "panes", 0.25),), "the test says so")


def test_a_policy_sheds_an_even_share_of_the_rows_of_a_running_query(spark, tmp_path):
    x = np.arange(
        100.0
    )  # none of a batch dominates another: all that are kept are in the answer of their second
    tables = [pa.table({"t": number + x / 100, "x": x, "y": -x}) for number in range(20)]
    query = ps.PreferenceQuery(
        ps.skyline_of(ps.minimize("x"), ps.minimize("y")), time="t", window="1 second", pane_workers=2, window_workers=2
    )  # fmt: skip
    journal, shed = MemoryJournal(), {}
    run = query.start(
        played(spark, tables, tmp_path / "in"),
        output=tmp_path / "out",
        checkpoint=tmp_path / "ck",
        engine="resident",
        trigger="50 milliseconds",
        policy=Sheds(),
        guards=Guards(),
        period=0.0,
        journal=journal,
    )
    run.listen(lambda figures: shed.update({figures["batch"]: figures["shed"]}))
    until(lambda: run.progress.get("batch") == 19, "all batches", unless=lambda: not run.is_active)
    run.stop()
    assert run.engine == "resident"
    assert all(n == 0 or n == pytest.approx(25, abs=2) for n in shed.values())  # each reader counts by itself
    assert run.progress["totals"]["shed"] >= sum(shed.values()) > 5 * 25
    answers = Counter(
        int(start.timestamp()) for start in pq.read_table(tmp_path / "out")["window_start"].to_pylist()
    )
    assert len(answers) >= 15
    assert {n: 100 - answers[n] for n in shed if n in answers} == {n: shed[n] for n in shed if n in answers}
    assert 0.25 in set(journal.tables().observations["shed_share"])
    assert not [text for text in journal.texts() if "refused" in text]


def test_a_stopped_run_leaves_no_worker_behind(spark, tmp_path):
    run = question().start(
        traffic(spark, rowsPerBatch="500"),
        output=tmp_path / "out",
        checkpoint=tmp_path / "ck",
        engine="resident",
        trigger="50 milliseconds",
    )
    until(lambda: run.progress.get("batch", -1) >= 1, "a batch is committed")
    tracker = spark.sparkContext.statusTracker()
    assert tracker.getJobIdsForGroup("penstock-workers-run")
    run.stop()
    active = tracker.getActiveJobsIds
    until(
        lambda: not set(tracker.getJobIdsForGroup("penstock-workers-run")) & set(active()),
        "the jobs have ended",
    )


def test_a_run_that_grows_leaves_the_slots_that_another_one_took_since(spark, tmp_path):
    def started(name):
        run = replace(question(), pane_workers=1, window_workers=1).start(
            traffic(spark, rowsPerBatch="20"),
            output=tmp_path / name / "out",
            checkpoint=tmp_path / name / "ck",
            engine="resident",
            trigger="50 milliseconds",
            name=name,
        )
        until(lambda: run.workers["observed"] == 1, "it has its worker", unless=lambda: not run.is_active)
        until(lambda: "batch" in run.progress, "it works", unless=lambda: not run.is_active)
        return run

    first = started("first")
    second = started("second")
    try:
        first.rescale(panes=4)
        until(lambda: first.workers["planned"] > 1, "it grows", unless=lambda: not first.is_active)
        assert first.workers["planned"] == 2, "of 4 slots one is the other run's and one stays free"
    finally:
        second.stop()
        until(lambda: first.workers["planned"] != 2, "it grows again", unless=lambda: not first.is_active)
        first.stop()
    assert first.progress["workers"]["planned"] == 3


def test_without_free_slots_the_run_goes_on_with_spark_jobs_and_says_so(
    spark, tmp_path, monkeypatch, expected
):
    monkeypatch.setattr("penstock.spark.runtime.engine_choice.room_for_workers", lambda spark: 0)
    run = question().start(
        traffic(spark),
        output=tmp_path / "out",
        checkpoint=tmp_path / "ck",
        available_now=True,
        engine="resident",
    )
    run.await_termination()
    assert run.progress["engine"] == "jobs"
    assert "no free slots" in (tmp_path / "ck" / "journal.jsonl").read_text()
    checked(expected, tmp_path / "out")


def test_a_batch_that_the_driver_cannot_hold_runs_as_a_spark_job(spark, tmp_path, expected):
    conf = spark.sparkContext._jsc.sc().conf()  # read anew for every job
    whole = spark.read.format("penstock-traffic").options(**STREAM).load().repartition(2)
    whole.write.parquet(str(tmp_path / "in"))
    # With a condition Spark delivers the rows; workers read bare files themselves.
    frame = spark.readStream.schema(whole.schema).parquet(str(tmp_path / "in")).where("a0 >= 0")
    conf.set("spark.driver.maxResultSize", "100k")
    try:
        run = question().start(
            frame, output=tmp_path / "out", checkpoint=tmp_path / "ck", available_now=True, engine="resident"
        )
        run.await_termination()
    finally:
        conf.remove("spark.driver.maxResultSize")
    assert "larger than spark.driver.maxResultSize" in (tmp_path / "ck" / "journal.jsonl").read_text()
    checked(expected, tmp_path / "out")


def test_an_engine_that_is_none_is_one_sentence(spark, tmp_path):
    with pytest.raises(PenstockError, match="engine"):
        question().start(
            traffic(spark), output=tmp_path / "out", checkpoint=tmp_path / "ck", engine="turbine"
        )
