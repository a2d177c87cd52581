"""Streams and runs for the experiments of MEAD."""

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from penstock.core.arrays import Floats
from penstock.core.capacity import Knob
from penstock.core.guards import Guards
from penstock.core.metrics import Metric
from penstock.policies import Mead, Threshold
from penstock.policies.mead_fits import shared_fit
from penstock.policies.threshold import CPU_LEVELS
from penstock.sim.closed_loop import run_policy
from penstock.sim.plants.network import OperatorNetwork
from penstock.traffic import map2, poisson
from penstock_lab import recorded_traces

#: Half an hour of each stream, as in the paper.
SECONDS = 1800.0
#: SYNT: law changes abruptly; (share of the time, tuples/s, index of dispersion). The paper prints no figures but that its
#: first part is calm and that a window of 100,000 is too slow for its changes: calm is followed by the most bursty part.
PHASES = ((0.25, 260.0, 1.0), (0.25, 300.0, 100.0), (0.25, 280.0, 12.0), (0.25, 310.0, 30.0))

STREAMS = {
    "SYNT": "MAPs of changing variability",
    "BC": "the Bellcore trace BC-pAug89",
    "LM*": "a stand-in for the Live Maps trace, which is not public: a MAP(2) with index of dispersion 2000",
}


@lru_cache(maxsize=3)
def arrivals(name: str, seconds: float, seed: int = 5) -> Floats:
    """Arrival times of one of :data:`STREAMS`."""
    if name == "BC":
        times = recorded_traces.trace("bc").arrivals
        return times[times < seconds]
    if name == "LM*":
        return map2(rate=300.0, dispersion=2000.0).sample(seconds, seed)
    parts, start = [], 0.0
    for i, (share, rate, dispersion) in enumerate(PHASES):
        law = poisson(rate) if dispersion == 1.0 else map2(rate=rate, dispersion=dispersion)
        parts.append(start + law.sample(share * seconds, seed + i))
        start += share * seconds
    return np.concatenate(parts)


@dataclass(frozen=True)
class MeadRun:
    """One run: stream, model (or "threshold"), target, percentile, monitored events and windows."""

    stream: str
    model: str
    target: float
    seconds: float
    percentile: float | None = None
    recent: int = 50_000
    windows: int = 3


@dataclass(frozen=True, eq=False)
class MeadOutcome:
    """What a run showed; ``series`` are times, matcher's share and mean response of each interval."""

    run: MeadRun
    mean: float
    p95: float
    cpu: float
    other: float  # mean response of the other path
    changes: int
    time: Floats
    share: Floats
    response: Floats

    @property
    def figure(self) -> float:
        """The figure that the target is for."""
        return self.mean if self.run.percentile is None else self.p95

    @property
    def met(self) -> bool:
        """Whether the requirement was met over the run."""
        return self.figure <= self.run.target


def execute_all(specs: Sequence[MeadRun]) -> list[MeadOutcome]:
    """Runs that share their fits, one after the other."""
    return [execute(spec) for spec in specs]


def _as_in_the_paper(gaps: Any, best: int, states: int) -> Sequence[Any]:
    """The best fits without their scores: the paper takes the worst of them all, where ``Mead`` leaves out those that fit badly."""
    fits = [copy(fit) for fit in shared_fit(gaps, best, states)]
    for fit in fits:
        fit.score = 0.0
    return fits


def execute(spec: MeadRun) -> MeadOutcome:
    """The log analysis under one policy; like the paper's, it begins with all of the CPU."""
    plant = OperatorNetwork(arrivals(spec.stream, spec.seconds), recent=spec.recent, seed=11)
    policy: Any
    if spec.model == "threshold":
        policy, period = Threshold(knob=Knob.CPU_SHARE, levels=CPU_LEVELS, high=0.7, low=0.5), 10.0
    else:
        # Half of the states of the default: the fits hardly differ and a decision takes a quarter of the time.
        policy = Mead(
            spec.model,
            spec.target,
            spec.percentile,
            windows=spec.windows,
            max_states=8,
            interval=60.0,
            fit=_as_in_the_paper,
        )
        period = 60.0
    metric = Metric.LATENCY_MEAN if spec.percentile is None else Metric.LATENCY_P95
    out = run_policy(
        plant, policy, period, spec.seconds, metric=metric, target=spec.target, guards=Guards(catch_up=None)
    )
    shares = [o.stage("matcher").cpu_share for o in out.tables.replay()]
    return MeadOutcome(
        run=spec,
        mean=plant.responses.mean,
        p95=plant.responses.percentile(95.0),
        cpu=out.core_seconds / len(plant.operators) / max(plant.now(), 1e-9),
        other=plant.paths["counter"].mean,
        changes=out.quality.reconfigurations,
        time=out.series.time,
        share=np.array([s.observed if s else np.nan for s in shares]),
        response=out.series.response,
    )
