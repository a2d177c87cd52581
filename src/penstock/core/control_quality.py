"""SASO figures of a run, from its journal alone (MPC 2.3, 5.3).

- *Stability*: how many reconfigurations, and how many a minute. Routings of keys that changed alone are counted apart,
  as rebalances; shedding is neither.
- *Accuracy*: observations in which the target metric was missed, and their share.
- *Settling*: amplitude = mean Euclidean distance between the configurations before and after a reconfiguration
  (frequency counted in steps of 0.1 GHz, CPU share in steps of 0.1); settling time = mean length of the bursts
  of reconfigurations, where changes less than ``gap`` seconds apart belong to one burst.
- *Overshoot*: mean share by which the resources in use exceeded the least amount that would have kept the
  utilisation at or below ``enough``, over observations that know their utilisation.
- *Resource-seconds*: workers (times CPU share where it is known, times executors where only they are known)
  integrated over time.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil, isnan, nan
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.core.metrics import Metric
from penstock.core.observation import Observation
from penstock.core.tables import Tables, read

_UNIT = {"workers": 1.0, "executors": 1.0, "frequency": 0.1, "cpu_share": 0.1, "pipelines": 1.0}


@dataclass(frozen=True, slots=True)
class ControlQuality:
    """The figures of one run; times in seconds."""

    duration: float
    observations: int
    reconfigurations: int
    reconfigurations_per_minute: float
    rebalances: int
    violations: int
    violation_share: float
    amplitude: float
    settling_time: float
    overshoot: float
    resource_seconds: float
    mean_resources: float
    latency_mean: float
    latency_p95: float


def figures(
    journal: str | Path | Tables,
    metric: Metric = Metric.LATENCY_MEAN,
    target: float = nan,
    where: str = "",
    gap: float = 5.0,
    enough: float = 1.0,
) -> ControlQuality:
    """SASO figures of a journal; a violation is a metric beyond the target (below it where more is better)."""
    tables = journal if isinstance(journal, Tables) else read(journal)
    seen = list(tables.replay())
    times = np.array([o.time for o in seen])
    periods = np.array([o.period for o in seen])
    values = np.array([o.measure(metric, where) for o in seen])
    used = np.array([resources(o) for o in seen])
    late = _violated(values, metric, target)
    changes = _times(tables)
    duration = float(times[-1] - times[0] + periods[0]) if len(seen) else 0.0
    spent = float(np.nansum(used * periods)) if len(seen) else 0.0
    return ControlQuality(
        duration=duration,
        observations=len(seen),
        reconfigurations=len(changes),
        reconfigurations_per_minute=60 * len(changes) / duration if duration > 0 else 0.0,
        rebalances=len(set(_times(tables, ("routing",))) - set(changes)),
        violations=int(late.sum()),
        violation_share=float(late.mean()) if len(seen) else 0.0,
        amplitude=_amplitude(tables),
        settling_time=_settling(changes, gap),
        overshoot=_mean(_overshoots(seen, enough)),
        resource_seconds=spent,
        mean_resources=spent / float(periods.sum()) if len(seen) and periods.sum() > 0 else 0.0,
        latency_mean=_weighted(seen, Metric.LATENCY_MEAN),
        latency_p95=_upper(seen),
    )


def resources(observation: Observation) -> float:
    """Cores in use: workers x CPU share over all stages, or the executors where there are any."""
    if observation.executors is not None:
        share = next((s.cpu_share.observed for s in observation.stages if s.cpu_share is not None), 1.0)
        return observation.executors.observed * share
    return sum(
        s.workers.observed * (s.cpu_share.observed if s.cpu_share else 1.0) for s in observation.stages
    )


def _violated(values: NDArray[np.float64], metric: Metric, target: float) -> NDArray[np.bool_]:
    if isnan(target):
        return np.zeros(len(values), dtype=bool)
    known = ~np.isnan(values)
    beyond = values < target if metric.better > 0 else values > target
    return known & beyond


def _times(tables: Tables, wanted: Iterable[str] = tuple(_UNIT)) -> list[float]:
    """Times at which any of these knobs was changed."""
    knobs, times = tables.changes.get("knob"), tables.changes.get("time")
    if knobs is None or times is None:
        return []
    return sorted({float(t) for k, t in zip(knobs, times, strict=True) if k in wanted})


def _amplitude(tables: Tables) -> float:
    squares: dict[float, float] = {}
    columns: list[Any] = [tables.changes.get(c, []) for c in ("time", "knob", "before", "after")]
    for time, knob, before, after in zip(*columns, strict=True):
        if knob in _UNIT and before == before and after == after:
            squares[time] = squares.get(time, 0.0) + ((after - before) / _UNIT[knob]) ** 2
    return _mean([s**0.5 for s in squares.values()], empty=0.0)


def _settling(changes: list[float], gap: float) -> float:
    lengths: list[float] = []
    start = last = nan
    for time in changes:
        if not time - last <= gap:
            if last == last:
                lengths.append(last - start)
            start = time
        last = time
    if last == last:
        lengths.append(last - start)
    return _mean(lengths, empty=0.0)


def _overshoots(seen: Iterable[Observation], enough: float) -> list[float]:
    shares = []
    for o in seen:
        pairs = [(s.workers.observed, s.utilisation) for s in o.stages if not isnan(s.utilisation)]
        needed = sum(max(1, ceil(n * rho / enough - 1e-9)) for n, rho in pairs)
        if pairs and needed:
            shares.append(max(0.0, sum(n for n, _ in pairs) / needed - 1))
    return shares


def _weighted(seen: Iterable[Observation], metric: Metric) -> float:
    """Mean over tuples: each observation counts by the results it gave out."""
    pairs = [(o.measure(metric), o.measure(Metric.TUPLES_OUT)) for o in seen]
    pairs = [(v, 1.0 if isnan(w) else w) for v, w in pairs if not isnan(v)]
    weight = sum(w for _, w in pairs)
    return sum(v * w for v, w in pairs) / weight if weight > 0 else nan


def _upper(seen: Iterable[Observation]) -> float:
    """95th percentile over observations of their own 95th percentile (of their mean where it is not known)."""
    values: list[Any] = []
    for o in seen:
        p95 = o.measure(Metric.LATENCY_P95)
        values.append(o.measure(Metric.LATENCY_MEAN) if isnan(p95) else p95)
    known = [v for v in values if not isnan(v)]
    return float(np.percentile(known, 95)) if known else nan


def _mean(values: list[float], empty: float = nan) -> float:
    return float(np.mean(values)) if values else empty
