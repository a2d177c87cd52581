"""A policy and a simulated plant in closed loop, and the figures of such a run."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import isnan, nan

import numpy as np
from numpy.typing import NDArray

from penstock.core import control_quality
from penstock.core.control_quality import ControlQuality
from penstock.core.controller import Controller, run
from penstock.core.guards import Guards
from penstock.core.journal import MemoryJournal
from penstock.core.metrics import Metric
from penstock.core.observation import Observation
from penstock.core.policy import AnyPolicy
from penstock.core.tables import Tables
from penstock.sim.plants.virtual import VirtualPlant

Floats = NDArray[np.float64]

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
) -> ClosedLoopResult:
    """Let a policy control a plant for so many virtual seconds, a step every ``period``."""
    journal = MemoryJournal()
    seen: list[Observation] = []
    loop = Controller(_Watched(plant, seen), policy, guards or Guards(), journal)
    run(loop, plant, period, until)
    tables = journal.tables()
    return ClosedLoopResult(
        policy=name or policy.name,
        quality=control_quality.figures(tables, metric, target),
        response_mean=plant.responses.mean,
        response_p95=plant.responses.percentile(95.0),
        response_max=plant.responses.maximum,
        core_seconds=sum(control_quality.resources(o) * o.period for o in seen),
        energy=sum(_watts(o) * o.period for o in seen),
        infeasible=sum(r.get("feasible") is False for r in journal.records),
        warnings=tuple(dict.fromkeys(journal.texts())),
        series=series_of(seen, metric),
        tables=tables,
    )


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


def _watts(observation: Observation) -> float:
    known = observation.power
    return control_quality.resources(observation) * CORE_WATTS if isnan(known) else known


class _Watched:
    """A plant whose observations are also kept as they are, with what a journal leaves out."""

    def __init__(self, plant: VirtualPlant, seen: list[Observation]) -> None:
        self._plant, self._seen = plant, seen
        self.apply = plant.apply

    def observe(self) -> Observation:
        observation = self._plant.observe()
        self._seen.append(observation)
        return observation
