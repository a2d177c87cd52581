"""A policy and a simulated plant in closed loop, and the figures of such a run."""

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from math import ceil, inf, isnan, nan

import numpy as np

from penstock.core import control_quality
from penstock.core.arrays import Floats
from penstock.core.control_quality import ControlQuality
from penstock.core.controller import Controller, run
from penstock.core.errors import PenstockError
from penstock.core.guards import Guards
from penstock.core.journal import MemoryJournal
from penstock.core.metrics import Metric
from penstock.core.observation import Observation
from penstock.core.policy import AnyPolicy
from penstock.core.tables import Tables
from penstock.sim.histogram import Histogram
from penstock.sim.plants.virtual import VirtualPlant

#: Watts of one core that is in use, where a plant has no power model of its own (68.25 W / 12 cores, MPC 5.3.2).
CORE_WATTS = 68.25 / 12


@dataclass(frozen=True, eq=False)
class Series:
    """What happened over time, one entry an observation."""

    time: Floats
    arrival_rate: Floats
    resources: Floats
    response: Floats
    utilisation: Floats


@dataclass(frozen=True, eq=False)
class ClosedLoopResult:
    """The figures of one policy on one load."""

    policy: str
    quality: ControlQuality
    late: float  # share of the tuples that took longer than the target; unknown where that is not in seconds
    response_mean: float
    response_p95: float
    response_max: float
    core_seconds: float
    energy: float  # joules
    infeasible: int  # decisions that said that no configuration can meet the target
    warnings: tuple[str, ...]
    series: Series
    tables: Tables

    def row(self) -> dict[str, float | str]:
        """The figures by name, for a table or JSON."""
        return {
            "policy": self.policy,
            "late": self.late,
            "violations": self.quality.violation_share,
            "mean_response": self.response_mean,
            "p95_response": self.response_p95,
            "core_seconds": self.core_seconds,
            "energy_kj": self.energy / 1e3,
            "reconfigurations": self.quality.reconfigurations,
            "amplitude": self.quality.amplitude,
            "settling_time": self.quality.settling_time,
            "overshoot": self.quality.overshoot,
        }


def run_policy(
    plant: VirtualPlant,
    policy: AnyPolicy,
    period: float,
    until: float,
    *,
    metric: Metric = Metric.LATENCY_MEAN,
    target: float = nan,
    guards: Guards | None = None,
    name: str = "",
    warm_up: float = 0.0,
) -> ClosedLoopResult:
    """Let a policy control a plant for so many virtual seconds, a step every ``period``.

    What happens in the first ``warm_up`` seconds counts for no figure but stays in the series and the journal.
    """
    begin = counted_from(until, period, warm_up)
    journal = MemoryJournal()
    watched = _Watched(plant)
    loop = Controller(watched, policy, guards or Guards(), journal)
    run(loop, plant, period, begin)
    before, first = plant.responses.copied(), len(watched.seen)
    run(loop, plant, period, until)
    seen, tables = watched.seen, journal.tables()
    responses = _with_unfinished(plant).since(before)
    unanswered = _unanswered(watched, metric, target)[first:]
    quality = control_quality.figures(
        _after(journal, begin) if begin else tables, metric, target, unanswered=unanswered
    )
    return ClosedLoopResult(
        policy=name or policy.name,
        quality=quality,
        late=_late(responses, metric, target),
        response_mean=responses.mean,
        response_p95=responses.percentile(95.0),
        response_max=responses.maximum,
        core_seconds=quality.resource_seconds,
        energy=sum(_watts(o) * o.period for o in seen[first:]),
        infeasible=sum(r.get("feasible") is False for r in journal.records),
        warnings=tuple(dict.fromkeys(journal.texts())),
        series=series_of(seen, metric),
        tables=tables,
    )


def counted_from(seconds: float, period: float, warm_up: float = 0.0) -> float:
    """When the figures of a run begin: the warm-up in whole periods; refused where no step comes after it.

    >>> counted_from(60.0, 5.0, warm_up=6.0)
    10.0
    """
    begin = period * ceil(warm_up / period - 1e-9)
    if begin + period > seconds + 1e-9:
        raise PenstockError(
            f"A run of {seconds:.10g} s is too short: with a control step every {period:g} s and a warm-up of {warm_up:g} s "
            f"it has to last {begin + period:g} s or longer; give a longer load, or a shorter period or warm-up."
        )
    return begin


def compare(
    make: Callable[[], VirtualPlant],
    policies: Mapping[str, AnyPolicy],
    period: float,
    until: float,
    *,
    metric: Metric = Metric.LATENCY_MEAN,
    target: float = nan,
    guards: Guards | None = None,
) -> list[ClosedLoopResult]:
    """Every policy on a new plant with the same stream."""
    return [
        run_policy(make(), policy, period, until, metric=metric, target=target, guards=guards, name=name)
        for name, policy in policies.items()
    ]


def series_of(seen: Sequence[Observation], metric: Metric) -> Series:
    """The observations of a run as columns."""
    return Series(
        np.array([o.time for o in seen]),
        np.array([o.measure(Metric.ARRIVAL_RATE) for o in seen]),
        np.array([control_quality.resources(o) for o in seen]),
        np.array([o.measure(metric) for o in seen]),
        np.array([o.measure(Metric.UTILISATION) for o in seen]),
    )


def _after(journal: MemoryJournal, begin: float) -> Tables:
    """The journal without what happened up to a time; records without a time stay."""
    return Tables.of([r for r in journal.records if r.get("time", inf) > begin + 1e-9])


def _watts(observation: Observation) -> float:
    known = observation.power
    return control_quality.resources(observation) * CORE_WATTS if isnan(known) else known


def _late(responses: Histogram, metric: Metric, target: float) -> float:
    """The share of the tuples that took longer than the target, which is a time only where its metric is one."""
    if metric.unit != "s" or isnan(target) or not responses.count:
        return nan
    return responses.above(target) / responses.count


def _with_unfinished(plant: VirtualPlant) -> Histogram:
    """Response times of a run, in which a tuple without a result counts at its present age: it will be later still."""
    ages = plant.unfinished()
    if ages is None:
        return plant.responses
    whole = deepcopy(plant.responses)
    whole.add(ages)
    return whole


def _unanswered(watched: "_Watched", metric: Metric, target: float) -> list[bool]:
    """Observations without a figure that missed the target all the same.

    A period without a result is late once a tuple has waited for longer than the target. Where the plant does not
    follow single tuples, arrivals without a result are late, unless it never tells the metric at all.
    """
    if metric.unit != "s":
        return [False] * len(watched.seen)
    measured = any(not isnan(o.measure(metric)) for o in watched.seen)
    return [
        measured and o.measure(Metric.ARRIVAL_RATE) > 0 if oldest is None else oldest > target
        for o, oldest in zip(watched.seen, watched.oldest, strict=True)
    ]


class _Watched:
    """A plant whose observations are also kept as they are, with what a journal leaves out."""

    def __init__(self, plant: VirtualPlant) -> None:
        self._plant = plant
        self.apply = plant.apply
        self.seen: list[Observation] = []
        #: The age of the oldest tuple without a result at each observation; 0 where there was none.
        self.oldest: list[float | None] = []

    def observe(self) -> Observation:
        observation = self._plant.observe()
        ages = self._plant.unfinished()
        self.seen.append(observation)
        self.oldest.append(None if ages is None else float(ages.max(initial=0.0)))
        return observation
