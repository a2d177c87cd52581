"""One run of a paced flow of ``penstock bench elastic`` in a process of its own; prints its figures as JSON."""

import json
import sys
import time
from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from penstock.apps import trading
from penstock.policies import Mpc, Threshold
from penstock.spark.flow.flow import Flow
from penstock.spark.flow.profile import Profile
from penstock.spark.session import session

SYMBOLS = 50
#: The region that is scaled.
REGION = "algotrader"
MOST = 3
POLICIES: dict[str, Callable[[], Any]] = {
    "Mpc": lambda: Mpc(workers=(1, MOST), stages=(f"{REGION}/0",)),
    "Threshold": lambda: Threshold(limits=(1, MOST), where=f"{REGION}/0"),
}


def main(text: str) -> None:
    """Run, measure, print."""
    spec = json.loads(text)
    spark = session("local[6]", app="penstock bench elastic", config={"spark.default.parallelism": "2"})
    figures = measured(spec, spark)
    spark.stop()
    sys.stdout.write("\n" + json.dumps(figures) + "\n")


def measured(spec: Mapping[str, Any], spark: Any) -> dict[str, float]:
    """The figures of the run after its warm-up."""
    folder, seen = Path(spec["folder"]), list[Profile]()
    run = flow(spark, spec).start(
        spark,
        checkpoint=folder / "ck",
        output=folder / "out",
        trigger="500 milliseconds",
        engine="resident",
        cpu={REGION: spec["share"]},
        replicas={REGION: spec.get("replicas", 1)},
        policy=POLICIES[spec["policy"]]() if "policy" in spec else None,
        period=1.0,
    )
    run.listen(seen.append)
    while not seen and run.is_active:
        time.sleep(0.1)
    time.sleep(spec["warm_up"])
    first, began = len(seen), time.time()
    time.sleep(spec["seconds"])
    last, took = len(seen), time.time() - began
    run.stop()
    return figures_of(seen[first:last], took)


def flow(spark: Any, spec: Mapping[str, Any]) -> Flow:
    """Quotes whose rate takes a random walk, to candlesticks."""
    options = {**trading.walk_options(int(spec["rate"]), SYMBOLS), "seed": str(spec["seed"]), **spec["load"]}
    options["realtime"], options["seconds"] = "true", str(spec["seconds"] + spec["warm_up"] + 300)
    stream = spark.readStream.format("penstock-traffic").options(**options).load()
    made = Flow("trading")
    quotes = made.source("rows", stream).through(trading.make_walk_quotes)
    trading.build(quotes).sink("candles")
    return made


def figures_of(seen: list[Profile], took: float) -> dict[str, float]:
    """A tuple waits for its batch, at most since the one before began, and then for the end of it."""
    answered = [(b.started + b.seconds - a.started, b.rows) for a, b in pairwise(seen) if b.rows]
    delays = np.repeat([d for d, _ in answered], [r for _, r in answered])
    spans = [b.started - a.started for a, b in pairwise(seen)]
    replicas = [p.plan.regions[REGION].replicas for p in seen]
    busy = [max(p.pipelines[f"{REGION}/0"].seconds) for p in seen if f"{REGION}/0" in p.pipelines]
    return {
        "processed": sum(p.rows for p in seen) / took,
        "busy": float(np.sum(busy)) / took,
        "delay_p50": float(np.percentile(delays, 50)) if len(delays) else np.nan,
        "delay_p95": float(np.percentile(delays, 95)) if len(delays) else np.nan,
        "worker_seconds": float(np.dot(replicas[:-1], spans)) if spans else np.nan,
        "changes": float(sum(a != b for a, b in pairwise(replicas))),
    }


if __name__ == "__main__":
    main(sys.argv[1])
