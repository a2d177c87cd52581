"""Calls in slices of key groups, each timed by itself: from some of them follows what a tuple of each group costs.

An operator is called with the tuples of all its keys at once, which tells nothing about one of them. Now and then the
call is made in a few parts instead, each with the keys of some groups, drawn anew every time; :mod:`~penstock.dataflow.key_costs`
tells the groups apart by the times of such parts. Results do not depend on it: the tuples of different keys are independent.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from penstock.core.arrays import Ints
from penstock.dataflow.calls import CallWork, DeadRows, part_of
from penstock.dataflow.keyed_state import check_columns

#: Parts of a call, and the least tuples that are worth it.
SLICES, LEAST = 4, 32
#: Every so many-th batch is taken in slices.
EVERY = 4


@dataclass(frozen=True)
class Slicing:
    """The key groups that there are, and what slices are drawn from."""

    groups: int
    seed: int


@dataclass(frozen=True)
class SliceTime:
    """The key groups of one slice, the tuples of each, and the CPU seconds that all of them took."""

    groups: tuple[int, ...]
    rows: tuple[int, ...]
    seconds: float


def call_in_slices(
    work: CallWork,
    group: Ints,
    slicing: Slicing,
    call: Callable[[CallWork], list[DeadRows]],
) -> tuple[list[DeadRows], tuple[SliceTime, ...]]:
    """Make a call in slices, as even in tuples as groups allow; what was put aside, and the times.

    ``group`` is the key group of each key.
    """
    groups = {port: group[rows.slots] for port, rows in work.rows.items()}
    counts = np.bincount(np.concatenate(list(groups.values())), minlength=slicing.groups)
    present = np.flatnonzero(counts)
    if len(present) < 2 or counts.sum() < LEAST:
        return call(work), ()
    order = np.random.default_rng(slicing.seed).permutation(present)
    before = counts[order].cumsum() - counts[order]
    number = before * SLICES // counts.sum()
    slice_of = np.full(slicing.groups, -1)
    slice_of[order] = number
    dead: list[DeadRows] = []
    times = []
    for at in np.unique(number).tolist():
        started = time.thread_time()  # not the clock's: whoever else has the core is not the keys' fault
        dead += _part(work, {p: np.flatnonzero(slice_of[g] == at) for p, g in groups.items()}, call)
        seconds = time.thread_time() - started
        own = order[number == at]
        times.append(SliceTime(tuple(own.tolist()), tuple(counts[own].tolist()), seconds))
    return dead, tuple(times)


def _part(
    work: CallWork, chosen: Mapping[str, Ints], call: Callable[[CallWork], list[DeadRows]]
) -> list[DeadRows]:
    """A call with some of the rows."""
    rows = {port: work.rows[port].take(numbers) for port, numbers in chosen.items()}
    if work.state is None or work.task.spec.grain == "key":  # which looks at the keys of the rows only
        return call(CallWork(work.task, rows, work.state, work.output, work.taken))
    slots, placed, state = part_of(work.state, rows)
    dead = call(CallWork(work.task, placed, state, work.output))
    check_columns(work.name, work.task.spec, state)
    work.state.put(slots, state)
    return dead
