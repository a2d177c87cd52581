"""Sampling a MAP: walk through its phases, one exponential a visit, a gap at each visible transition."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from penstock.core.errors import PenstockError
from penstock.core.jit import jit

if TYPE_CHECKING:
    from penstock.models.map import MAP

Floats = NDArray[np.float64]


class MapSampler:
    """An endless stream of inter-arrival times, taken in blocks of any size.

    The phase is carried from block to block, so that bursts cross their boundaries: the same seed gives the same
    stream however it is cut.

    >>> from penstock.models import Poisson
    >>> a, b = (Poisson(2.0).sampler(np.random.default_rng(1)) for _ in range(2))
    >>> bool(np.array_equal(a.take(10), np.concatenate([b.take(3), b.take(7)])))
    True
    """

    def __init__(self, process: MAP, rng: np.random.Generator, phase: int | None = None) -> None:
        if phase is not None and not 0 <= phase < process.order:
            raise PenstockError(
                f"Phase {phase} does not exist; this MAP has phases 0 to {process.order - 1}."
            )
        self.rng = rng
        self._mean_stay, self._cumulated = jump_table(process.D0, process.D1)
        self._simple = not np.any(process.D0 - np.diag(np.diag(process.D0)))
        first = rng.random() if phase is None else 0.0
        #: The phase just after the last arrival; hand it to a new sampler to go on from there.
        self.phase: int = (
            min(int(np.searchsorted(np.cumsum(process.phase_at_arrivals), first)), process.order - 1)
            if phase is None
            else phase
        )

    def take(self, n: int) -> Floats:
        """The next ``n`` inter-arrival times."""
        if n < 0:
            raise PenstockError(f"Cannot sample {n} arrivals; ask for zero or more.")
        gaps = np.empty(n)
        walk = _walk_visible if self._simple else _walk
        self.phase = int(walk(self.rng, self.phase, self._mean_stay, self._cumulated, gaps))
        return gaps


def jump_table(hidden: Floats, visible: Floats) -> tuple[Floats, Floats]:
    """Mean stay in each phase, and the cumulated probabilities of what ends it (first hidden, then visible)."""
    order = len(hidden)
    mean_stay = -1.0 / np.diag(hidden)
    jumps = np.hstack([hidden, visible]) * mean_stay[:, None]
    jumps[np.arange(order), np.arange(order)] = 0.0
    cumulated = np.cumsum(jumps, axis=1)
    return mean_stay, np.ascontiguousarray(cumulated / cumulated[:, -1:])


@jit
def _walk(
    rng: np.random.Generator, phase: int, mean_stay: Floats, cumulated: Floats, gaps: Floats
) -> int:  # pragma: no cover - compiled
    order = mean_stay.size
    for index in range(gaps.size):
        gap = 0.0
        while True:
            gap += mean_stay[phase] * rng.standard_exponential()
            u = rng.random()
            target = 0
            while target < 2 * order - 1 and cumulated[phase, target] <= u:
                target += 1
            if target >= order:
                phase = target - order
                break
            phase = target
        gaps[index] = gap
    return phase


@jit
def _walk_visible(
    rng: np.random.Generator, phase: int, mean_stay: Floats, cumulated: Floats, gaps: Floats
) -> int:  # pragma: no cover - compiled
    """The same walk without hidden transitions: one exponential and one uniform number an arrival."""
    order = mean_stay.size
    for index in range(gaps.size):
        gaps[index] = mean_stay[phase] * rng.standard_exponential()
        u = rng.random()
        target = order
        while target < 2 * order - 1 and cumulated[phase, target] <= u:
            target += 1
        phase = target - order
    return phase
