"""One picture of a run of a preference query: load, workers and lag over the same time."""

from math import isnan
from pathlib import Path
from typing import Any

import numpy as np

from penstock.core.arrays import Floats
from penstock.core.control_quality import RunningQuality, resources
from penstock.core.tables import Tables
from penstock.picture import BLUE, GREEN, INK, ORANGE, PURPLE, picture

#: Seconds of the moving figures: short enough for a burst, long enough for several batches.
SPAN = 1.0


def draw_run(tables: Tables, path: Path, skip: float = 0.0) -> Path:
    """Draw the run from ``skip`` seconds on into a file; gives the path back."""
    seen, panes, windows = tables.observations, tables.stage("panes"), tables.stage("windows")
    kept = seen["time"] >= skip
    at = seen["time"][kept] - skip
    rate = smooth(at, panes["arrival_rate"][kept]) / 1e3
    with picture(path, 3, 1, size=(9.5, 6.6), sharex=True, height_ratios=[1.1, 1, 1]) as (load, workers, lag):
        load.fill_between(at, rate, color=BLUE, alpha=0.18, linewidth=0)
        load.plot(at, rate, color=BLUE)
        load.set(ylabel="1000 rows/s", title="Arrivals")
        held = np.array([resources(o) for o in tables.replay()])[kept]
        _workers(workers, at, held, panes["workers_observed"][kept], windows["workers_observed"][kept])
        _lag(lag, at, seen.get("answer_lag", np.full(len(kept), np.nan))[kept])
        for axis in (load, workers, lag):
            axis.set_ylim(bottom=0)
            axis.margins(x=0)
        lag.set_xlabel("seconds")
    return path


def _workers(axis: Any, at: Floats, held: Floats, panes: Floats, windows: Floats) -> None:
    """The workers there are, and those that each stage uses of them; stages that work in turn use the same."""
    axis.fill_between(at, held, step="post", color=INK, alpha=0.12, linewidth=0)
    axis.step(at, panes, where="post", color=GREEN, label="panes")
    axis.step(at, windows, where="post", color=ORANGE, linestyle=":", label="windows")
    axis.axhline(
        float(np.max(held, initial=1.0)), color=INK, linestyle="--", linewidth=1.0, label="most at any time"
    )
    axis.set(ylabel="workers", title="Workers, and how many of them each stage uses")


def _lag(axis: Any, at: Floats, values: Floats) -> None:
    known = ~np.isnan(values)
    axis.plot(at[known], values[known], color=PURPLE, linewidth=1.0)
    axis.set(
        ylabel="seconds", title="Lag of the answers: from the moment a window can be complete to its commit"
    )


def smooth(at: Floats, values: Floats) -> Floats:
    """Mean over the last second.

    >>> smooth(np.array([0.0, 0.5, 2.0]), np.array([1.0, 3.0, 5.0])).tolist()
    [1.0, 2.0, 5.0]
    """
    sums = np.concatenate([[0.0], np.cumsum(np.nan_to_num(values))])
    begin = np.searchsorted(at, at - SPAN, side="left")
    end = np.arange(1, len(at) + 1)
    return np.asarray((sums[end] - sums[begin]) / (end - begin))


def headline(tables: Tables, skip: float = 0.0) -> str:
    """The run in one sentence."""
    quality, lags, loads, workers = RunningQuality(), list[float](), list[float](), list[float]()
    for o in tables.replay():
        if o.time >= skip:
            quality.observe(o)
            loads.append(o.stage("panes").arrival_rate)
            workers.append(resources(o))
            if not isnan(lag := o.extra.get("answer_lag", float("nan"))):
                lags.append(lag)
    if not lags:
        return "No window was answered yet; let it run longer."
    low, high = np.percentile(loads, [10, 99])
    middle, upper = np.percentile(lags, [50, 95])
    saved = 1 - quality.core_seconds / quality.static_peak if quality.static_peak else 0.0
    return (
        f"{low:,.0f} to {high:,.0f} rows a second; {min(workers):.0f} to {max(workers):.0f} workers; half of the answers within "
        f"{middle:.2f} s, 95 % within {upper:.2f} s of their window; {saved:.0%} fewer worker-seconds than the most all the time."
    )
