"""Model-predictive control of replicas and CPU speed (MPC 2-4)."""

from dataclasses import dataclass, field, replace
from math import inf, isfinite, isnan, nan
from typing import Any

import numpy as np

from penstock.core.capacity import Capacity, Knob
from penstock.core.decision import Change, Decision
from penstock.core.errors import PenstockError
from penstock.core.metrics import Metric
from penstock.core.observation import Observation, StageObservation
from penstock.forecast import Forecaster, HoltWinters, trajectory
from penstock.policies import rebalance
from penstock.policies.mpc_model import Grid, Load, Weights, response, stage_costs, utilisation
from penstock.policies.search import Found, shortest_path
from penstock.policies.waiting import (
    BatchResponse,
    BatchSetting,
    BurstWait,
    KingmanWait,
    Wait,
    batch_response,
    burst_wait,
)

#: A measured wait over a predicted one beyond these tells of a backlog, not of the model.
_LEAST, _MOST = 0.05, 20.0


@dataclass(frozen=True, slots=True)
class StageMemory:
    """Per stage: the forecaster's state, the last forecast load, the last three correction factors, the fitted waits."""

    forecast: Any
    expected: Load | None = None
    ratios: tuple[float, ...] = ()
    bursts: BurstWait | BatchResponse | None = None
    fitted_at: float = -inf
    fitted_rate: float = nan


@dataclass(frozen=True, slots=True)
class MpcState:
    """What is remembered of every stage."""

    stages: tuple[tuple[str, StageMemory], ...] = ()


@dataclass(frozen=True, slots=True)
class Mpc:
    """At every step, the best trajectory of configurations over ``horizon`` steps; its first one is applied.

    objective: "throughput" (keep up: alpha x effective service time) or "latency" (alpha exp(R / target)).
    cost: "cores" (beta n) or "power" (beta n f V^2). switching: gamma of the quadratic switching cost, 0 for none.
    With ``scale`` (seconds) the throughput cost is alpha T_S / scale, as in the paper (alpha 200, scale 1 ms);
    without it T_S counts in inter-arrival times, so that one alpha fits every rate.

    workers: least and most replicas. speeds: CPU frequencies (GHz) or shares that may be set; none: only replicas.
    ``knob`` EXECUTORS scales executors instead, ``speed_knob`` CPU_SHARE sets shares instead of frequencies.
    rebalance: also give a new routing of keys when replicas change or are uneven.

    Beyond the paper: several ``stages`` are optimised jointly under one ``budget`` of replicas (latency is then the sum
    over them); ``waiting="map"`` takes waiting times from a Markovian arrival process fitted to the observed
    inter-arrival times every ``refit`` seconds instead of Kingman's formula, ``waiting="microbatch"`` response times from the
    micro-batch model (for plants that tell their trigger), and with either the target may be a ``percentile``; ``drain`` plans
    to work a backlog off within so many seconds.
    """

    objective: str = "throughput"
    cost: str = "cores"
    horizon: int = 2
    switching: float = 0.4
    alpha: float | None = None
    beta: float = 0.5
    target: float = 0.1
    scale: float | None = None
    workers: tuple[int, int] = (1, 12)
    speeds: tuple[float, ...] = ()
    voltages: tuple[float, ...] = ()
    knob: Knob = Knob.WORKERS
    speed_knob: Knob = Knob.FREQUENCY
    stages: tuple[str, ...] = ()
    budget: int | None = None
    waiting: str = "kingman"
    percentile: float | None = None
    refit: float = 60.0
    drain: float | None = None
    rebalance: bool = True
    forecaster: Forecaster[Any] = field(default_factory=HoltWinters)
    name: str = "Mpc"

    def __post_init__(self) -> None:
        for value, known, what in (
            (self.objective, ("throughput", "latency"), "objective"),
            (self.cost, ("cores", "power"), "cost"),
            (self.waiting, ("kingman", "map", "microbatch"), "waiting"),
        ):
            if value not in known:
                raise PenstockError(f"Mpc does not know the {what} '{value}'; choose {' or '.join(known)}.")
        if (
            self.horizon < 1
            or self.switching < 0
            or self.beta < 0
            or self.target <= 0
            or (self.alpha or 1) <= 0
        ):
            raise PenstockError(
                "Mpc needs horizon >= 1, switching >= 0, beta >= 0, target > 0 and alpha > 0."
            )
        if not 1 <= self.workers[0] <= self.workers[1]:
            raise PenstockError(
                f"Mpc has the workers {self.workers}; give at least 1 and the smaller number first."
            )
        if any(s <= 0 for s in self.speeds) or len(self.voltages) not in (0, len(self.speeds)):
            raise PenstockError(
                "Mpc needs speeds above 0, and one voltage for each where voltages are given."
            )
        if self.cost == "power" and (self.speed_knob is not Knob.FREQUENCY or not self.speeds):
            raise PenstockError(
                "Mpc needs frequencies as its speeds to count power; give speeds=(1.2, ..., 2.0)."
            )
        if self.percentile is not None and (self.waiting == "kingman" or not 0 < self.percentile < 1):
            raise PenstockError(
                "Mpc needs waiting map or microbatch for a percentile between 0 and 1; Kingman gives means only."
            )
        if self.waiting == "microbatch" and self.speeds and self.speed_knob is not Knob.CPU_SHARE:
            raise PenstockError(
                "Mpc on micro-batches knows CPU shares as speeds; give speed_knob=Knob.CPU_SHARE."
            )
        if self.knob is Knob.EXECUTORS and len(self.stages) > 1:
            raise PenstockError("Mpc scales executors of the whole application; name one stage at the most.")

    def start(self) -> MpcState:
        """Nothing known."""
        return MpcState()

    def step(self, state: MpcState, observation: Observation) -> tuple[MpcState, Decision]:
        """Forecast, search, and answer with the first configuration of the best trajectory."""
        names = self.stages or tuple(s.name for s in observation.stages[:1])
        stages = [s for s in observation.stages if s.name in names]
        memory = dict(state.stages)
        loads = []
        for stage in stages:
            memory[stage.name], load = self._look(memory.get(stage.name), stage, observation)
            loads += [load] if load is not None else []
        after = MpcState(tuple(memory.items()))
        if not loads or len(loads) < len(names):
            return after, Decision.keep("arrival rate or service time of a stage is not known yet")
        return after, self._optimise(observation, stages, loads)

    # -- what is known of a stage

    def _look(
        self, memory: StageMemory | None, stage: StageObservation, observation: Observation
    ) -> tuple[StageMemory, Load | None]:
        memory = memory or StageMemory(self.forecaster.start())
        memory = replace(memory, forecast=self.forecaster.update(memory.forecast, stage.arrival_rate))
        memory = self._correct(memory, stage, observation)
        memory = self._fit(memory, stage, observation)
        load = self._load(memory, stage, observation)
        return replace(memory, expected=load), load

    def _correct(self, memory: StageMemory, stage: StageObservation, observation: Observation) -> StageMemory:
        """r = mean of the last three measured over predicted waits (Expr. 8); responses on micro-batches."""
        if memory.expected is None:
            return memory
        whole = isinstance(memory.expected.wait, BatchResponse)
        if self.percentile is not None:
            measured = stage.latency.p95 - (0.0 if whole else _service(stage))
        elif whole or isnan(stage.waiting_time):
            measured = stage.latency.mean - (0.0 if whole else _service(stage))
        else:
            measured = stage.waiting_time
        workers = observation.capacity(self.knob, "" if self.knob is Knob.EXECUTORS else stage.name)
        grid = Grid((max(1, int(workers.observed if workers else 1)),), (self._speed(stage),))
        expected = replace(memory.expected, correction=1.0)
        own = 0.0 if whole else expected.work / grid.speeds[0]
        predicted = float(response(grid, expected, 0)[0, 0]) - own
        if not measured > 0 or not isfinite(predicted) or predicted <= 0:
            return memory
        least, most = (
            (0.5, 2.0) if whole else (_LEAST, _MOST)
        )  # a whole response is never so far off, but in a backlog
        ratio = min(max(measured / predicted, least), most)
        return replace(memory, ratios=(*memory.ratios, ratio)[-3:])

    def _fit(self, memory: StageMemory, stage: StageObservation, observation: Observation) -> StageMemory:
        """Fit the arrivals anew when it is time, or when the rate has moved so far that a table no longer fits."""
        gaps, time, rate = stage.interarrivals, observation.time, stage.arrival_rate
        if self.waiting == "kingman" or gaps is None or len(gaps) < 200 or not float(np.sum(gaps)) > 0:
            return memory
        moved = self.waiting == "microbatch" and abs(rate - memory.fitted_rate) > 0.5 * memory.fitted_rate
        if time - memory.fitted_at < self.refit and not moved:
            return memory
        if self.waiting == "map":
            fitted: BurstWait | BatchResponse = burst_wait(gaps, _or_one(stage.service_scv), self.percentile)
            return replace(memory, bursts=fitted, fitted_at=time)
        work, trigger = self._work(stage, observation), stage.extra.get("trigger", nan)
        if not (trigger > 0 and work > 0 and rate > 0):
            return memory
        overhead = stage.extra.get(Metric.OVERHEAD_TIME.value, 0.0) * self._speed(stage)
        setting = BatchSetting(trigger, 0.0 if isnan(overhead) else overhead, work, rate)
        fitted = batch_response(gaps, setting, self._grid(stage).speeds, self.percentile)
        return replace(memory, bursts=fitted, fitted_at=time, fitted_rate=rate, ratios=())

    def _work(self, stage: StageObservation, observation: Observation) -> float:
        """Seconds a tuple on one replica at speed 1; an executor may run several tasks at a time."""
        executors = observation.executors
        slots = observation.extra.get("slots", nan) if self.knob is Knob.EXECUTORS else nan
        each = slots / executors.observed if executors and executors.observed > 0 and slots > 0 else 1.0
        return _service(stage) * self._speed(stage) / each

    def _load(self, memory: StageMemory, stage: StageObservation, observation: Observation) -> Load | None:
        work = self._work(stage, observation)
        rates = trajectory(self.forecaster, memory.forecast, self.horizon)
        if not work > 0 or not all(isfinite(r) for r in rates):
            return None
        extra = stage.backlog / self.drain if self.drain and stage.backlog > 0 else 0.0
        wait: Wait = memory.bursts or KingmanWait(_or_one(stage.arrival_scv), _or_one(stage.service_scv))
        gaps = tuple(1.0 / max(r + extra, 1e-9) for r in rates)
        correction = float(np.mean(memory.ratios)) if memory.ratios else 1.0
        return Load(stage.name, gaps, work, wait, correction)

    def _speed(self, stage: StageObservation) -> float:
        """The present speed in the unit of ``speeds``; 1 where speeds are not controlled."""
        capacity = _speed_capacity(stage, self.speed_knob) if self.speeds else None
        return capacity.observed if capacity is not None and capacity.observed > 0 else 1.0

    # -- the choice

    def _grid(self, stage: StageObservation) -> Grid:
        low, high = self.workers
        speeds = self.speeds if _speed_capacity(stage, self.speed_knob) is not None else ()
        return Grid(tuple(range(low, high + 1)), speeds or (1.0,), self.voltages if speeds else ())

    def _weights(self) -> Weights:
        alpha = self.alpha if self.alpha is not None else (50.0 if self.objective == "throughput" else 2.0)
        cost = (
            "shares"
            if self.cost == "cores" and self.speed_knob is Knob.CPU_SHARE and self.speeds
            else self.cost
        )
        return Weights(self.objective, cost, alpha, self.beta, self.target, self.scale)

    def _optimise(
        self, observation: Observation, stages: list[StageObservation], loads: list[Load]
    ) -> Decision:
        grids = [self._grid(s) for s in stages]
        axes = [axis for grid in grids for axis in grid.axes()]
        costs = stage_costs(grids, loads, self._weights(), self.horizon, self.budget)
        now = [v for s, g in zip(stages, grids, strict=True) for v in self._now(observation, s, g)]
        found = shortest_path(costs, axes, now, self.switching)
        if not isfinite(found.cost):
            return Decision((), f"no configuration fits the budget of {self.budget} replicas", feasible=False)
        first = found.trajectory[0]
        changes: list[Change] = []
        for i, (stage, grid) in enumerate(zip(stages, grids, strict=True)):
            workers, speed = grid.workers[first[2 * i]], grid.speeds[first[2 * i + 1]]
            changes += self._changes(observation, stage, grid, workers, speed, loads[i])
        return self._explain(grids, loads, found, changes)

    def _now(self, observation: Observation, stage: StageObservation, grid: Grid) -> tuple[float, float]:
        workers = observation.capacity(self.knob, "" if self.knob is Knob.EXECUTORS else stage.name)
        speed = _speed_capacity(stage, self.speed_knob) if self.speeds else None
        return (workers.planned if workers else 1.0), (
            speed.planned if speed else grid.speeds[0]
        ) / grid.speed_unit

    def _changes(
        self,
        observation: Observation,
        stage: StageObservation,
        grid: Grid,
        workers: int,
        speed: float,
        load: Load,
    ) -> list[Change]:
        place = "" if self.knob is Knob.EXECUTORS else stage.name
        before = observation.value(self.knob, place)
        changes = [Change(self.knob, place, workers)] if before not in (None, workers) else []
        present = _speed_capacity(stage, self.speed_knob) if len(grid.speeds) > 1 else None
        if present is not None and abs(present.planned - speed) > 1e-9:
            changes.append(Change(self.speed_knob, stage.name, speed))
        if self.rebalance and self.knob is Knob.WORKERS and stage.keys is not None and stage.keys.routing:
            rho = float(utilisation(Grid((workers,), (speed,)), load, 0)[0, 0])
            if before != workers or rebalance.needed(stage.keys, workers, rho):
                routing = rebalance.rebalance(stage.keys, workers)
                changes += (
                    [Change(Knob.ROUTING, stage.name, routing)] if routing != stage.keys.routing else []
                )
        return changes

    def _explain(self, grids: list[Grid], loads: list[Load], found: Found, changes: list[Change]) -> Decision:
        first, total, rho, words = found.trajectory[0], 0.0, 0.0, []
        for i, (grid, load) in enumerate(zip(grids, loads, strict=True)):
            at = (first[2 * i], first[2 * i + 1])
            total += float(response(grid, load, 0)[at])
            rho = max(rho, float(utilisation(grid, load, 0)[at]))
            speed = f" at {grid.speeds[at[1]]:g}" if len(grid.speeds) > 1 else ""
            words.append(
                f"{load.name}: {1 / load.gaps[0]:.4g} tuples/s expected, {grid.workers[at[0]]} replicas{speed}"
            )
        latency = self.objective == "latency"
        met = total <= self.target if latency else rho <= 1.0
        reason = "; ".join(words) + f": utilisation {rho:.2f}, response {1e3 * total:.3g} ms"
        reason += f" against {1e3 * self.target:g} ms" if latency else ""
        if not met:
            reason += "; the target is not met in this step"
        predicted = {Metric.UTILISATION: rho, Metric.LATENCY_MEAN: total if isfinite(total) else nan}
        reachable = met or self._reachable(grids, loads)
        return Decision(tuple(changes), reason, predicted, feasible=reachable)

    def _reachable(self, grids: list[Grid], loads: list[Load]) -> bool:
        """Whether the largest configuration would meet the target."""
        best = sum(float(response(g, x, 0).min()) for g, x in zip(grids, loads, strict=True))
        least = max(float(utilisation(g, x, 0).min()) for g, x in zip(grids, loads, strict=True))
        return best <= self.target if self.objective == "latency" else least <= 1.0


def _service(stage: StageObservation) -> float:
    """Seconds a tuple, measured or from busy time and tuples."""
    if not isnan(stage.service_time):
        return stage.service_time
    return stage.busy_time / stage.tuples_in if stage.tuples_in > 0 else nan


def _speed_capacity(stage: StageObservation, knob: Knob) -> Capacity | None:
    return stage.frequency if knob is Knob.FREQUENCY else stage.cpu_share


def _or_one(value: float) -> float:
    return 1.0 if isnan(value) or value < 0 else value
