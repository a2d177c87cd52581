"""What :class:`penstock.policies.Mpc` expects of a stage over its horizon, from what it has seen (MPC 3.1, 3.2).

lambda_i = max(forecast of step i + margin x standard deviation of recent forecast errors, ready) + backlog / drain
ready    = quantile ``headroom`` of the work that came in each of the last ``recall`` steps, as tuples of today's cost
r        = mean of the last three measured over predicted waits (Expr. 8)
"""

from dataclasses import dataclass, replace
from math import inf, isfinite, isnan, nan, sqrt
from typing import Any

import numpy as np

from penstock.core.capacity import Capacity, Knob
from penstock.core.observation import Latency, Observation, StageObservation
from penstock.forecast.forecaster import Forecaster, trajectory
from penstock.policies.batch_waiting import AT_ONCE, BatchQuery, BatchResponse, BatchSetting, batch_response
from penstock.policies.mpc_model import Grid, OperatorLoad, Wait, response
from penstock.policies.waiting import BurstWait, KingmanWait, burst_wait

#: A measured wait over a predicted one beyond these tells of a backlog, not of the model.
_LEAST, _MOST = 0.05, 20.0
#: How much of the mean square of the forecast's errors stays from step to step.
_MEMORY = 0.9


@dataclass(frozen=True, slots=True)
class StageMemory:
    """Per stage: forecaster's state, its last forecast and mean square error, recent work, load, correction factors, fits."""

    forecast: Any
    foreseen: float = nan
    error: float = 0.0
    recent: tuple[float, ...] = ()  # seconds of work on one replica that came a second, latest last
    expected: OperatorLoad | None = None
    ratios: tuple[float, ...] = ()
    bursts: BurstWait | BatchResponse | None = None
    fitted_at: float = -inf
    fitted_rate: float = nan


@dataclass(frozen=True, slots=True)
class Outlook:
    """The parameters of :class:`Mpc` that say what is expected."""

    forecaster: Forecaster[Any]
    horizon: int
    waiting: str
    percentile: float | None
    refit: float
    drain: float | None
    margin: float
    headroom: float | None
    recall: int
    knob: Knob
    speed_knob: Knob
    speeds: tuple[float, ...]

    def look(
        self, memory: StageMemory | None, stage: StageObservation, observation: Observation
    ) -> tuple[StageMemory, OperatorLoad | None]:
        """Learn from one observation; the load is None while rate or cost are unknown."""
        memory = memory or StageMemory(self.forecaster.start())
        memory = self._forecast(memory, stage.arrival_rate)
        memory = self._recall(memory, stage.arrival_rate, self._work(stage, observation))
        memory = self._correct(memory, stage, observation)
        memory = self._fit(memory, stage, observation)
        load = self._load(memory, stage, observation)
        return replace(memory, expected=load), load

    def speed(self, stage: StageObservation) -> float:
        """The present speed in the unit of ``speeds``; 1 where speeds are not controlled."""
        capacity = speed_capacity(stage, self.speed_knob) if self.speeds else None
        return capacity.observed if capacity is not None and capacity.observed > 0 else 1.0

    def _forecast(self, memory: StageMemory, rate: float) -> StageMemory:
        error = memory.error
        if not isnan(rate) and not isnan(memory.foreseen):
            error = _MEMORY * error + (1 - _MEMORY) * (rate - memory.foreseen) ** 2
        forecast = self.forecaster.update(memory.forecast, rate)
        return replace(memory, forecast=forecast, error=error, foreseen=self.forecaster.predict(forecast, 1))

    def _recall(self, memory: StageMemory, rate: float, work: float) -> StageMemory:
        if self.headroom is None or not rate * work >= 0:
            return memory
        return replace(memory, recent=(*memory.recent, rate * work)[-self.recall :])

    def _rates(self, memory: StageMemory, stage: StageObservation, work: float) -> tuple[float, ...]:
        """Tuples a second to plan for, step by step."""
        margin = self.margin * sqrt(memory.error)
        waiting = stage.backlog / self.drain if self.drain and stage.backlog > 0 else 0.0
        ready = 0.0
        if self.headroom is not None and memory.recent and work > 0:
            ready = float(np.quantile(memory.recent, self.headroom)) / work
        ahead = trajectory(self.forecaster, memory.forecast, self.horizon)
        return tuple(max(r + margin, ready) + waiting for r in ahead)

    def _correct(self, memory: StageMemory, stage: StageObservation, observation: Observation) -> StageMemory:
        """r = mean of the last three measured over predicted waits (Expr. 8); responses on micro-batches."""
        if memory.expected is None or isinstance(memory.expected.wait, BatchQuery):
            return memory
        whole = isinstance(memory.expected.wait, BatchResponse)
        if self.percentile is not None:
            measured = _percentile(stage.latency, self.percentile) - (0.0 if whole else service_time(stage))
        elif whole or isnan(stage.waiting_time):
            measured = stage.latency.mean - (0.0 if whole else service_time(stage))
        else:
            measured = stage.waiting_time
        workers = observation.capacity(self.knob, "" if self.knob is Knob.EXECUTORS else stage.name)
        grid = Grid((max(1, int(workers.observed if workers else 1)),), (self.speed(stage),))
        expected = replace(memory.expected, correction=1.0)
        own = 0.0 if whole else expected.work / grid.speeds[0]
        predicted = float(response(grid, expected, 0)[0, 0]) - own
        if not measured > 0 or not isfinite(predicted) or predicted <= 0:
            return memory
        # A whole response is never so far off, but in a backlog.
        least, most = (0.5, 2.0) if whole else (_LEAST, _MOST)
        ratio = min(max(measured / predicted, least), most)
        return replace(memory, ratios=(*memory.ratios, ratio)[-3:])

    def _fit(self, memory: StageMemory, stage: StageObservation, observation: Observation) -> StageMemory:
        """Fit the arrivals anew when it is time, or when the rate has moved so far that a table no longer fits."""
        gaps, time, rate = stage.interarrivals, observation.time, stage.arrival_rate
        if "map" not in self.waiting or gaps is None or len(gaps) < 200 or not float(np.sum(gaps)) > 0:
            return memory
        batches = self.waiting == "microbatch-map"
        moved = batches and abs(rate - memory.fitted_rate) > 0.5 * memory.fitted_rate
        if time - memory.fitted_at < self.refit and not moved:
            return memory
        if not batches:
            fitted: BurstWait | BatchResponse = burst_wait(
                gaps, _or_one(stage.service_scv), self.percentile, rows=stage.interarrival_rows
            )
            return replace(memory, bursts=fitted, fitted_at=time)
        work = self._work(stage, observation)
        if not (stage.trigger >= 0 and work > 0 and rate > 0):
            return memory
        trigger = max(stage.trigger, AT_ONCE)
        overhead = stage.overhead_time * self.speed(stage)
        each = stage.interarrival_rows  # the process is one of groups of tuples
        setting = BatchSetting(trigger, 0.0 if isnan(overhead) else overhead, work * each, rate / each)
        fitted = batch_response(gaps, setting, self.speeds or (1.0,), self.percentile)
        return replace(memory, bursts=fitted, fitted_at=time, fitted_rate=rate, ratios=())

    def _work(self, stage: StageObservation, observation: Observation) -> float:
        """Seconds a tuple on one replica at speed 1; an executor may run several tasks at a time."""
        executors = observation.executors
        slots = observation.slots if self.knob is Knob.EXECUTORS else nan
        each = slots / executors.observed if executors and executors.observed > 0 and slots > 0 else 1.0
        return service_time(stage) * self.speed(stage) / each

    def _load(
        self, memory: StageMemory, stage: StageObservation, observation: Observation
    ) -> OperatorLoad | None:
        work = self._work(stage, observation)
        rates = self._rates(memory, stage, work)
        wait = self._wait(memory, stage, observation)
        if wait is None or not work > 0 or not all(isfinite(r) for r in rates):
            return None
        gaps = tuple(1.0 / max(r, 1e-9) for r in rates)
        correction = float(np.mean(memory.ratios)) if memory.ratios else 1.0
        return OperatorLoad(stage.name, gaps, work, wait, correction)

    def _wait(self, memory: StageMemory, stage: StageObservation, observation: Observation) -> Wait | None:
        if self.waiting != "microbatch" or isnan(stage.trigger):  # what has no batches is a queue
            return memory.bursts or KingmanWait(_or_one(stage.arrival_scv), _or_one(stage.service_scv))
        overhead = stage.overhead_time
        if isnan(overhead):
            return None
        fixed = overhead if isnan(stage.fixed_time) else min(overhead, stage.fixed_time)
        workers = observation.capacity(self.knob, "" if self.knob is Knob.EXECUTORS else stage.name)
        tasks = (overhead - fixed) * (workers.observed if workers else 1.0) * self.speed(stage)
        return BatchQuery(max(stage.trigger, AT_ONCE), fixed, tasks, self.percentile)


def _percentile(told: Latency, share: float) -> float:
    """The percentile of the response times; nan where the plant does not tell that one."""
    return {0.5: told.p50, 0.95: told.p95, 0.99: told.p99}.get(round(share, 9), nan)


def service_time(stage: StageObservation) -> float:
    """Seconds a tuple, measured or from busy time and tuples."""
    if not isnan(stage.service_time):
        return stage.service_time
    return stage.busy_time / stage.tuples_in if stage.tuples_in > 0 else nan


def speed_capacity(stage: StageObservation, knob: Knob) -> Capacity | None:
    """The knob that sets how fast a replica works."""
    return stage.frequency if knob is Knob.FREQUENCY else stage.cpu_share


def _or_one(value: float) -> float:
    return 1.0 if isnan(value) or value < 0 else value
