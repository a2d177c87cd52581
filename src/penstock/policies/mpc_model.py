"""Predicted service time, response time and cost of every configuration (MPC 3.2, 3.3.1).

For a stage with n replicas at speed f (GHz, or share of a core), work C (seconds a tuple at speed 1), forecast
inter-arrival time T_A, and capacity c = 0.95 (the part of a replica that is really available):

    T     = C / f                              Expr. 1
    T_id  = T / n                              Expr. 5
    T_S   = max(T_A, T_id)                     Expr. 4
    rho   = T_id / (c T_A)
    R     = T + r W(rho) T_id                  Expr. 6-8, W from ``waiting``, r the correction factor
    power = n f V(f)^2                         Expr. 9
    cost  = alpha exp(R / target)              Expr. 12; with ``steep`` alpha exp(1 + steep (R / target - 1)), which
                                               pays for what exceeds the target and hardly for what stays below it
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from penstock.policies.batch_waiting import BatchQuery, BatchResponse
from penstock.policies.waiting import BurstWait, KingmanWait

Floats = NDArray[np.float64]
Wait = KingmanWait | BurstWait | BatchResponse | BatchQuery
#: Beyond this many thresholds the exponential cost only keeps the order of the configurations.
_STEEP = 40.0


@dataclass(frozen=True, slots=True)
class OperatorLoad:
    """What one stage is expected to meet: inter-arrival times step by step, work a tuple, waiting behaviour."""

    name: str
    gaps: tuple[float, ...]
    work: float
    wait: Wait
    correction: float = 1.0


@dataclass(frozen=True, slots=True)
class Grid:
    """The configurations of one stage: numbers of replicas and speeds, with their units for the switching cost."""

    workers: tuple[int, ...]
    speeds: tuple[float, ...]
    voltages: tuple[float, ...] = ()
    speed_unit: float = 0.1

    def axes(self) -> list[Floats]:
        """Positions along the two axes in units of the switching cost."""
        return [np.array(self.workers, dtype=float), np.array(self.speeds) / self.speed_unit]


@dataclass(frozen=True, slots=True)
class Weights:
    """Prices of the three parts of the cost, and the latency threshold."""

    objective: str
    cost: str
    alpha: float
    beta: float
    target: float
    scale: float | None
    capacity: float = 0.95
    steep: float = 1.0


def utilisation(grid: Grid, load: OperatorLoad, step: int, capacity: float = 1.0) -> Floats:
    """rho of every (replicas, speed)."""
    ideal = load.work / np.array(grid.speeds)[None, :] / np.array(grid.workers, dtype=float)[:, None]
    return np.asarray(ideal / (capacity * load.gaps[step]))


def response(grid: Grid, load: OperatorLoad, step: int, capacity: float = 0.95) -> Floats:
    """Mean response time of every (replicas, speed); infinite where it cannot keep up."""
    if isinstance(load.wait, BatchQuery):
        rho, rate = utilisation(grid, load, step), 1.0 / load.gaps[step]
        return load.correction * load.wait(rho, rate, grid.workers, grid.speeds)
    if isinstance(load.wait, BatchResponse):
        return load.correction * load.wait(utilisation(grid, load, step), grid.speeds)
    service = load.work / np.array(grid.speeds)[None, :]
    ideal = service / np.array(grid.workers, dtype=float)[:, None]
    wait = load.wait(utilisation(grid, load, step, capacity))
    return np.asarray(service + load.correction * wait * ideal)


def resources(grid: Grid, cost: str) -> Floats:
    """Cores, or power n f V^2, of every (replicas, speed); a share of a core counts as that share."""
    workers, speeds = np.array(grid.workers, dtype=float)[:, None], np.array(grid.speeds)[None, :]
    if cost == "power":
        voltages = np.array(grid.voltages or (1.0,) * len(grid.speeds))[None, :]
        return np.asarray(workers * speeds * voltages**2)
    if cost == "shares":
        return np.asarray(workers * speeds)
    return np.asarray(workers * np.ones_like(speeds))


def stage_costs(
    grids: Sequence[Grid], loads: Sequence[OperatorLoad], weights: Weights, horizon: int, budget: int | None
) -> list[Floats]:
    """QoS cost plus resource cost of every joint configuration, one array a step (Expr. 11-14)."""
    spent = reduce(np.add, _spread([resources(g, weights.cost) for g in grids]))
    used = reduce(np.add, _spread([resources(g, "cores") for g in grids]))
    costs = []
    for step in range(horizon):
        total = _quality(grids, loads, weights, step) + weights.beta * spent
        costs.append(np.where(used > budget, np.inf, total) if budget is not None else total)
    return costs


def _quality(grids: Sequence[Grid], loads: Sequence[OperatorLoad], weights: Weights, step: int) -> Floats:
    pairs = list(zip(grids, loads, strict=True))
    if weights.objective == "latency":
        rho = reduce(np.maximum, _spread([utilisation(g, x, step, weights.capacity) for g, x in pairs]))
        total = reduce(np.add, _spread([response(g, x, step, weights.capacity) for g, x in pairs]))
        with np.errstate(invalid="ignore"):
            power = np.minimum(1.0 + weights.steep * (total / weights.target - 1.0), _STEEP)
            power = np.where(rho < 1.0, power, _STEEP + np.minimum(rho, 100.0))
        return np.asarray(weights.alpha * np.exp(power))
    # Effective service time max(T_A, T_id), in units of the scale, or of the inter-arrival time itself.
    slow = []
    for grid, load in pairs:
        relative = np.maximum(1.0, utilisation(grid, load, step, weights.capacity))
        slow.append(relative if weights.scale is None else relative * load.gaps[step] / weights.scale)
    return np.asarray(weights.alpha * reduce(np.maximum, _spread(slow)))


def _spread(parts: Sequence[Floats]) -> list[Floats]:
    """Give each stage's (replicas, speed) array its own two axes of the joint grid."""
    count = len(parts)
    shaped = []
    for i, part in enumerate(parts):
        shape = [1] * (2 * count)
        shape[2 * i], shape[2 * i + 1] = part.shape
        shaped.append(part.reshape(shape))
    return shaped
