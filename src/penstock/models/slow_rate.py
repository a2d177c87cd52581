"""Arrivals whose single gaps are regular and whose rate changes slowly: levels of the rate, Erlang gaps within each.

Compositions of two-state factors (``kpc_fit``) get their memory from gaps that vary, of which near-constant gaps have none to
spare, and they know no rate that rises before it falls. Here the rate itself is looked at, over blocks of arrivals: blocks of
like rate are a level, rising and falling ones apart where that helps, a Markov chain moves between levels as the blocks do,
and within a level gaps are Erlang with as many phases as there is room for.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from penstock.core.arrays import Floats, Ints
from penstock.models.chain import is_irreducible
from penstock.models.fit_errors import worst_response_error
from penstock.models.map import MAP
from penstock.models.trace_statistics import TraceStatistics

#: Blocks that a trace is cut into, at most, from coarse to fine, and the least arrivals of one.
BLOCKS, LEAST = (60, 250, 1000), 10
#: Changes of level that must be seen for a chain to be told from chance.
CHANGES = 4
#: How many of the chains are tried at other speeds, and how much faster they may be.
TRIED, FASTEST = 3, 16.0


@dataclass(frozen=True)
class RateLevels:
    """Rates, how often each is left for which other, and the phases of a gap.

    >>> process = RateLevels(np.array([1.0, 3.0]), np.array([[0.0, 0.01], [0.01, 0.0]]), 4).process()
    >>> process.order, round(process.rate, 9), process.dispersion > 50, process.scv < 1
    (8, 2.0, True, True)
    """

    rates: Floats
    moves: Floats
    phases: int

    def process(self) -> MAP:
        """Erlang gaps at the rate of a level, which may change at any moment."""
        stage, last = np.eye(self.phases), np.zeros((self.phases, self.phases))
        last[-1, 0] = 1.0
        speed = np.diag(self.phases * self.rates)
        chain = self.moves - np.diag(self.moves.sum(axis=1))
        hidden = np.kron(speed, np.eye(self.phases, k=1) - stage) + np.kron(chain, stage)
        return MAP(hidden, np.kron(speed, last))

    def error(self, stats: TraceStatistics) -> float:
        """How far its probe queue is from the trace's."""
        return worst_response_error(self.process(), stats)


def slow_rates(gaps: Floats, stats: TraceStatistics, max_states: int) -> Iterator[MAP]:
    """The candidates for gaps of unit mean whose queues are nearest to the trace's.

    A recorded trace holds few of its slow swings, and none of the long ones that a chain has now and then; so the best
    chains are also tried faster.
    """
    found = sorted(((made.error(stats), n, made) for n, made in enumerate(_chains(gaps, max_states))))
    for error, _, made in found[:TRIED]:
        best, least, speed = made, error, 1.0
        while speed < FASTEST:
            speed *= 1.5
            quicker = replace(made, moves=made.moves * speed)
            if (now := quicker.error(stats)) >= least:
                break
            best, least = quicker, now
        yield best.process()


def _chains(gaps: Floats, max_states: int) -> Iterator[RateLevels]:
    """Chains of two levels and more, for several lengths of blocks, with and without a direction."""
    for count in BLOCKS:
        size = max(gaps.size // count, LEAST)
        if gaps.size // size < 2 * CHANGES:
            continue
        times = gaps[: gaps.size // size * size].reshape(-1, size)
        if not (times.sum(axis=1) > 0).all():
            continue
        for levels, directed in ((2, False), (3, False), (4, False), (3, True), (4, True), (8, False)):
            if levels * (1 + directed) <= max_states:
                made = _chain(times, levels, directed, max_states)
                if made is not None:
                    yield made


def _chain(times: Floats, levels: int, directed: bool, max_states: int) -> RateLevels | None:
    """The chain of blocks of gaps, one a row; None where they show too few changes."""
    size, lengths = times.shape[1], times.sum(axis=1)
    speed = np.log(size / lengths)
    state = _grouped(speed, levels)
    if directed:
        state = 2 * state + (np.gradient(speed) > 0)
    state = np.unique(state, return_inverse=True)[1]
    states = int(state.max()) + 1
    changes = np.zeros((states, states))
    np.add.at(changes, (state[:-1], state[1:]), 1.0)
    np.fill_diagonal(changes, 0.0)
    if states < 2 or changes.sum() < CHANGES or not is_irreducible(changes):
        return None
    spent = np.bincount(state, weights=lengths, minlength=states)
    rates = np.bincount(state, minlength=states) * size / spent
    within = float(np.mean(times.var(axis=1) / times.mean(axis=1) ** 2))
    phases = max(1, min(max_states // states, round(1 / max(within, 1e-3))))
    return RateLevels(rates, changes / spent[:, None], phases)


def _grouped(values: Floats, count: int) -> Ints:
    """The group of each value, by nearest centre."""
    centres = np.quantile(values, (np.arange(count) + 0.5) / count)
    nearest = np.zeros(values.size, dtype=np.int64)
    for _ in range(20):
        nearest = np.abs(values[:, None] - centres).argmin(axis=1)
        inside = [values[nearest == i] for i in range(count)]
        centres = np.array([some.mean() if some.size else c for some, c in zip(inside, centres, strict=True)])
    return nearest
