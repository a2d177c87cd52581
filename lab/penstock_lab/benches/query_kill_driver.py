"""The driver that ``penstock bench query`` kills: ``python -m penstock_lab.benches.query_kill_driver SPEC.json``."""

import json
import sys
from pathlib import Path

import penstock as ps
from penstock.spark import session


def main(path: str) -> None:
    """Run the query from its checkpoint to the end of the stream."""
    spec = json.loads(Path(path).read_text())
    spark = session("local[2]", app="penstock bench kills")
    schema = spark.read.parquet(spec["stream"]).schema
    frame = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(spec["stream"])
    query = ps.PreferenceQuery(
        ps.skyline_of(*(ps.minimize(f"a{i}") for i in range(spec["dims"]))),
        time="event_time",
        window="1 second",
        slide="200 milliseconds",
    )
    work = Path(spec["work"])
    query.start(frame, output=work / "out", checkpoint=work / "ck", available_now=True).await_termination()
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1])
