"""Model-predictive control of replicas and CPU speed (MPC 2-4)."""

from dataclasses import dataclass, field
from math import isfinite, isnan, nan
from typing import Any

from penstock.core.capacity import Knob
from penstock.core.decision import Change, Decision
from penstock.core.errors import PenstockError
from penstock.core.metrics import Metric
from penstock.core.observation import Observation, StageObservation
from penstock.forecast.forecaster import Forecaster
from penstock.forecast.holt_winters import HoltWinters
from penstock.policies import rebalance
from penstock.policies.mpc_model import Grid, OperatorLoad, Weights, response, stage_costs, utilisation
from penstock.policies.mpc_outlook import Outlook, StageMemory, speed_capacity
from penstock.policies.places import stages_at
from penstock.policies.search import SearchResult, shortest_path
from penstock.policies.shared_executors import as_one_query


@dataclass(frozen=True, slots=True)
class MpcState:
    """What is remembered of every stage."""

    stages: tuple[tuple[str, StageMemory], ...] = ()


@dataclass(frozen=True, slots=True)
class Mpc:
    """At every step, the best trajectory of configurations over ``horizon`` steps; its first one is applied.

    objective: "throughput" (keep up: alpha x effective service time) or "latency" (alpha exp(R / target)).
    cost: "cores" (beta n) or "power" (beta n f V^2; ``voltages`` by default those of :mod:`penstock.models.power`). switching: gamma of the quadratic switching cost, 0 for none.
    With ``scale`` (seconds) the throughput cost is alpha T_S / scale, as in the paper (alpha 200, scale 1 ms);
    without it T_S counts in inter-arrival times, so that one alpha fits every rate.

    workers: least and most replicas. speeds: CPU frequencies (GHz) or shares that may be set; none: only replicas.
    ``knob`` EXECUTORS scales executors instead, ``speed_knob`` CPU_SHARE sets shares instead of frequencies.
    rebalance: also give a new routing of keys when replicas change or are uneven.

    Beyond the paper: several ``stages`` are optimised jointly under one ``budget`` of replicas (latency is then the sum
    over them). ``waiting="map"`` takes waiting times from a Markovian arrival process fitted to the observed
    inter-arrival times every ``refit`` seconds instead of Kingman's formula; ``"microbatch"`` takes response times from the
    micro-batch model (for plants that tell their trigger), ``"microbatch-map"`` the same under a fitted process; with
    any of them the target may be a ``percentile``. ``margin`` plans for so many standard deviations of recent forecast errors above
    the forecast; ``headroom`` (0.95) keeps ready for that quantile of the work of the last ``recall`` steps, through the silences
    between bursts; ``drain`` plans to work a backlog off within so many seconds; ``steep`` above 1 sharpens the latency cost.
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
    margin: float = 0.0
    headroom: float | None = None
    recall: int = 240
    steep: float = 1.0
    rebalance: bool = True
    forecaster: Forecaster[Any] = field(default_factory=HoltWinters)
    name: str = "Mpc"

    def __post_init__(self) -> None:
        for value, known, what in (
            (self.objective, ("throughput", "latency"), "objective"),
            (self.cost, ("cores", "power"), "cost"),
            (self.waiting, ("kingman", "map", "microbatch", "microbatch-map"), "waiting"),
        ):
            if value not in known:
                raise PenstockError(f"Mpc does not know the {what} '{value}'; choose {' or '.join(known)}.")
        if (
            self.horizon < 1
            or self.switching < 0
            or self.beta < 0
            or self.target <= 0
            or (self.alpha or 1) <= 0
            or self.margin < 0
            or not 0 <= (self.headroom or 0.0) <= 1
            or self.recall < 1
            or self.steep <= 0
        ):
            raise PenstockError(
                "Mpc needs horizon and recall >= 1; switching, beta and margin >= 0; target, alpha and steep > 0; headroom within [0, 1]."
            )
        if not 1 <= self.workers[0] <= self.workers[1]:
            raise PenstockError(
                f"Mpc has the workers {self.workers}; give at least 1 and the smaller number first."
            )
        if isinstance(self.speeds, int | float):
            object.__setattr__(self, "speeds", (float(self.speeds),))
        if any(s <= 0 for s in self.speeds) or len(self.voltages) not in (0, len(self.speeds)):
            raise PenstockError(
                "Mpc needs speeds above 0, and one voltage for each where voltages are given."
            )
        if self.cost == "power" and (self.speed_knob is not Knob.FREQUENCY or not self.speeds):
            raise PenstockError(
                "Mpc needs frequencies as its speeds to count power; give speeds=(1.2, ..., 2.0)."
            )
        if self.cost == "power" and not self.voltages:
            object.__setattr__(self, "voltages", _volts(self.speeds))
        if self.percentile is not None and (self.waiting == "kingman" or not 0 < self.percentile < 1):
            raise PenstockError(
                "Mpc needs waiting map, microbatch or microbatch-map for a percentile between 0 and 1; Kingman gives means only."
            )
        if self.waiting.startswith("microbatch") and self.speeds and self.speed_knob is not Knob.CPU_SHARE:
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
        if self.knob is Knob.EXECUTORS:
            observation = as_one_query(observation, stages_at(observation, *self.stages))
        stages, outlook, memory = self._controlled(observation), self._outlook(), dict(state.stages)
        if self.cost == "power" and stages and all(s.frequency is None for s in stages):
            return state, Decision.keep(
                "power cannot be counted: no frequency can be set here; use cost='cores'"
            )
        loads = []
        for stage in stages:
            memory[stage.name], load = outlook.look(memory.get(stage.name), stage, observation)
            loads += [load] if load is not None else []
        after = MpcState(tuple(memory.items()))
        if not loads or len(loads) < max(1, len(self.stages)):
            return after, Decision.keep("arrival rate or service time of a stage is not known yet")
        return after, self._optimise(observation, stages, loads)

    def _controlled(self, observation: Observation) -> list[StageObservation]:
        """The named stages, or those of the named regions; else the busiest, where workers are scaled one that can grow."""
        stages = observation.stages
        if self.stages:
            return list(stages_at(observation, *self.stages))
        if self.knob is not Knob.EXECUTORS:
            stages = tuple(s for s in stages if s.workers.limit > 1) or stages[:1]
        return sorted(stages, key=lambda s: 0.0 if isnan(s.utilisation) else -s.utilisation)[:1]

    def _outlook(self) -> Outlook:
        return Outlook(
            self.forecaster, self.horizon, self.waiting, self.percentile, self.refit,
            self.drain, self.margin, self.headroom, self.recall, self.knob, self.speed_knob, self.speeds,
        )  # fmt: skip

    # -- the choice

    def _grid(self, stage: StageObservation) -> Grid:
        low, high = self.workers
        speeds = self.speeds if speed_capacity(stage, self.speed_knob) is not None else ()
        return Grid(tuple(range(low, high + 1)), speeds or (1.0,), self.voltages if speeds else ())

    def _weights(self) -> Weights:
        alpha = self.alpha if self.alpha is not None else (50.0 if self.objective == "throughput" else 2.0)
        cost = (
            "shares"
            if self.cost == "cores" and self.speed_knob is Knob.CPU_SHARE and self.speeds
            else self.cost
        )
        return Weights(self.objective, cost, alpha, self.beta, self.target, self.scale, steep=self.steep)

    def _optimise(
        self, observation: Observation, stages: list[StageObservation], loads: list[OperatorLoad]
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
        speed = speed_capacity(stage, self.speed_knob) if self.speeds else None
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
        load: OperatorLoad,
    ) -> list[Change]:
        place = "" if self.knob is Knob.EXECUTORS else stage.name
        before = observation.value(self.knob, place)
        changes = [Change(self.knob, place, workers)] if before not in (None, workers) else []
        present = speed_capacity(stage, self.speed_knob) if len(grid.speeds) > 1 else None
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

    def _explain(
        self, grids: list[Grid], loads: list[OperatorLoad], found: SearchResult, changes: list[Change]
    ) -> Decision:
        first, total, rho, words = found.trajectory[0], 0.0, 0.0, []
        unit = "executors" if self.knob is Knob.EXECUTORS else "replicas"
        for i, (grid, load) in enumerate(zip(grids, loads, strict=True)):
            at = (first[2 * i], first[2 * i + 1])
            total += float(response(grid, load, 0)[at])
            rho = max(rho, float(utilisation(grid, load, 0)[at]))
            speed = f" at {grid.speeds[at[1]]:g}" if len(grid.speeds) > 1 else ""
            words.append(
                f"{load.name}: {1 / load.gaps[0]:.4g} tuples/s expected, {grid.workers[at[0]]} {unit}{speed}"
            )
        latency = self.objective == "latency"
        met = total <= self.target if latency else rho <= 1.0
        which = "response" if self.percentile is None else f"P{100 * self.percentile:g} response"
        reason = "; ".join(words) + f": utilisation {rho:.2f}, {which} {_seconds(total)}"
        reason += f" against {_seconds(self.target)}" if latency else ""
        if not met:
            reason += "; the target is not met in this step"
        metric = Metric.of_response(self.percentile)
        predicted = {Metric.UTILISATION: rho, metric: total if isfinite(total) else nan}
        reachable = met or self._reachable(grids, loads)
        return Decision(tuple(changes), reason, predicted, feasible=reachable)

    def _reachable(self, grids: list[Grid], loads: list[OperatorLoad]) -> bool:
        """Whether the largest configuration would meet the target."""
        best = sum(float(response(g, x, 0).min()) for g, x in zip(grids, loads, strict=True))
        least = max(float(utilisation(g, x, 0).min()) for g, x in zip(grids, loads, strict=True))
        return best <= self.target if self.objective == "latency" else least <= 1.0


def _seconds(value: float) -> str:
    if not isfinite(value):
        return "without bound"
    return f"{value:.3g} s" if value >= 1 else f"{1e3 * value:.3g} ms"


def _volts(frequencies: tuple[float, ...]) -> tuple[float, ...]:
    """The voltage that each frequency needs, where nobody says otherwise."""
    from penstock.models.power import PowerModel

    model = PowerModel()
    low, high = model.frequencies[0], model.frequencies[-1]
    outside = [f for f in frequencies if not low - 1e-9 <= f <= high + 1e-9]
    if outside:
        raise PenstockError(
            f"Mpc counts power by voltages, which are known from {low} to {high} GHz and not for {outside[0]:g}; "
            "give voltages=(...), one for each speed."
        )
    return tuple(model.voltage(f) for f in frequencies)
