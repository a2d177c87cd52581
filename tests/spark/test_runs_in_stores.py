"""Whole runs with checkpoint, journal and output in an object store: MinIO on loopback."""

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import penstock as ps
from penstock.core.errors import PenstockError
from penstock.core.journal import read
from penstock.dataflow import running_count
from penstock.spark.flow.inspection import inspect_flow
from penstock.spark.query.inspection import inspect_query
from penstock.spark.runtime.locations import location, read_parquet
from small_query import last_due, question
from waiting import PATIENCE

pytestmark = pytest.mark.spark

STREAM = {"model": "poisson", "rate": "2000", "dims": "2", "delayMean": "0.05", "seconds": "4", "seed": "5"}


def traffic(spark, **options):
    return spark.readStream.format("penstock-traffic").options(**(STREAM | options)).load()


def start_query(spark, base):
    frame = traffic(spark, rowsPerBatch="1000")
    return question().start(frame, output=f"{base}/out", checkpoint=f"{base}/ck", available_now=True)


def rows(tables):
    return sorted(tuple(row.values()) for table in tables for row in table.to_pylist())


def results(base, pattern="*.parquet"):
    return rows(read_parquet(file) for file in location(base).glob(pattern))


def child(base, kill):
    """A driver that is killed at a point of a batch."""
    import penstock.spark
    from penstock.testing.crashes import kill_at

    kill_at(kill)
    start_query(penstock.spark.session("local[3]"), base).await_termination()


def test_a_query_whose_driver_is_killed_between_two_puts_goes_on_from_the_store(spark, s3):
    code = "from test_runs_in_stores import child; import sys; child(*sys.argv[1:])"
    died = subprocess.run(
        [sys.executable, "-c", code, s3, "after-commit:3"],
        cwd=Path(__file__).parent,
        timeout=PATIENCE,
        check=False,
    )
    assert died.returncode == -9
    assert inspect_query(f"{s3}/ck")["batch"] == 3
    run = start_query(spark, s3)
    run.await_termination()
    assert run.engine == "resident"
    whole = spark.read.format("penstock-traffic").options(**STREAM).load()
    assert run.progress["totals"]["rows"] == whole.count()
    made = results(f"{s3}/out")
    answer = rows([question().evaluate(whole).toArrow()])
    assert made == [row for row in answer if row[1] <= last_due(whole)]
    assert len({row[1] for row in made}) > 3
    assert len(read(f"{s3}/ck/journal.jsonl").runs["started"]) == 2
    assert len(read(f"{s3}/ck/journal.jsonl").observations["time"]) > 0
    with pytest.raises(PenstockError, match=r"in an object store and Spark reads this stream itself"):
        question().start(traffic(spark).select("*"), output=f"{s3}/o2", checkpoint=f"{s3}/ck2")


@ps.operator(keys="key", state={"n": int}, output={"key": int, "n": int})
def count(rows, state, output):
    output.emit({"key": rows.column("key"), "n": running_count(rows.slots, state["n"])})


def test_a_flow_keeps_state_output_and_rows_for_functions_in_the_store(spark, s3):
    handed = {}

    def keep(frame, batch):
        handed[batch] = rows([frame.toArrow()])

    for engine in (
        "resident",
        "jobs",
    ):  # the second start finds nothing more to read, and state that is whole
        flow = ps.Flow("counts")
        counts = flow.source("traffic", traffic(spark, rowsPerBatch="2000", keys="20")).through(count)
        counts.sink("files").sink("function", keep)
        run = flow.start(spark, output=f"{s3}/out", checkpoint=f"{s3}/ck", available_now=True, engine=engine)
        run.await_termination()
    read_in = rows(
        [spark.read.format("penstock-traffic").options(**STREAM, keys="20").load().select("key").toArrow()]
    )
    numbered = [(key, n + 1) for key, many in Counter(k for (k,) in read_in).items() for n in range(many)]
    assert results(f"{s3}/out/files") == sorted(numbered)
    assert sorted(row for some in handed.values() for row in some) == sorted(numbered)
    assert len(handed) > 2
    assert inspect_flow(f"{s3}/ck")["operators"]["count"]["keys"] == len({key for (key,) in read_in})
