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
- *Resource-seconds*: workers (times CPU share where it is known; the cores of the executors where there are any)
  integrated over time; where the periods of two observations overlap, that time counts once, and workers that several
  stages have in common (``pool``) count once.
"""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, inf, isnan, nan
from pathlib import Path

import numpy as np

from penstock.core.changes_made import Made, amplitude, change_times, made_changes, settling_time
from penstock.core.metrics import Metric
from penstock.core.observation import Observation, StageObservation
from penstock.core.tables import Tables, read


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
    running = RunningQuality(metric, target, where, gap, enough)
    silent = iter(unanswered)
    for observation in tables.replay():
        running.observe(observation, unanswered=next(silent, False))
    for source, made in _changes(tables):
        running.change(source, made)
    return running.result()


def times_of_changes(journal: str | Path | Tables) -> list[float]:
    """When capacity was changed, by the time at which it took effect."""
    tables = journal if isinstance(journal, Tables) else read(journal)
    return change_times(made_changes(_changes(tables)))


class RunningQuality:
    """The same figures, known at any time while observations and changes come in.

    ``core_seconds`` and ``static_peak`` are what was used so far, and what the most that was in use at any time would have
    used if it had been held from the first moment to the last.
    """

    #: Response times that are kept; where there are more, every other one stands for two.
    ROOM = 200_000

    def __init__(
        self,
        metric: Metric = Metric.LATENCY_MEAN,
        target: float = nan,
        where: str = "",
        gap: float = 5.0,
        enough: float = 1.0,
    ) -> None:
        self.metric, self.target = metric, target
        self._where, self._gap, self._enough = where, gap, enough
        self._seen = self._judged = self._late = 0
        self._last = inf
        self._duration = self._covered = self.core_seconds = self._peak = 0.0
        self._latency = self._weight = 0.0
        self._excess = self._excesses = 0.0
        self._upper = array("d")
        self._every = 1
        self._changes: list[tuple[str, Made]] = []

    def observe(self, observation: Observation, unanswered: bool = False) -> None:
        """Take an observation; a clock that goes back is that of another run in the same journal."""
        o = observation
        elapsed = o.period if o.time < self._last else o.time - self._last
        covered, used = min(elapsed, o.period), resources(o)
        self._last = o.time
        self._duration += elapsed
        self._covered += covered
        if not isnan(used):
            self.core_seconds += used * covered
            self._peak = max(self._peak, used)
        self._judge(o.measure(self.metric, self._where), unanswered)
        self._respond(o)
        self._exceed(o)
        self._seen += 1

    def change(self, source: str, made: Made) -> None:
        """Take a change that was made."""
        self._changes.append((source, made))

    @property
    def static_peak(self) -> float:
        """Core-seconds of the largest capacity of the run, held all the time."""
        return self._peak * self._covered

    def result(self) -> ControlQuality:
        """The figures so far."""
        made = made_changes(self._changes)
        changes = change_times(made)
        judged = self._judged > 0
        return ControlQuality(
            duration=self._duration,
            observations=self._seen,
            reconfigurations=len(changes),
            reconfigurations_per_minute=60 * len(changes) / self._duration if self._duration > 0 else 0.0,
            rebalances=len(set(change_times(made, ("routing",))) - set(changes)),
            violations=self._late if judged else None,
            violation_share=self._late / self._judged if judged else nan,
            amplitude=amplitude(made),
            settling_time=settling_time(changes, self._gap),
            overshoot=self._excess / self._excesses if self._excesses else nan,
            resource_seconds=self.core_seconds,
            mean_resources=self.core_seconds / self._covered if self._covered > 0 else 0.0,
            latency_mean=self._latency / self._weight if self._weight > 0 else nan,
            latency_p95=float(np.percentile(self._upper, 95)) if self._upper else nan,
        )

    def _judge(self, value: float, unanswered: bool) -> None:
        """Whether the target was missed, where that can be said."""
        if isnan(self.target) or (isnan(value) and not unanswered):
            return
        beyond = value < self.target if self.metric.better > 0 else value > self.target
        self._judged += 1
        self._late += isnan(value) or beyond

    def _respond(self, o: Observation) -> None:
        """Response times: their mean over tuples, and each observation's own 95th percentile (mean where it has none)."""
        mean, p95 = o.measure(Metric.LATENCY_MEAN), o.measure(Metric.LATENCY_P95)
        if not isnan(mean):
            results = o.measure(Metric.TUPLES_OUT)
            weight = 1.0 if isnan(results) else results
            self._latency += mean * weight
            self._weight += weight
        upper = mean if isnan(p95) else p95
        if not isnan(upper) and self._seen % self._every == 0:
            self._upper.append(upper)
            if len(self._upper) > self.ROOM:
                self._upper, self._every = self._upper[::2], self._every * 2

    def _exceed(self, o: Observation) -> None:
        """By which share the workers exceeded the least number that would have kept the utilisation low enough."""
        known = [s for s in o.stages if not isnan(s.utilisation)]
        if known:
            needed = [max(1, ceil(s.workers.observed * s.utilisation / self._enough - 1e-9)) for s in known]
            used = _together(known, [s.workers.observed for s in known])
            self._excess += max(0.0, used / _together(known, needed) - 1)
            self._excesses += 1


def resources(observation: Observation) -> float:
    """Cores in use: workers x CPU share over all stages, those in common once; or the executors' where there are any."""
    if observation.executors is not None:
        share = next((s.cpu_share.observed for s in observation.stages if s.cpu_share is not None), 1.0)
        there = observation.executors.observed
        # A plant that has no executor left may still call itself one slot.
        return (observation.slots if there > 0 and not isnan(observation.slots) else there) * share
    cores = [s.workers.observed * (s.cpu_share.observed if s.cpu_share else 1.0) for s in observation.stages]
    return _together(observation.stages, cores)


def _together(stages: Sequence[StageObservation], amounts: Sequence[float]) -> float:
    """What stages have in all: those of a pool have the largest amount of them in common."""
    apart, pools = 0.0, dict[str, float]()
    for stage, amount in zip(stages, amounts, strict=True):
        if stage.pool:
            pools[stage.pool] = max(amount, pools.get(stage.pool, 0.0))
        else:
            apart += amount
    return apart + sum(pools.values())


def _changes(tables: Tables) -> list[tuple[str, Made]]:
    table = tables.changes
    if "time" not in table:
        return []
    columns = [table[c] for c in ("source", "time", "knob", "where", "before", "after")]
    return [(source, Made(float(time), *rest)) for source, time, *rest in zip(*columns, strict=True)]
