"""Random MAPs and phase-type laws for property tests: any seed gives a valid one."""

from collections.abc import Callable

import numpy as np
import pytest

from penstock.models import MAP
from penstock.models.phase_type import PH


@pytest.fixture
def random_map() -> Callable[[int, int], MAP]:
    def build(seed: int, order: int) -> MAP:
        rng = np.random.default_rng(seed)
        rates = np.exp(rng.uniform(-2.0, 2.0, (order, 2 * order)))
        rates *= rng.random((order, 2 * order)) < 0.7
        rates[np.arange(order), order + (np.arange(order) + 1) % order] += (
            0.05  # irreducible, and arrivals happen
        )
        hidden, visible = rates[:, :order], rates[:, order:]
        np.fill_diagonal(hidden, 0.0)
        np.fill_diagonal(hidden, -(hidden.sum(axis=1) + visible.sum(axis=1)))
        return MAP(hidden, visible).scaled(1.0)

    return build


@pytest.fixture
def random_ph() -> Callable[[int, int, float], PH]:
    def build(seed: int, order: int, mean: float) -> PH:
        rng = np.random.default_rng(seed)
        moves = np.exp(rng.uniform(-1.5, 1.5, (order, order))) * (rng.random((order, order)) < 0.6)
        np.fill_diagonal(moves, 0.0)
        out = np.exp(rng.uniform(-1.0, 1.0, order))
        start = rng.random(order) + 0.01
        return PH(start / start.sum(), moves - np.diag(moves.sum(axis=1) + out)).scaled(mean)

    return build
