"""A smoke suite for any release of Spark: scripts/smoke-spark VERSION runs it in an environment of its own.

It is no part of ``make test``: one file, one query, one flow and one attached query, each with a kill.
"""

import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pyspark
import pytest

import penstock as ps
from penstock.core.journal import MemoryJournal
from penstock.dataflow import running_count
from penstock.policies import Static
from small_query import last_due, question
from waiting import PATIENCE, until

STREAM = {"model": "poisson", "rate": "2000", "dims": "2", "seconds": "4", "seed": "5", "keys": "20"}


def source(reader, **options):
    return reader.format("penstock-traffic").options(**(STREAM | options)).load()


@ps.operator(keys="key", state={"n": int}, output={"key": int, "n": int})
def count(rows, state, output):
    output.emit({"key": rows.column("key"), "n": running_count(rows.slots, state["n"])})


def start(kind, spark, folder, engine):
    places = {
        "output": f"{folder}/out",
        "checkpoint": f"{folder}/ck",
        "available_now": True,
        "engine": engine,
    }
    frame = source(spark.readStream, rowsPerBatch="1000")
    if kind == "query":
        return question().start(frame, **places)
    flow = ps.Flow("counts")
    flow.source("traffic", frame).through(count).sink("counts")
    return flow.start(spark, **places)


def rows(folder):
    return sorted(tuple(r.values()) for r in pq.read_table(folder).to_pylist())


def child(kind, folder, engine, kill):
    """A driver that is killed at a point of a batch."""
    from penstock.testing.crashes import kill_at

    kill_at(kill)
    start(kind, ps.spark.session("local[4]"), folder, engine).await_termination()


@pytest.fixture(scope="module")
def spark():
    made = ps.spark.session("local[4]")
    print(f"Spark {pyspark.__version__}")  # noqa: T201 - the release that was tried
    yield made
    made.stop()


@pytest.mark.parametrize("engine", ["resident", "jobs"])
@pytest.mark.parametrize("kind", ["query", "flow"])
def test_a_run_that_is_killed_and_started_again_gives_what_an_undisturbed_one_gives(
    spark, tmp_path, kind, engine
):
    code = "from smoke_spark import child; import sys; child(*sys.argv[1:])"
    died = subprocess.run(
        [sys.executable, "-c", code, kind, str(tmp_path), engine, "after-commit:0"],
        cwd=Path(__file__).parent,
        timeout=PATIENCE,
        check=False,
    )
    assert died.returncode == -signal.SIGKILL
    run = start(kind, spark, tmp_path, engine)
    run.await_termination()
    assert run.engine == engine
    whole = source(spark.read)
    if kind == "query":
        made = rows(tmp_path / "out")
        answer = sorted(tuple(r.values()) for r in question().evaluate(whole).toArrow().to_pylist())
        assert len(made) > 10
        assert made == [row for row in answer if row[1] <= last_due(whole)]
    else:
        keys = Counter(row.key for row in whole.select("key").collect())
        assert rows(tmp_path / "out" / "counts") == sorted((k, n + 1) for k in keys for n in range(keys[k]))


def test_an_attached_query_is_observed_and_its_executors_change(tmp_path):
    code = "from smoke_spark import attached; attached()"
    ran = subprocess.run(
        [sys.executable, "-c", code],
        cwd=Path(__file__).parent,
        timeout=PATIENCE,
        check=False,
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr[-2000:]


def attached():
    """On a cluster of its own: a query whose policy gives one of two executors back, a second one asked for, and one killed."""
    from penstock.spark.actuators.executor_status import registered
    from penstock.spark.cluster import LocalCluster

    with LocalCluster(workers=1, cores=2, memory="2g") as cluster:
        spark = ps.spark.session(cluster.master, config=cluster.session_config())
        stream = spark.readStream.format("rate").option("rowsPerSecond", 50).load()
        query = stream.writeStream.format("noop").trigger(processingTime="1 second").start()
        journal = MemoryJournal()
        until(lambda: len(executors(registered(spark))) == 2, "two executors are there")
        handle = ps.attach(query, policy=Static(executors=1), executors=(1, 2), journal=journal, period=1.0)
        until(lambda: len(executors(registered(spark))) == 1, "the policy gave one back")
        until(lambda: any(r["kind"] == "observation" for r in journal.records), "something was observed")
        handle.pause()
        handle.rescale(executors=2)
        until(lambda: len(executors(registered(spark))) == 2, "a second one came on request")
        os.kill(executor_pids(spark)[0], signal.SIGKILL)
        before = query.lastProgress["batchId"]
        until(lambda: query.lastProgress["batchId"] > before + 3, "the query goes on")
        until(lambda: len(executors(registered(spark))) == 2, "two executors are there again")
        handle.stop()
        query.stop()
        spark.stop()


def executors(found):
    return [e for e in found if e.id != "driver"]


def executor_pids(spark):
    found = spark.sparkContext.parallelize(range(8), 8).map(lambda _: os.getppid()).distinct().collect()
    # A Python worker's parent is the daemon, whose parent is the executor.
    return sorted({int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1]) for pid in found})
