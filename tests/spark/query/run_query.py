"""A driver of its own for the recovery tests: run_query.py IN OUT CHECKPOINT [MASTER]; CRASH_AT=POINT:BATCH kills it there."""

import os
import sys

import penstock as ps
import penstock.spark
from penstock.testing.crashes import kill_at


def main(source: str, output: str, checkpoint: str, master: str = "local[2]") -> None:
    if os.environ.get("CRASH_AT"):
        kill_at(os.environ["CRASH_AT"])
    spark = penstock.spark.session(master, config={"spark.executor.memory": "512m", "spark.cores.max": "2"})
    schema = "event_time timestamp, price double, rating long, region string, offer long"
    stream = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(source)
    query = ps.PreferenceQuery(
        ps.skyline_of(ps.minimize("price"), ps.maximize("rating")),
        time="event_time",
        window="1 second",
        slide="200 milliseconds",
        pane_workers=2,
        window_workers=2,
    )
    run = query.start(stream, output=output, checkpoint=checkpoint, available_now=True)
    run.listen(lambda p: print("committed", p["batch"], flush=True))  # noqa: T201 - the test reads it
    run.await_termination()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
