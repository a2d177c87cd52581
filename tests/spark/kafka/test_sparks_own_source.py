"""Spark's own Kafka connector on a real cluster: a plain query from a topic, attached to and held to a lag."""

import json

import pytest

from kafka_topics import new_topic, send
from waiting import PATIENCE

pytestmark = pytest.mark.cluster

#: A user's program: a topic in, a wait for each row, files out. Arguments: master, brokers, topic, folder.
PLAIN = """
    import json, sys, time
    from pathlib import Path
    import penstock, penstock.spark
    from penstock.core.journal import MemoryJournal
    from penstock.policies import Static
    from penstock.spark.cluster import LocalCluster
    from waiting import until

    master, servers, topic, folder = *sys.argv[1:4], Path(sys.argv[4])
    spark = penstock.spark.session(master, config=LocalCluster().session_config(), kafka=True)

    def looked_up(batches):
        for batch in batches:
            time.sleep(0.002 * batch.num_rows)
            yield batch

    options = {"kafka.bootstrap.servers": servers, "subscribe": topic, "startingOffsets": "earliest"}
    rows = spark.readStream.format("kafka").options(**options, maxOffsetsPerTrigger=200).load()
    query = (
        rows.selectExpr("partition", "offset").mapInArrow(looked_up, "partition int, offset long")
        .writeStream.option("checkpointLocation", str(folder / "checkpoint")).start(str(folder / "out"))
    )
    journal = MemoryJournal()
    with penstock.spark.running(spark):
        handle = penstock.attach(
            query, Static(executors=1), executors=(1, 3), target_lag=500, period=1.0, journal=journal
        )

        def waiting():
            return sum(q["backlog"] for q in handle.progress.get("queries", {}).values())

        seen = until(lambda: waiting() > 500 and waiting(), "a backlog")
        reason = until(lambda: [r for r in journal.texts("decision") if "rows wait and 500 may" in r], "a decision")[0]
        until(lambda: handle.progress.get("executors", 0) > 1, "more executors")
        query.processAllAvailable()
        left = until(lambda: waiting() <= 500 and "little", "the end of the backlog")
        handle.stop()
        query.stop()
        found = spark.read.parquet(str(folder / "out"))
        print(json.dumps({"seen": seen, "reason": reason, "left": left, "rows": found.count(),
                          "distinct": found.distinct().count()}), flush=True)
"""


def test_a_query_from_sparks_own_source_is_held_to_a_lag(drive, broker, tmp_path):
    topic = new_topic(broker, 3)
    send(broker, topic, [{"n": n} for n in range(6_000)], 3)
    child = drive(PLAIN, broker.servers, topic, tmp_path)
    out, errors = child.communicate(timeout=PATIENCE)
    assert child.returncode == 0, errors[-2000:]
    told = json.loads(out.strip().splitlines()[-1])
    assert told["rows"] == told["distinct"] == 6_000
    assert "executors to work that off" in told["reason"] or "one executor more" in told["reason"]
