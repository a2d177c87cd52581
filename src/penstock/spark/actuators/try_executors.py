"""Child process of the executors' probe: a standalone cluster on loopback, one executor more, one less."""

import json
import sys

import penstock.spark
from penstock.core.errors import PenstockError
from penstock.spark.actuators.executor_probe import failed, probe, reach
from penstock.spark.actuators.executors import Executors
from penstock.spark.actuators.probe_result import ProbeResult
from penstock.spark.cluster import LocalCluster


def main() -> None:
    """Print the finding as one line of JSON."""
    wait = float(sys.argv[1])
    try:
        found = _tried(wait)
    except PenstockError as error:
        found = failed(error)
    print(json.dumps(found.as_dict()), flush=True)  # noqa: T201 - the parent reads this line


def _tried(wait: float) -> ProbeResult:
    with LocalCluster(workers=2, cores=1, memory="512m") as cluster:
        spark = penstock.spark.session(
            cluster.master, app="penstock-doctor", config=cluster.session_config(executor_memory="512m")
        )
        with penstock.spark.running(spark):
            reach(Executors(spark, warm=()), 1, wait)
            return probe(spark, wait)


if __name__ == "__main__":
    main()
