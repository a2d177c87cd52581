"""One run of a query of ``penstock bench elastic`` in a process of its own; prints its figures as JSON."""

import json
import sys
from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

import penstock as ps
from penstock.policies import Fuzzy, Threshold
from penstock.spark import session
from penstock_lab.benches.elastic import watched
from penstock_lab.worker_shares import held_to

DIMS = 12
WINDOW = "5 seconds"
#: Workers of each stage that a policy may have.
MOST = 3
POLICIES: dict[str, Callable[[], Any]] = {
    "Fuzzy": lambda: Fuzzy(limit=2 * MOST, interval=1.0),
    "Threshold": lambda: Threshold(limits=(1, MOST)),
}


def main(text: str) -> None:
    """Run, measure, print."""
    spec = json.loads(text)
    spark = session("local[4]", app="penstock bench elastic", config={"spark.default.parallelism": "2"})
    workers = spec.get("workers", 1)
    query = ps.PreferenceQuery(
        ps.top_delta_of(100, *[ps.minimize(f"a{i}") for i in range(DIMS)]),
        time="event_time",
        window=WINDOW,
        slide="200 milliseconds",
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
    folder, seen = Path(spec["folder"]), list[Mapping[str, Any]]()
    run = query.start(
        stream(spark, spec),
        output=folder / "out",
        checkpoint=folder / "ck",
        trigger="200 milliseconds",
        engine="resident",
        policy=POLICIES[spec["policy"]]() if "policy" in spec else None,
        period=1.0,
    )
    run.listen(lambda figures: seen.append(dict(figures)))
    return figures_of(*watched(run, seen, spec))


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


def figures_of(seen: list[Mapping[str, Any]], took: float) -> dict[str, float]:
    """Lags weigh by window; a worker counts while it is planned, at work or not."""
    lags = np.array([f["answer_lag"] for f in seen for _ in range(f["windows"])], dtype=float)
    lags = lags[np.isfinite(lags)]
    workers = [(f["pane_workers"], f["window_workers"]) for f in seen]
    rows = float(sum(f["rows"] for f in seen))
    left = seen[-1]["backlog"] if seen and np.isfinite(seen[-1]["backlog"]) else 0.0
    return {
        "processed": rows / took,
        "busy": float(
            np.mean([max(f["utilisation_panes"], f["utilisation_windows"]) for f in seen] or [np.nan])
        ),
        "of_the_rate": rows / max(rows + left, 1.0),
        "lag_p50": float(np.percentile(lags, 50)) if len(lags) else np.nan,
        "lag_p95": float(np.percentile(lags, 95)) if len(lags) else np.nan,
        "worker_seconds": float(sum(max(w) * f["interval"] for w, f in zip(workers, seen, strict=True))),
        "changes": float(sum(a != b for a, b in pairwise(workers))),
    }


if __name__ == "__main__":
    main(sys.argv[1])
