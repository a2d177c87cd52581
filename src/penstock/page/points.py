"""What the curves of the page show of one observation, by name.

A name is a word, or a word and the places it is of: ``observed|panes``, ``busy|panes|0``. The words stand in :data:`JOINS`
with what becomes of them where points are joined; those that are not there are averaged.
"""

from collections.abc import Iterator
from math import isfinite

from penstock.core.capacity import Capacity
from penstock.core.control_quality import resources
from penstock.core.metrics import Metric
from penstock.core.observation import Observation, StageObservation
from penstock.page.thinning import Join, Joins

JOINS = Joins(
    {
        "peak": Join.MOST,  # the largest arrival rate within a point
        "lag_worst": Join.MOST,
        "p95": Join.MOST,
        "backlog": Join.MOST,
        "planned": Join.LAST,
        "requested": Join.LAST,
        "observed": Join.LAST,
        "share": Join.LAST,
        "slack": Join.LAST,
        "late": Join.LAST,
    }
)

#: Workers of a stage that have a row of their own; beyond that the busiest and the mean tell enough.
MOST_WORKERS = 32

EXECUTORS = "executors"


def points(observation: Observation) -> dict[str, float]:
    """The known figures of an observation."""
    return {name: float(value) for name, value in _all(observation) if isfinite(value)}


def _all(o: Observation) -> Iterator[tuple[str, float]]:
    rate = o.measure(Metric.ARRIVAL_RATE)
    yield from (("rate", rate), ("peak", rate))
    yield "backlog", o.measure(Metric.BACKLOG)
    lag = _lag(o.measure(Metric.ANSWER_LAG))
    yield from (("lag", lag), ("lag_worst", lag))
    yield "mean", o.measure(Metric.LATENCY_MEAN)
    yield "p95", o.measure(Metric.LATENCY_P95)
    yield "cores", resources(o)
    yield "splitting", next((s.splitting for s in o.stages if isfinite(s.splitting)), float("nan"))
    yield "slack", o.extra.get("slack", float("nan"))
    yield "late", o.measure(Metric.DROPPED_SHARE)
    if o.executors is not None:
        yield from _capacity(EXECUTORS, o.executors)
    for stage in o.stages:
        yield from _stage(stage, own_workers=o.executors is None)


def _lag(seconds: float) -> float:
    """The lag of answers where the stream is in real time; that of old rows, or of clocks ahead, says nothing."""
    return max(seconds, 0.0) if -1.0 < seconds < 86_400.0 else float("nan")


def _stage(stage: StageObservation, own_workers: bool) -> Iterator[tuple[str, float]]:
    name = stage.name
    if own_workers:
        yield from _capacity(name, stage.workers)
    if stage.cpu_share is not None:
        yield f"share|{name}", stage.cpu_share.observed
    yield f"load|{name}", stage.utilisation
    busy = stage.worker_utilisation
    if busy:
        yield f"busiest|{name}", max(busy)
        yield f"busy_mean|{name}", sum(busy) / len(busy)
    for at, share in enumerate(busy[:MOST_WORKERS]):
        yield f"busy|{name}|{at}", share


def _capacity(name: str, capacity: Capacity) -> Iterator[tuple[str, float]]:
    yield f"planned|{name}", capacity.planned
    yield f"requested|{name}", capacity.requested
    yield f"observed|{name}", capacity.observed
