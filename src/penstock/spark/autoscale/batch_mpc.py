"""Model-predictive control of a micro-batch query (MPC 3, with the response of :class:`penstock.models.MicroBatch`).

At every step, over the next ``horizon`` steps and for every number n of executors (and CPU share f):

    lambda_i = forecast of step i + margin x standard deviation of recent forecast errors + backlog / drain
    R_i(n,f) = percentile of the response of a micro-batch query with lambda_i, n slots of share f
    J        = sum_i [alpha exp(steep (R_i / target - 1)) + beta n f / f_max] + gamma sum_i |change|^2

The best trajectory is a shortest path (exact dynamic programming); its first configuration is applied. A tuple waits
for its batch, which Kingman's formula does not know: hence the micro-batch queue in place of it. ``steep`` = 1 is the
paper's cost up to a factor; a steeper one pays for what exceeds the target and hardly for what stays below it.
"""

from dataclasses import dataclass, field, replace
from functools import lru_cache
from math import isfinite, isnan, log2, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.core.capacity import Knob
from penstock.core.decision import Change, Decision
from penstock.core.errors import PenstockError
from penstock.core.metrics import Metric
from penstock.core.observation import Observation, StageObservation
from penstock.forecast import Forecaster, Holt, trajectory
from penstock.models import MicroBatch
from penstock.policies.search import shortest_path

Floats = NDArray[np.float64]
#: Beyond so many targets the exponential only keeps the order.
_STEEP = 30.0


@dataclass(frozen=True, slots=True)
class BatchMpcState:
    """The forecaster's state, the last forecast, and the mean square of its errors."""

    forecast: Any
    expected: float = float("nan")
    error: float = 0.0


@dataclass(frozen=True, slots=True)
class BatchMpc:
    """See the module's text; ``shares`` are CPU shares that may be set, none for executors only."""

    target: float = 3.0
    percentile: float = 0.95
    executors: tuple[int, int] = (1, 8)
    shares: tuple[float, ...] = ()
    horizon: int = 4
    alpha: float = 2.0
    beta: float = 0.5
    steep: float = 5.0
    switching: float = 0.4
    margin: float = 1.0
    drain: float | None = None  # seconds in which a backlog is to be worked off; None: the target
    # Executors take four or five steps to come and slow the batch in which they do: what counts is the load that
    # lasts, so the forecast is slow, has no trend, and leaves short bursts to the margin.
    forecaster: Forecaster[Any] = field(default_factory=lambda: Holt(alpha=0.3, beta=0.0, phi=0.5))
    name: str = "BatchMpc"

    def __post_init__(self) -> None:
        if not (self.target > 0 and 0 < self.percentile < 1 and self.horizon >= 1):
            raise PenstockError(
                "BatchMpc needs a target above 0, a percentile within (0, 1) and horizon >= 1."
            )
        if not 1 <= self.executors[0] <= self.executors[1] or any(not 0 < s <= 1 for s in self.shares):
            raise PenstockError(
                "BatchMpc needs executors of at least 1, the smaller first, and shares in (0, 1]."
            )
        if min(self.alpha, self.beta, self.switching, self.margin) < 0:
            raise PenstockError("BatchMpc needs weights that are not negative.")

    def start(self) -> BatchMpcState:
        """Nothing known."""
        return BatchMpcState(self.forecaster.start())

    def step(self, state: BatchMpcState, observation: Observation) -> tuple[BatchMpcState, Decision]:
        """Forecast, search, and answer with the first configuration of the best trajectory."""
        if not observation.stages or observation.executors is None:
            return state, Decision.keep("no query to look at")
        stage = max(observation.stages, key=lambda s: -1.0 if isnan(s.utilisation) else s.utilisation)
        state = self._learn(state, stage.arrival_rate)
        rates = self._rates(state, stage)
        trigger, overhead = stage.extra.get("trigger", 0.0), stage.extra.get("overhead_time", float("nan"))
        if not stage.service_time > 0 or isnan(overhead) or not all(isfinite(r) for r in rates):
            return state, Decision.keep("arrival rate or cost of a row is not known yet")
        return state, self._optimise(observation, stage, rates, max(trigger, 0.1), overhead)

    def _learn(self, state: BatchMpcState, rate: float) -> BatchMpcState:
        error = state.error
        if not isnan(rate) and not isnan(state.expected):
            error = 0.9 * error + 0.1 * (rate - state.expected) ** 2
        forecast = self.forecaster.update(state.forecast, rate)
        return replace(state, forecast=forecast, error=error, expected=self.forecaster.predict(forecast, 1))

    def _rates(self, state: BatchMpcState, stage: StageObservation) -> tuple[float, ...]:
        waiting = 0.0 if isnan(stage.backlog) else stage.backlog
        extra = self.margin * sqrt(state.error) + waiting / (self.drain or self.target)
        return tuple(r + extra for r in trajectory(self.forecaster, state.forecast, self.horizon))

    def _optimise(
        self,
        observation: Observation,
        stage: StageObservation,
        rates: tuple[float, ...],
        trigger: float,
        overhead: float,
    ) -> Decision:
        counts = np.arange(self.executors[0], self.executors[1] + 1, dtype=float)
        present = stage.cpu_share.observed if stage.cpu_share is not None else 1.0
        shares = np.array(self.shares if self.shares and stage.cpu_share is not None else (present,))
        per_executor = observation.extra.get("slots", 1.0) / max(observation.executors.observed, 1.0)  # type: ignore[union-attr]
        load = stage.service_time * present / (counts[:, None] * max(per_executor, 1e-9) * shares[None, :])
        # Of the overhead, starting tasks is shared by the slots, the rest is not.
        fixed = min(overhead, stage.extra.get("fixed_time", overhead))
        starting = (overhead - fixed) * observation.executors.observed / counts[:, None]  # type: ignore[union-attr]
        slowed = fixed + starting * present / shares[None, :]
        responses = [self._responses(rate, load, slowed, trigger) for rate in rates]
        price = self.beta * counts[:, None] * shares[None, :] / shares.max()
        costs = [
            self.alpha * np.exp(np.minimum(self.steep * (r / self.target - 1.0), _STEEP)) + price
            for r in responses
        ]
        planned = observation.executors.planned if observation.executors else 1.0
        now = [planned, (stage.cpu_share.planned if stage.cpu_share is not None else present) / 0.1]
        best = shortest_path(costs, [counts, shares / 0.1], now, self.switching).trajectory[0]
        return self._decide(
            observation, stage, int(counts[best[0]]), float(shares[best[1]]), rates[0], responses[0][best]
        )

    def _responses(self, rate: float, load: Floats, overhead: Floats, trigger: float) -> Floats:
        """Percentile of the response for every configuration."""
        flat = [
            trigger
            * _relative(
                round(o / trigger, 2),
                round(rate * w, 2),
                round(log2(max(rate * trigger, 1.0))),
                self.percentile,
            )
            for w, o in zip(load.ravel(), overhead.ravel(), strict=True)
        ]
        return np.array(flat).reshape(load.shape)

    def _decide(
        self,
        observation: Observation,
        stage: StageObservation,
        count: int,
        share: float,
        rate: float,
        response: float,
    ) -> Decision:
        changes = []
        if observation.value(Knob.EXECUTORS) not in (None, count):
            changes.append(Change(Knob.EXECUTORS, "", count))
        if self.shares and stage.cpu_share is not None and abs(stage.cpu_share.planned - share) > 1e-9:
            changes.append(Change(Knob.CPU_SHARE, stage.name, share))
        met = response <= self.target
        what = f"{count} executor(s)" + (f" at {share:.0%}" if self.shares else "")
        reason = (
            f"{stage.name}: up to {rate:.4g} rows/s expected, {what}: P{100 * self.percentile:g} response "
            f"{response:.3g} s against {self.target:g} s"
            + ("" if met else "; the target is not met in this step")
        )
        predicted = {Metric.LATENCY_P95: response} if isfinite(response) else {}
        return Decision(tuple(changes), reason, predicted, feasible=met)


@lru_cache(maxsize=8192)
def _relative(overhead: float, load: float, size: int, percentile: float) -> float:
    """Percentile of the response in trigger intervals.

    Stretching time changes nothing, so overhead over trigger, load (work that arrives a second of capacity) and the
    size of a batch (its random part) say everything, and rounding them makes the answers reusable.
    """
    if load >= 0.98:
        return _STEEP * 10 * max(load, 1.0)
    rows = 2.0**size
    query = MicroBatch(rows, 1.0, overhead, load / rows)
    return float(query.percentile(percentile))
