"""Tries whether executors can be added and given back."""

import json
import subprocess
import sys
import time

from pyspark.sql import SparkSession

from penstock.core.errors import PenstockError, TimedOutError
from penstock.spark.actuators.executors import NAME, Executors
from penstock.spark.actuators.probe_result import ProbeResult


def probe(spark: SparkSession | None = None, wait: float = 60.0) -> ProbeResult:
    """Ask a cluster for one more executor and give it back; without a session a cluster is started on loopback."""
    try:
        if spark is None:
            return _probe_on_loopback(wait)
        executors = Executors(spark, warm=())
        start = executors.observed
        seconds = reach(executors, start + 1, wait)
        reach(executors, start, wait)
    except PenstockError as error:
        return failed(error)
    return ProbeResult(
        NAME,
        True,
        f"{start} to {start + 1} executors in {seconds:.1f} s and back on {spark.sparkContext.master}.",
    )


def failed(error: PenstockError) -> ProbeResult:
    """What a failure says: that it cannot be done, or only that it took too long here and now."""
    if isinstance(error, TimedOutError):
        return ProbeResult(
            NAME, False, str(error), "Try again when the machine has less to do.", unknown=True
        )
    return ProbeResult(NAME, False, str(error), "Use a standalone, YARN or Kubernetes master.")


def reach(executors: Executors, count: int, wait: float) -> float:
    """Bring an application to so many executors; returns the seconds it took."""
    start = time.monotonic()
    executors.set_target(count, start)
    while (now := time.monotonic()) - start < wait:
        executors.advance(now)
        if executors.observed == count:
            return now - start
        time.sleep(0.1)
    raise TimedOutError(f"The cluster did not come to {count} executor(s) within {wait:.0f} s.")


def _probe_on_loopback(wait: float) -> ProbeResult:
    """In a child process: a process has one Spark context, and a probe must not occupy it."""
    try:
        ended = subprocess.run(
            [sys.executable, "-m", "penstock.spark.actuators.try_executors", str(wait)],
            capture_output=True,
            text=True,
            timeout=wait * 2,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise TimedOutError(
            f"A standalone cluster on loopback did not answer within {wait * 2:.0f} s."
        ) from None
    lines = ended.stdout.strip().splitlines()
    if not lines or not lines[-1].startswith("{"):
        why = (ended.stderr.strip().splitlines() or ["it ended without a word"])[-1]
        raise PenstockError(f"A standalone cluster on loopback could not be tried ({why}).")
    return ProbeResult(**json.loads(lines[-1]))
