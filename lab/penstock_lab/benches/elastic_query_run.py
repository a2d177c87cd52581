"""One run of a query of ``penstock bench elastic`` in a process of its own; prints its figures as JSON."""

import json
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

import penstock as ps
from penstock.spark import session
from penstock_lab.benches.elastic_watch import Watched, changes, over_time, percentile, policy_of, watched
from penstock_lab.worker_shares import held_to

DIMS = 12
#: Seconds.
WINDOW, SLIDE = 5.0, 0.2

#: The figures of a batch, and when it was committed (``at``).
Batch = Mapping[str, Any]


def main(text: str) -> None:
    """Run, measure, print."""
    spec = json.loads(text)
    spark = session("local[4]", app="penstock bench elastic", config={"spark.default.parallelism": "2"})
    workers = spec.get("workers", 1)
    query = ps.PreferenceQuery(
        ps.top_delta_of(100, *[ps.minimize(f"a{i}") for i in range(DIMS)]),
        time="event_time",
        window=f"{WINDOW:g} seconds",
        slide=f"{1000 * SLIDE:g} milliseconds",
        disorder=ps.FixedDelay("300 milliseconds"),
        splitting=spec.get("splitting", "AS_PID"),
        pane_workers=workers,
        window_workers=workers,
    )
    with held_to(spec["share"]):
        figures = measured(spec, spark, query)
    spark.stop()
    sys.stdout.write("\n" + json.dumps(figures) + "\n")


def measured(spec: Mapping[str, Any], spark: Any, query: ps.PreferenceQuery) -> dict[str, float]:
    """The figures of the run after its warm-up."""
    folder, batches = Path(spec["folder"]), list[Batch]()
    run = query.start(
        stream(spark, spec),
        output=folder / "out",
        checkpoint=folder / "ck",
        trigger="200 milliseconds",
        engine="resident",
        policy=policy_of(spec),
        period=1.0,
    )
    run.listen(lambda figures: batches.append({**figures, "at": time.time()}))
    return figures_of(watched(run, batches, spec))


def stream(spark: Any, spec: Mapping[str, Any]) -> Any:
    """A generated stream in real time."""
    options = {
        "rate": spec["rate"],
        "dims": DIMS,
        "distribution": "anticorrelated",
        "delayMean": 0.02,
        "realtime": "true",
        "seconds": spec["seconds"] + spec["warm_up"] + 300,
        "seed": spec["seed"],
        **spec["load"],
    }
    reader = spark.readStream.format("penstock-traffic")
    return reader.options(**{k: str(v) for k, v in options.items()}).load()


def figures_of(run: Watched[Batch]) -> dict[str, float]:
    """Lags are those of all windows that were due; a worker counts while it is planned, at work or not."""
    lags, seen = lags_of(run), run.seen
    steps = [(b["at"] - b["seconds"], float(max(_workers(b)))) for b in [*run.known, *run.after]]
    rows, left = float(sum(b["rows"] for b in seen)), run.known[-1]["backlog"]
    return {
        "processed": rows / run.seconds,
        "busy": _busy(seen),
        "of_the_rate": rows / max(rows + (left if np.isfinite(left) else 0.0), 1.0),
        "lag_p50": percentile(lags, [1.0] * len(lags), 50),
        "lag_p95": percentile(lags, [1.0] * len(lags), 95),
        "worker_seconds": over_time(steps, run.began, run.ended),
        "changes": changes([_workers(b) for b in [*run.before[-1:], *seen]]),
    }


def lags_of(run: Watched[Batch]) -> list[float]:
    """Of each window that was given out, from when it was due to its commit; of those that are due since, up to the end."""
    given = [lag for batch in run.seen for lag in _lags(batch)]
    last = max((b["at"] - _lags(b)[-1] for b in run.known if b["windows"]), default=run.began)
    return given + np.arange(run.ended - last - SLIDE, 0.0, -SLIDE).tolist()


def _lags(batch: Batch) -> list[float]:
    """Of the windows of a batch, first to last: they were due at even distances."""
    first, mean = batch["answer_lag_max"], batch["answer_lag"]
    return [float(lag) for lag in np.linspace(first, 2 * mean - first, batch["windows"])]


def _workers(batch: Batch) -> tuple[int, int]:
    return batch["pane_workers"], batch["window_workers"]


def _busy(seen: list[Batch]) -> float:
    """The busy share of the busier stage, over time."""
    if not seen:
        return float("nan")
    shares = [max(b["utilisation_panes"], b["utilisation_windows"]) for b in seen]
    return float(np.average(shares, weights=[b["interval"] for b in seen]))


if __name__ == "__main__":
    main(sys.argv[1])
