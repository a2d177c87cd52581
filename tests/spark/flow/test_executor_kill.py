"""An executor dies while a flow runs on a cluster: Spark runs its tasks again, and nothing shows in the results."""

import os
import signal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.apps import wordcount
from waiting import PATIENCE, until

pytestmark = [pytest.mark.cluster, pytest.mark.kill]

DRIVER = """
    import sys
    from pathlib import Path
    import penstock, penstock.spark
    from penstock.apps import wordcount
    from penstock.spark.cluster import LocalCluster
    base = Path(sys.argv[2])
    spark = penstock.spark.session(sys.argv[1], config=LocalCluster().session_config(executor_memory="512m"))
    stream = spark.readStream.schema("line string").option("maxFilesPerTrigger", 1).parquet(str(base / "in"))
    flow = penstock.Flow("wordcount")
    wordcount.build(flow.source("lines", stream)).sink("counts")
    run = flow.start(spark, checkpoint=base / "ck", output=base / "out", available_now=True, replicas={"count": 2})
    run.listen(lambda profile: print("batch", profile.batch, flush=True))
    run.await_termination()
    spark.stop()
"""


def test_killing_an_executor_changes_nothing(drive, cluster, tmp_path):
    listed = wordcount.sentences(1800)
    (tmp_path / "in").mkdir()
    for number in range(3):
        table = pa.table({"line": listed[number * 600 : (number + 1) * 600]})
        pq.write_table(table, tmp_path / "in" / f"{number}.parquet")
    child = drive(DRIVER, tmp_path)
    assert child.stdout.readline().startswith("batch")
    os.kill(until(lambda: executors(cluster.pids), "an executor")[0], signal.SIGKILL)
    out, err = child.communicate(timeout=PATIENCE)
    assert child.returncode == 0, err[-2000:]
    assert out.count("batch") == 2
    files = sorted((tmp_path / "out" / "counts").glob("*.parquet"))
    rows = [row for file in files for row in pq.read_table(file).to_pylist()]
    assert {r["word"]: r["count"] for r in rows} == dict(wordcount.oracle(listed))
    assert len(rows) == 1800 * wordcount.WORDS_A_LINE


def executors(roots):
    """Processes of executors below the cluster's own."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            command = (entry / "cmdline").read_bytes()
            parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
        except OSError:
            continue
        if b"CoarseGrainedExecutorBackend" in command and parent in roots:
            found.append(int(entry.name))
    return found
