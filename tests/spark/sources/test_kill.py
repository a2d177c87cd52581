"""A query on the traffic source whose process is killed goes on as if nothing had happened."""

import os
import signal
import subprocess
import sys
import textwrap

import numpy as np
import pytest

from penstock.spark.sources import register
from penstock.traffic.spec import StreamSpec
from waiting import PATIENCE, until

pytestmark = [pytest.mark.spark, pytest.mark.kill]
OPTIONS = {
    "model": "self-similar",
    "rate": "10000",
    "dims": "2",
    "delay": "heavy",
    "delayMean": "0.1",
    "seconds": "10",
}

PROGRAM = """
    import sys
    import penstock.spark
    from penstock.spark.sources import register

    spark = penstock.spark.session("local[2]")
    register(spark)
    frame = spark.readStream.format("penstock-traffic").options(**{options}, rowsPerBatch="9000").load()
    query = (
        frame.writeStream.format("parquet").option("path", sys.argv[1] + "/rows")
        .option("checkpointLocation", sys.argv[1] + "/checkpoint").trigger(processingTime="0 seconds").start()
    )
    query.awaitTermination()
"""


def test_a_killed_query_delivers_every_row_once_after_its_restart(spark, tmp_path):
    script = tmp_path / "program.py"
    script.write_text(textwrap.dedent(PROGRAM).replace("{options}", repr(OPTIONS)))
    child = subprocess.Popen(
        [sys.executable, str(script), str(tmp_path)],
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    third = tmp_path / "checkpoint" / "commits" / "2"
    try:
        until(third.exists, "three batches", unless=lambda: child.poll() is not None, every=0.01)
    finally:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()
    register(spark)
    frame = spark.readStream.format("penstock-traffic").options(**OPTIONS, rowsPerBatch="70000").load()
    query = (
        frame.writeStream.format("parquet")
        .option("path", str(tmp_path / "rows"))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(PATIENCE)
    found = spark.read.parquet(str(tmp_path / "rows")).orderBy("arrival").toArrow()
    wanted = StreamSpec.parse(OPTIONS).build().table()
    for column in ("arrival", "a0", "a1"):
        assert np.array_equal(found[column].to_numpy(), wanted[column].to_numpy()), column
