"""One run of ``penstock bench growth`` in a process of its own: ``python -m ... SPEC`` prints its figures as JSON."""

import json
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.spark import session
from penstock.spark.flow.profile import Profile
from penstock.spark.sources.demo_sources import played
from penstock_lab.benches.flow_operators import WAIT, ask, totals
from penstock_lab.benches.flow_runs import WARM_UP, chain
from penstock_lab.benches.latency_run import cpu_seconds

#: Rows of a batch that waits, and batches.
ROWS, BATCHES = 20_000, 15
#: Rows of a batch while keys are made, and of one that is timed.
LOADED, TOUCHED = 500_000, 50_000


def main(text: str) -> None:
    """Run, measure, print."""
    spec = json.loads(text)
    slots = spec.get("workers", 2) + 2
    spark = session(f"local[{slots}]", app="penstock bench growth", config={"spark.default.parallelism": "2"})
    figures = _waiting(spark, spec) if spec["part"] == "workers" else _keyed(spark, spec)
    spark.stop()
    sys.stdout.write("\n" + json.dumps(figures) + "\n")


def _waiting(spark: Any, spec: Mapping[str, Any]) -> dict[str, Any]:
    random = np.random.default_rng(1)
    tables = [
        pa.table({"key": random.integers(0, 10_000, ROWS), "value": random.random(ROWS)})
        for _ in range(BATCHES)
    ]
    stream = played(spark, tables, Path(spec["folder"]) / "in")
    seen = _run(spark, chain("waiting", stream, ask), spec, {"ask": spec["workers"]})
    seconds = seen["batches"][WARM_UP:]
    return {
        "batch": float(np.median(seconds)),
        "rate": ROWS * len(seconds) / sum(seconds),
        "waiting": WAIT * ROWS,
        "cpu": seen["cpu"],
    }


def _keyed(spark: Any, spec: Mapping[str, Any]) -> dict[str, Any]:
    folder, keys = Path(spec["folder"]), spec["keys"]
    made = played(spark, _every_key(keys), folder / "in")
    began = time.monotonic()
    _run(spark, chain("keys", made, totals), spec, {"totals": 2})
    load = time.monotonic() - began
    random = np.random.default_rng(2)
    touched = [
        pa.table({"key": random.integers(0, keys, TOUCHED), "value": random.random(TOUCHED)})
        for _ in range(BATCHES)
    ]
    stream = played(spark, [*_every_key(keys), *touched], folder / "in")
    seen = _run(spark, chain("keys", stream, totals), spec, {"totals": 2})
    seconds = seen["batches"][WARM_UP:]
    files = [path for path in (folder / "ck").rglob("*") if path.is_file()]
    return {
        "load_rate": keys / load,
        "batch": float(np.median(seconds)),
        "longest": max(seconds),
        "cpu": seen["cpu"],
        "bytes": sum(path.stat().st_size for path in files),
        "restart": seen["first"],
    }


def _every_key(keys: int) -> Iterator[pa.Table]:
    order = np.random.default_rng(3).permutation(keys)
    for start in range(0, keys, LOADED):
        part = order[start : start + LOADED]
        yield pa.table({"key": part, "value": np.ones(len(part))})


def _run(spark: Any, flow: Any, spec: Mapping[str, Any], replicas: Mapping[str, int]) -> dict[str, Any]:
    """Play a stream to its end: seconds of its batches, seconds to the first of them, CPU seconds a batch after the warm-up."""
    folder, batches, began = Path(spec["folder"]), list[float](), time.monotonic()
    cpu: list[tuple[float, float]] = []

    def heard(profile: Profile) -> None:
        batches.append(profile.seconds)
        cpu.append((time.monotonic(), cpu_seconds(spec["mark"])))

    run = flow.start(
        spark,
        checkpoint=folder / "ck",
        output=folder / "out",
        available_now=True,
        engine="resident",
        replicas=replicas,
    )
    run.listen(heard)
    run.await_termination()
    first = min(WARM_UP, len(cpu) - 1)
    spent = (cpu[-1][1] - cpu[first][1]) / max(len(cpu) - 1 - first, 1) if cpu else 0.0
    return {"batches": batches, "first": cpu[0][0] - began, "cpu": spent}


if __name__ == "__main__":
    main(sys.argv[1])
