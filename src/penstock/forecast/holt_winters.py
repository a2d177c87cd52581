"""Level, trend and season by exponential smoothing, with parameters that tune themselves."""

from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from math import isnan, nan

import numpy as np

from penstock.core.arrays import Floats
from penstock.core.errors import PenstockError


@dataclass(frozen=True, slots=True, eq=False)
class HoltWintersState:
    """One filter per candidate: level, trend and seasonal offsets, and the discounted squared error of each."""

    level: Floats
    trend: Floats
    season: Floats  # (candidates, season)
    error: Floats
    count: int = 0
    first: tuple[float, ...] = ()  # values of the first season, before the filters start


@dataclass(frozen=True, slots=True)
class HoltWinters:
    """Additive Holt-Winters; every combination of the given parameters runs at once and the best one forecasts.

        level'  = alpha (value - season_t) + (1 - alpha) (level + phi trend)
        trend'  = beta (level' - level) + (1 - beta) phi trend
        season_t' = gamma (value - level') + (1 - gamma) season_t
        error'  = memory error + (1 - memory) (value - one-step forecast)^2     the candidate with the least is used

    ``season`` is its length in steps; 0 means none (then this is Holt with tuning). One value for each of alpha,
    beta and gamma switches the tuning off. The forecast never falls below ``floor``.

    >>> forecaster = HoltWinters(season=4)
    >>> state = forecaster.start()
    >>> for step in range(80):
    ...     state = forecaster.update(state, 100.0 + step + (10, 0, -10, 0)[step % 4])
    >>> [round(forecaster.predict(state, h)) for h in (1, 2, 3)]
    [190, 181, 172]
    """

    season: int = 0
    alpha: tuple[float, ...] = (0.1, 0.3, 0.6, 0.9)
    beta: tuple[float, ...] = (0.0, 0.1, 0.3)
    gamma: tuple[float, ...] = (0.1, 0.4)
    phi: float = 0.98
    memory: float = 0.95
    floor: float = 0.0
    name: str = "Holt-Winters"

    def __post_init__(self) -> None:
        grids = (self.alpha, self.beta, self.gamma)
        if not all(grids) or not all(0 <= p <= 1 for g in grids for p in g) or min(self.alpha) <= 0:
            raise PenstockError("Holt-Winters needs parameters between 0 and 1, and alpha above 0.")
        if self.season < 0 or self.season == 1 or not 0 < self.phi <= 1 or not 0 <= self.memory < 1:
            raise PenstockError(
                "Holt-Winters needs a season of 0 or at least 2 steps, phi in (0, 1] and memory in [0, 1)."
            )

    def start(self) -> HoltWintersState:
        """Nothing seen."""
        candidates = len(_grid(self)[0])
        zeros = np.zeros(candidates)
        return HoltWintersState(zeros, zeros, np.zeros((candidates, max(1, self.season))), zeros)

    def update(self, state: HoltWintersState, value: float) -> HoltWintersState:
        """One step of every candidate; a full first season (or two values) sets them going."""
        warm = max(2, self.season)
        if len(state.first) < warm:
            return self._begin(state, value, warm)
        if isnan(value):
            damped = self.phi * state.trend
            return HoltWintersState(
                state.level + damped, damped, state.season, state.error, state.count + 1, state.first
            )
        return self._smooth(state, value)

    def _begin(self, state: HoltWintersState, value: float, warm: int) -> HoltWintersState:
        if isnan(value):
            if not state.first:
                return state
            value = state.first[-1]
        first = (*state.first, value)
        candidates = len(state.error)
        level = np.full(candidates, value)
        trend, season = np.zeros(candidates), state.season
        if len(first) == warm and self.season:
            mean = sum(first) / warm
            level, season = np.full(candidates, mean), np.tile(np.array(first) - mean, (candidates, 1))
        elif len(first) == warm:
            trend = np.full(candidates, first[1] - first[0])
        return HoltWintersState(level, trend, season, state.error, len(first), first)

    def _smooth(self, state: HoltWintersState, value: float) -> HoltWintersState:
        alpha, beta, gamma = _grid(self)
        slot = state.count % max(1, self.season)
        damped, offset = self.phi * state.trend, state.season[:, slot]
        miss = value - (state.level + damped + offset)
        level = state.level + damped + alpha * miss
        trend = damped + beta * (level - state.level - damped)
        season = state.season
        if self.season:
            season = season.copy()
            season[:, slot] = offset + gamma * (value - level - offset)
        error = self.memory * state.error + (1 - self.memory) * miss * miss
        return HoltWintersState(level, trend, season, error, state.count + 1, state.first)

    def predict(self, state: HoltWintersState, steps: int = 1) -> float:
        """The forecast of the candidate that has been best of late."""
        if not state.first:
            return nan
        best = int(np.argmin(state.error))
        reach = float(steps) if self.phi == 1 else self.phi * (1 - self.phi**steps) / (1 - self.phi)
        slot = (state.count + steps - 1) % max(1, self.season)
        ahead = state.level[best] + reach * state.trend[best] + state.season[best, slot]
        return max(self.floor, float(ahead))

    def chosen(self, state: HoltWintersState) -> tuple[float, float, float]:
        """Alpha, beta and gamma of the candidate in use."""
        best = int(np.argmin(state.error))
        alpha, beta, gamma = (float(g[best]) for g in _grid(self))
        return alpha, beta, gamma


@lru_cache(maxsize=64)
def _grid(config: HoltWinters) -> tuple[Floats, Floats, Floats]:
    """All combinations of the parameters, one array each; without a season gamma has no effect."""
    gammas = config.gamma if config.season else config.gamma[:1]
    rows = np.array(list(product(config.alpha, config.beta, gammas)))
    return rows[:, 0], rows[:, 1], rows[:, 2]
