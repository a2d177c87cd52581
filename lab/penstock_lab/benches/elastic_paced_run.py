"""One run of a paced flow of ``penstock bench elastic`` in a process of its own; prints its figures as JSON."""

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from penstock.apps import logs, trading
from penstock.core.capacity import Knob
from penstock.core.journal import MemoryJournal
from penstock.dataflow.operators import operator
from penstock.dataflow.rows import Rows
from penstock.policies import Mead, Mpc, Threshold
from penstock.policies.threshold import CPU_LEVELS
from penstock.spark.flow.flow import Flow
from penstock.spark.flow.profile import Profile
from penstock.spark.session import session
from penstock_lab.benches.elastic import watched

SYMBOLS, MOST = 50, 3
#: Signatures of the log analysis: the usual seven, and names that are not to log in.
PATTERNS = (*logs.PATTERNS, *(f"for (invalid user )?blocked{n:04d} from" for n in range(2_000)))


@dataclass(frozen=True)
class PacedApp:
    """A flow whose rows come when they come, the operator that is scaled, and the policies by name."""

    make: Callable[[Any, Any], None]
    scaled: str
    policies: Mapping[str, Callable[[float], Any]]


@operator(inputs={"in": {"arrival": float}}, output={"line": str})
def write_lines(rows: Rows, output: Any) -> None:
    """A log line for each row of a generated stream."""
    output.emit({"line": [logs.made_line(int(v)) for v in rows["arrival"] * 1e6]})


def _trading(flow: Any, stream: Any) -> None:
    trading.build(flow.source("rows", stream).through(trading.make_walk_quotes)).sink("candles")


def _logs(flow: Any, stream: Any) -> None:
    counts, matches = logs.build(flow.source("rows", stream).through(write_lines), PATTERNS)
    counts.sink("components")
    matches.sink("matches")


def _mead(model: str) -> Callable[[float], Any]:
    return lambda target: Mead(model=model, target=target, interval=10.0, least=500)


APPS = {
    "trading": PacedApp(
        _trading,
        "algotrader",
        {
            "Mpc": lambda _: Mpc(workers=(1, MOST), stages=("algotrader/0",)),
            "Threshold": lambda _: Threshold(limits=(1, MOST), where="algotrader/0"),
        },
    ),
    "logs": PacedApp(
        _logs,
        "matcher",
        {
            "MAP": _mead("map"),
            "M/G/1": _mead("mg1"),
            "Kingman": _mead("gig1"),
            "Threshold": lambda _: Threshold(
                high=0.7, low=0.5, knob=Knob.CPU_SHARE, levels=CPU_LEVELS, where="matcher/0"
            ),
        },
    ),
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
    app, folder, seen = APPS[spec["app"]], Path(spec["folder"]), list[Profile]()
    flow, journal = Flow(spec["app"]), MemoryJournal()
    app.make(flow, stream(spark, spec))
    run = flow.start(
        spark,
        checkpoint=folder / "ck",
        output=folder / "out",
        trigger="500 milliseconds",
        engine="resident",
        cpu={app.scaled: spec["share"]},
        replicas={app.scaled: spec.get("replicas", 1)},
        policy=app.policies[spec["policy"]](spec["target"]) if "policy" in spec else None,
        period=1.0,
        journal=journal,
    )
    run.listen(seen.append)
    figures = figures_of(*watched(run, seen, spec), app.scaled)
    if "policy" in spec:
        told = journal.tables().stage(f"{app.scaled}/0")
        shares = told["cpu_share_observed"][told["time"] >= told["time"].max() - spec["seconds"]]
        figures |= {"cpu": float(np.mean(shares)), "share_changes": float(np.sum(np.diff(shares) != 0))}
    return {"cpu": spec["share"], "share_changes": 0.0, **figures}


def stream(spark: Any, spec: Mapping[str, Any]) -> Any:
    """A generated stream in real time."""
    options = {
        **trading.walk_options(int(spec["rate"]), SYMBOLS),
        "seed": str(spec["seed"]),
        "realtime": "true",
        "seconds": str(spec["seconds"] + spec["warm_up"] + 300),
        **spec["load"],
    }
    return spark.readStream.format("penstock-traffic").options(**options).load()


def figures_of(seen: list[Profile], took: float, scaled: str) -> dict[str, float]:
    """A tuple waits for its batch, at most since the one before began and half of that on average, and then for its end."""
    batches = [(b.started - a.started, b.seconds, b.rows) for a, b in pairwise(seen) if b.rows]
    gaps, seconds, rows = (np.array(c, dtype=float) for c in zip(*batches, strict=True))
    replicas = [p.plan.regions[scaled].replicas for p in seen]
    busy = [max(p.pipelines[f"{scaled}/0"].seconds) for p in seen if f"{scaled}/0" in p.pipelines]
    return {
        "processed": sum(p.rows for p in seen) / took,
        "busy": float(np.sum(busy)) / took,
        "delay_mean": float(np.average(gaps / 2 + seconds, weights=rows)),
        "delay_p95": float(np.percentile(np.repeat(gaps + seconds, rows.astype(int)), 95)),
        "worker_seconds": float(np.dot(replicas[1:], [b.started - a.started for a, b in pairwise(seen)])),
        "changes": float(sum(a != b for a, b in pairwise(replicas))),
    }


if __name__ == "__main__":
    main(sys.argv[1])
