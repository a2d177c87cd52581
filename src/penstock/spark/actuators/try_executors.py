"""Child process of the executors' probe: a standalone cluster on loopback, one executor more, one less."""

import json
import sys

import penstock.spark
from penstock.spark.actuators.executor_probe import probe, reach
from penstock.spark.actuators.executors import Executors
from penstock.spark.cluster import LocalCluster


def main() -> None:
    """Print the finding as one line of JSON."""
    wait = float(sys.argv[1])
    with LocalCluster(workers=2, cores=1, memory="512m") as cluster:
        spark = penstock.spark.session(
            cluster.master, app="penstock-doctor", config=cluster.session_config(executor_memory="512m")
        )
        with penstock.spark.running(spark):
            reach(Executors(spark, warm=()), 1, wait)
            found = probe(spark, wait)
    print(json.dumps(found.as_dict()), flush=True)  # noqa: T201 - the parent reads this line


if __name__ == "__main__":
    main()
