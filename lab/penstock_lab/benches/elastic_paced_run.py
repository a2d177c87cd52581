"""One run of a paced flow of ``penstock bench elastic`` in a process of its own; prints its figures as JSON."""

import json
import sys
import time
from collections.abc import Callable, Mapping
from math import isnan
from pathlib import Path
from typing import Any

import numpy as np

from penstock.apps import finance, logs, trading
from penstock.core.arrays import Floats
from penstock.dataflow.operators import operator
from penstock.dataflow.rows import Rows
from penstock.spark.flow.flow import Flow
from penstock.spark.flow.profile import Profile
from penstock.spark.session import session
from penstock_lab.benches.elastic_watch import Watched, changes, over_time, percentile, policy_of, watched

SYMBOLS, LISTED = 50, 8_000
#: Where the tuples of a batch are that stand for all of them.
SPREAD = (np.arange(40) + 0.5) / 40
#: Signatures of the log analysis: the usual seven, and names that are not to log in.
PATTERNS = (*logs.PATTERNS, *(f"for (invalid user )?blocked{n:04d} from" for n in range(2_000)))


@operator(inputs={"in": {"arrival": float}}, output={"line": str})
def write_lines(rows: Rows, output: Any) -> None:
    """A log line for each row of a generated stream."""
    output.emit({"line": [logs.made_line(int(v)) for v in rows["arrival"] * 1e6]})


@operator(inputs={"in": {"arrival": float}}, output={"value": "int64"})
def number(rows: Rows, output: Any) -> None:
    """The microsecond of each row of a generated stream: what trades and quotes are made of."""
    output.emit({"value": (rows["arrival"] * 1e6).astype(np.int64)})


def _trading(flow: Any, stream: Any) -> None:
    trading.build(flow.source("rows", stream).through(trading.make_walk_quotes)).sink("candles")


def _finance(flow: Any, stream: Any) -> None:
    numbers = flow.source("rows", stream).through(number)
    finance.build(*[numbers.through(one) for one in finance.market(LISTED)]).sink("bargains")


def _logs(flow: Any, stream: Any) -> None:
    counts, matches = logs.build(flow.source("rows", stream).through(write_lines), PATTERNS)
    counts.sink("components")
    matches.sink("matches")


#: Application -> what makes its flow.
APPS: dict[str, Callable[[Any, Any], None]] = {"trading": _trading, "finance": _finance, "logs": _logs}


def main(text: str) -> None:
    """Run, measure, print."""
    spec = json.loads(text)
    spark = session("local[6]", app="penstock bench elastic", config={"spark.default.parallelism": "2"})
    figures = measured(spec, spark)
    spark.stop()
    sys.stdout.write("\n" + json.dumps(figures) + "\n")


def measured(spec: Mapping[str, Any], spark: Any) -> dict[str, float]:
    """The figures of the run after its warm-up."""
    folder, batches, shares = Path(spec["folder"]), list[Profile](), list[tuple[float, float]]()
    flow, scaled = Flow(spec["app"]), spec["scaled"]
    APPS[spec["app"]](flow, stream(spark, spec))
    run = flow.start(
        spark,
        checkpoint=folder / "ck",
        output=folder / "out",
        trigger="500 milliseconds",
        engine="resident",
        cpu={scaled: spec["share"]},
        replicas={scaled: spec.get("replicas", 1)},
        policy=policy_of(spec),
        period=1.0,
    )
    run.listen(batches.append)
    seen = watched(run, batches, spec, lambda: shares.append((time.time(), run.cpu[scaled])))
    share = over_time(shares, seen.began, seen.ended) / seen.seconds
    return figures_of(seen, scaled) | {"cpu": share, "share_changes": changes([value for _, value in shares])}


def stream(spark: Any, spec: Mapping[str, Any]) -> Any:
    """A generated stream in real time."""
    options = {
        **trading.walk_options(spec["rate"], SYMBOLS),
        "seed": str(spec["seed"]),
        "realtime": "true",
        "seconds": str(spec["seconds"] + spec["warm_up"] + 300),
        **spec["load"],
    }
    return spark.readStream.format("penstock-traffic").options(**options).load()


def figures_of(run: Watched[Profile], scaled: str) -> dict[str, float]:
    """Delays from the arrival of tuples to the end of their batch; of those that wait when the time is over, up to then."""
    delays, rows = delays_of(run)
    steps = [(p.started, float(_replicas(p, scaled))) for p in [*run.known, *run.after]]
    return {
        "processed": sum(p.rows for p in run.seen) / run.seconds,
        "delay_mean": float(np.average(delays, weights=rows)) if rows.sum() else float("nan"),
        "delay_p95": percentile(delays, rows, 95),
        "worker_seconds": over_time(steps, run.began, run.ended),
        "changes": changes([_replicas(p, scaled) for p in [*run.before[-1:], *run.seen]]),
    }


def delays_of(run: Watched[Profile]) -> tuple[Floats, Floats]:
    """Delays, and the tuples that each stands for: tuples are taken in order of arrival, and the source tells how many have come by each commit."""
    commits = np.array([p.started + p.seconds for p in run.known])
    taken = np.cumsum([p.rows for p in run.known], dtype=float)
    left = np.array([0.0 if isnan(p.left) else p.left for p in run.known])
    later = waiting(run)
    times = np.array([run.known[0].started, *commits, run.ended])
    come = np.maximum.accumulate([taken[0], *(taken + left), taken[-1] + later])
    rows = [float(p.rows) for p in run.known]
    known = list(zip(commits, taken - rows, rows, strict=True))
    ends = [*known[len(run.before) :], (run.ended, taken[-1], later)]
    delays = [end - np.interp(first + size * SPREAD, come, times) for end, first, size in ends]
    return np.concatenate(delays), np.repeat([size / len(SPREAD) for _, _, size in ends], len(SPREAD))


def waiting(run: Watched[Profile]) -> float:
    """Tuples that wait when the time is over: those that did at the last commit, and what has come since at the mean rate."""
    first, last = run.known[0], run.known[-1]
    left, commit = (0.0 if isnan(last.left) else last.left), last.started + last.seconds
    rate = (sum(p.rows for p in run.known[1:]) + left) / (commit - first.started)
    return left + rate * (run.ended - commit)


def _replicas(profile: Profile, scaled: str) -> int:
    return profile.plan.regions[scaled].replicas


if __name__ == "__main__":
    main(sys.argv[1])
