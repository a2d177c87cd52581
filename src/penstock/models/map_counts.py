"""Numbers of arrivals of a MAP in successive slots, without walking through every arrival.

The phase at the slot edges is a Markov chain with matrix e^{Qh}. Given the phases at both edges, mean and variance of
the count follow from M_r, where exp([[Q, D1, 0], [0, Q, D1], [0, 0, Q]] h) has the first row e^{Qh}, M_1, M_2 and M_r
is the r-th factorial moment over r!, joint with the end phase. Slots with many arrivals then cost one draw of a gamma
law with these two moments; slots with few are walked through exactly.
"""

import numpy as np
from numpy.typing import NDArray

from penstock.core.errors import PenstockError
from penstock.core.jit import jit
from penstock.models.map import MAP
from penstock.models.map_sampler import jump_table
from penstock.models.matrix_exponential import expm

Floats = NDArray[np.float64]

#: Mean arrivals per slot from which two moments describe a count well enough.
_MANY = 30.0


def sample_counts(process: MAP, slot: float, slots: int, rng: np.random.Generator) -> Floats:
    """Arrivals in each of ``slots`` slots of ``slot`` seconds, starting at an arbitrary time.

    >>> counts = sample_counts(MAP([[-5.0]], [[5.0]]), 1.0, 10_000, np.random.default_rng(0))
    >>> bool(4.9 < counts.mean() < 5.1)
    True
    """
    if not slot > 0.0 or slots < 1:
        raise PenstockError(f"Counts need a slot above zero and at least one slot, not {slot} s and {slots}.")
    counts = np.empty(slots)
    phase = min(int(np.searchsorted(np.cumsum(process.phase), rng.random())), process.order - 1)
    if process.rate * slot < _MANY:
        mean_stay, cumulated = jump_table(process.D0, process.D1)
        _walk_slots(rng, phase, mean_stay, cumulated, slot, counts)
    else:
        moves, mean, variance = slot_moments(process, slot)
        _draw_slots(rng, phase, np.cumsum(moves, axis=1), mean, variance, counts)
    return counts


def slot_moments(process: MAP, slot: float) -> tuple[Floats, Floats, Floats]:
    """Transition matrix over a slot; mean and variance of the count given its start and end phase."""
    n = process.order
    block = np.zeros((3 * n, 3 * n))
    for i in range(3):
        block[i * n : (i + 1) * n, i * n : (i + 1) * n] = process.generator
    block[:n, n : 2 * n] = block[n : 2 * n, 2 * n :] = process.D1
    row = np.maximum(expm(block * slot)[:n], 1e-300)
    moves, first, pairs = row[:, :n], row[:, n : 2 * n], row[:, 2 * n :]
    mean = first / moves
    variance = 2.0 * pairs / moves + mean - mean**2
    return moves, mean, np.maximum(variance, 1e-9 * mean**2)


@jit
def _walk_slots(
    rng: np.random.Generator, phase: int, mean_stay: Floats, cumulated: Floats, slot: float, counts: Floats
) -> None:  # pragma: no cover - compiled
    order = mean_stay.size
    left = mean_stay[phase] * rng.standard_exponential()
    for index in range(counts.size):
        time, count = left, 0
        while time < slot:
            u, target = rng.random(), 0
            while target < 2 * order - 1 and cumulated[phase, target] <= u:
                target += 1
            if target >= order:
                count += 1
                target -= order
            phase = target
            time += mean_stay[phase] * rng.standard_exponential()
        left = time - slot
        counts[index] = count


@jit
def _draw_slots(
    rng: np.random.Generator, phase: int, cumulated: Floats, mean: Floats, variance: Floats, counts: Floats
) -> None:  # pragma: no cover - compiled
    order = mean.shape[0]
    for index in range(counts.size):
        u, target = rng.random() * cumulated[phase, order - 1], 0
        while target < order - 1 and cumulated[phase, target] <= u:
            target += 1
        m, v = mean[phase, target], variance[phase, target]
        counts[index] = rng.gamma(m * m / v, v / m)
        phase = target
