"""The two sources in real Spark queries."""

import time

import numpy as np
import pytest

from penstock.spark.sources import register
from penstock.traffic.spec import StreamSpec
from penstock.traffic.trace import Trace, write_trace
from waiting import PATIENCE, until

pytestmark = pytest.mark.spark
OPTIONS = {
    "model": "map2", "rate": "20000", "dispersion": "500", "dims": "3", "keys": "10",
    "delayMean": "0.2", "seed": "3", "seconds": "6",
}  # fmt: skip


@pytest.fixture
def sources(spark):
    register(spark)
    return spark


def _expected():
    return StreamSpec.parse(OPTIONS).build().table()


def _write(frame, folder, **trigger):
    return (
        frame.writeStream.format("parquet")
        .option("path", str(folder / "rows"))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(**trigger)
        .start()
    )


def _same(spark, folder, wanted):
    found = spark.read.parquet(str(folder / "rows")).orderBy("arrival").toArrow()
    for column in ("arrival", "key", "a0", "a2"):
        assert np.array_equal(found[column].to_numpy(), wanted[column].to_numpy()), column


def test_reading_at_once_gives_the_stream_of_the_seed(sources):
    found = sources.read.format("penstock-traffic").options(**OPTIONS, partitions="3").load()
    assert found.rdd.getNumPartitions() == 3
    assert np.array_equal(found.toArrow()["arrival"].to_numpy(), _expected()["arrival"].to_numpy())


def test_a_stopped_query_goes_on_where_it_was(sources, tmp_path):
    reader = sources.readStream.format("penstock-traffic").options(**OPTIONS)
    first = _write(reader.option("rowsPerBatch", "10000").load(), tmp_path, processingTime="0 seconds")
    until(lambda: (first.lastProgress or {}).get("batchId", 0) >= 1, "a second batch", every=0.01)
    first.stop()
    done = sources.read.parquet(str(tmp_path / "rows")).count()
    assert 0 < done < len(_expected())
    second = _write(reader.option("rowsPerBatch", "60000").load(), tmp_path, availableNow=True)
    assert second.awaitTermination(PATIENCE)
    assert max(p["numInputRows"] for p in second.recentProgress) <= 60_000
    _same(sources, tmp_path, _expected())


def test_a_live_stream_keeps_the_pace_of_the_clock(sources):
    options = {"rate": "5000", "realtime": "true", "dims": "8", "seed": "1"}
    frame = sources.readStream.format("penstock-traffic").options(**options).load()
    began, seen = time.monotonic(), {}
    query = frame.writeStream.format("noop").trigger(processingTime="500 milliseconds").start()

    def due_and_delivered():
        seen.update((p["batchId"], p["numInputRows"]) for p in query.recentProgress)
        delivered = sum(seen.values())  # read first: what is due grows meanwhile
        due = 5000 * (time.monotonic() - began)
        assert delivered < 1.1 * due
        return delivered > 10_000 and delivered > 0.5 * due

    try:
        until(due_and_delivered, "half of what was due, however long a batch takes here")
    finally:
        query.stop()


def test_a_trace_is_replayed(sources, tmp_path):
    arrival = np.cumsum(np.random.default_rng(1).exponential(0.001, 30_000))
    write_trace(tmp_path / "trace.csv.gz", Trace(arrival))
    path = str(tmp_path / "trace.csv.gz")
    frame = (
        sources.readStream.format("penstock-replay")
        .option("rowsPerBatch", "7000")
        .option("speed", "2")
        .load(path)
    )
    assert _write(frame, tmp_path, availableNow=True).awaitTermination(PATIENCE)
    found = sources.read.parquet(str(tmp_path / "rows")).orderBy("arrival").toArrow()
    assert found["arrival"].to_numpy() == pytest.approx(arrival / 2.0)
    whole = sources.read.format("penstock-replay").load(path)
    assert whole.count() == 30_000
