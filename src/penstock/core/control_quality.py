"""SASO figures of a run, from its journal alone (MPC 2.3, 5.3).

- *Stability*: how many reconfigurations, and how many a minute. Routings of keys that changed alone are counted apart,
  as rebalances; shedding is neither. A change that was decided and later took effect counts once, when it took effect.
- *Accuracy*: observations in which the target metric was missed, and their share among those that could be judged;
  unknown where there is no target or nothing was measured.
- *Settling*: amplitude = mean Euclidean distance between the configurations before and after a reconfiguration
  (frequency counted in steps of 0.1 GHz, CPU share in steps of 0.1); settling time = mean length of the bursts
  of reconfigurations, where changes less than ``gap`` seconds apart belong to one burst.
- *Overshoot*: mean share by which the resources in use exceeded the least amount that would have kept the
  utilisation at or below ``enough``, over observations that know their utilisation.
- *Resource-seconds*: workers (times CPU share where it is known, times executors where only they are known)
  integrated over time; where the periods of two observations overlap, that time counts once.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil, inf, isnan, nan
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
    violations: int | None  # None where nothing could be judged
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
    unanswered: Sequence[bool] = (),
) -> ControlQuality:
    """SASO figures of a journal; a violation is a metric beyond the target (below it where more is better).

    ``unanswered`` names the observations, one entry each, that count as a violation where they have no figure.
    """
    tables = journal if isinstance(journal, Tables) else read(journal)
    seen = list(tables.replay())
    values = np.array([o.measure(metric, where) for o in seen])
    used = np.array([resources(o) for o in seen])
    late, judged = _violated(values, metric, target, np.array(unanswered, dtype=bool))
    made = _made(tables)
    changes = _times(made)
    covered = spans(seen)
    duration, spent = float(_elapsed(seen).sum()), float(np.nansum(used * covered))
    return ControlQuality(
        duration=duration,
        observations=len(seen),
        reconfigurations=len(changes),
        reconfigurations_per_minute=60 * len(changes) / duration if duration > 0 else 0.0,
        rebalances=len(set(_times(made, ("routing",))) - set(changes)),
        violations=int(late.sum()) if judged.any() else None,
        violation_share=float(late.sum() / judged.sum()) if judged.any() else nan,
        amplitude=_amplitude(made),
        settling_time=_settling(changes, gap),
        overshoot=_mean(_overshoots(seen, enough)),
        resource_seconds=spent,
        mean_resources=spent / float(covered.sum()) if covered.sum() > 0 else 0.0,
        latency_mean=_weighted(seen, Metric.LATENCY_MEAN),
        latency_p95=_upper(seen),
    )


def spans(seen: Sequence[Observation]) -> NDArray[np.float64]:
    """Seconds that each observation adds to those before it: its period, less what another has covered already."""
    return np.array([min(gone, o.period) for gone, o in zip(_elapsed(seen), seen, strict=True)])


def _elapsed(seen: Sequence[Observation]) -> NDArray[np.float64]:
    """Seconds from each observation to the next; a clock that went back is that of another run in the same journal."""
    times = np.array([inf, *(o.time for o in seen)])
    return np.array(
        [o.period if o.time < last else o.time - last for o, last in zip(seen, times[:-1], strict=True)]
    )


def resources(observation: Observation) -> float:
    """Cores in use: workers x CPU share over all stages, or the executors where there are any."""
    if observation.executors is not None:
        share = next((s.cpu_share.observed for s in observation.stages if s.cpu_share is not None), 1.0)
        return observation.executors.observed * share
    return sum(
        s.workers.observed * (s.cpu_share.observed if s.cpu_share else 1.0) for s in observation.stages
    )


def _violated(
    values: NDArray[np.float64], metric: Metric, target: float, unanswered: NDArray[np.bool_]
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which observations missed the target, and which could be judged at all."""
    none = np.zeros(len(values), dtype=bool)
    if isnan(target):
        return none, none
    known = ~np.isnan(values)
    silent = ~known & (unanswered if len(unanswered) else none)
    beyond = values < target if metric.better > 0 else values > target
    return (known & beyond) | silent, known | silent


@dataclass(frozen=True, slots=True)
class _Made:
    """One change that was made."""

    time: float
    knob: str
    where: str
    before: float
    after: float


def _made(tables: Tables) -> list[_Made]:
    """Changes by the time they took effect, or by that of their decision where the plant does not tell the effect."""
    table = tables.changes
    if "time" not in table:
        return []
    columns = [table[c] for c in ("source", "time", "knob", "where", "before", "after")]
    rows = [(s, _Made(float(t), *rest)) for s, t, *rest in zip(*columns, strict=True)]
    effects = [m for source, m in rows if source == "took effect"]
    decided = [m for source, m in rows if source != "took effect"]
    pending = [m for m in decided if not _came(m, effects)]
    return sorted(effects + pending, key=lambda m: m.time)


def _came(decided: _Made, effects: list[_Made]) -> bool:
    """Whether a decision is told of again by an effect: by a later one on the same knob and place."""
    return any(
        e.knob == decided.knob and e.where == decided.where and e.time >= decided.time for e in effects
    )


def _times(made: list[_Made], wanted: Iterable[str] = tuple(_UNIT)) -> list[float]:
    """Times at which any of these knobs was changed."""
    return sorted({m.time for m in made if m.knob in wanted})


def _amplitude(made: list[_Made]) -> float:
    squares: dict[float, float] = {}
    for m in made:
        if m.knob in _UNIT and m.before == m.before and m.after == m.after:
            squares[m.time] = squares.get(m.time, 0.0) + ((m.after - m.before) / _UNIT[m.knob]) ** 2
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
