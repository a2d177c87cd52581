"""Work per row, overhead per batch and utilisation of a micro-batch query, from what Spark reports anyway.

A batch of n rows on W slots that work at the same time takes

    duration = fixed + (per_batch + service * n) / W

*service* is task time a row, *per_batch* task time that every batch costs whatever its size (starting tasks), *fixed* what
happens outside tasks (planning, scheduling, commits). With a trigger every T seconds the query can serve

    capacity = W * (T - overhead) / (service * T)  rows a second,   overhead = fixed + per_batch / W
    utilisation = arrival rate / capacity

which is 1 exactly where a batch takes T. Without a trigger interval batches follow each other at once, larger ones
share the overhead among more rows, and the capacity is W / service.

Task time is known per period, not per batch, so both coefficients come from a regression over periods:

    busy = per_batch * batches + service * rows        (both >= 0)

Periods are kept by the size of their batches, the latest few of each size, so that a long quiet time does not make
the meter forget what a busy one has taught.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from math import isnan, log2, nan

import numpy as np

from penstock.spark.autoscale.batches import Batch


@dataclass(frozen=True, slots=True)
class Work:
    """What rows and batches cost, in seconds; ``nan`` until something was measured."""

    service: float = nan  # task time a row
    per_batch: float = nan  # task time a batch, whatever its size
    fixed: float = nan  # time a batch outside of tasks

    @property
    def known(self) -> bool:
        """Whether anything was measured yet."""
        return not isnan(self.service)

    def overhead(self, slots: float) -> float:
        """How long a batch without rows takes."""
        return self.fixed + self.per_batch / slots

    def duration(self, rows: float, slots: float) -> float:
        """How long a batch of so many rows takes."""
        return self.overhead(slots) + self.service * rows / slots

    def utilisation(self, rate: float, slots: float, trigger: float) -> float:
        """Arrivals over what can be served (see the module's text)."""
        load = rate * self.service / slots
        if trigger <= 0 or isnan(load):
            return load
        room = 1.0 - self.overhead(slots) / trigger
        # Where the overhead alone fills the interval the capacity is no longer positive; what remains true
        # is that a batch takes so many times the interval.
        return load / room if room > 0.1 else max(load / 0.1, self.duration(rate * trigger, slots) / trigger)


@dataclass(frozen=True, slots=True)
class _Sample:
    busy: float
    rows: float
    batches: int
    outside: float  # duration of the batches minus busy / slots


class WorkMeter:
    """Estimates :class:`Work` from the latest ``per_size`` periods of each size of batches (in steps of sqrt 2).

    Busy time and batches are reported at different instants, so what belongs to one period is first summed up until
    at least ``least`` batches are in it.
    """

    def __init__(self, per_size: int = 6, least: int = 2) -> None:
        self._per_size, self._least = per_size, least
        self._sizes: dict[int, deque[_Sample]] = {}
        self._open = _Sample(0.0, 0.0, 0, 0.0)
        self._work = Work()

    def add(self, busy: float, batches: Sequence[Batch], slots: float) -> Work:
        """Take what happened since the last call; returns the present estimate."""
        filled = [b for b in batches if b.rows > 0]
        rows = sum(b.rows for b in filled)
        before = self._open
        self._open = _Sample(
            before.busy + busy,
            before.rows + rows,
            before.batches + len(filled),
            before.outside + sum(b.duration for b in filled) - busy / max(slots, 1e-9),
        )
        if self._open.batches >= self._least:
            size = round(2 * log2(self._open.rows / self._open.batches))
            self._sizes.setdefault(size, deque(maxlen=self._per_size)).append(self._open)
            self._open = _Sample(0.0, 0.0, 0, 0.0)
            self._work = _fit([s for kept in self._sizes.values() for s in kept])
        return self._work

    def forget(self) -> None:
        """Begin anew: what was measured before no longer holds, for example after the CPU quota changed."""
        self._sizes.clear()
        self._open = _Sample(0.0, 0.0, 0, 0.0)


def _fit(samples: list[_Sample]) -> Work:
    busy = np.array([s.busy for s in samples])
    batches = np.array([float(s.batches) for s in samples])
    rows = np.array([s.rows for s in samples])
    fixed = max(0.0, sum(s.outside for s in samples) / batches.sum())
    # Batches of one size cannot tell the two coefficients apart: a faint belief that each has half settles it.
    belief = np.array([busy.sum() / batches.sum() / 2, busy.sum() / rows.sum() / 2])
    faint = 0.05 * np.array([np.sqrt((batches**2).sum()), np.sqrt((rows**2).sum())])
    columns = np.vstack([np.column_stack([batches, rows]), np.diag(faint)])
    values = np.concatenate([busy, faint * belief])
    per_batch, service = np.linalg.lstsq(columns, values, rcond=None)[0]
    if per_batch < 0:
        per_batch, service = 0.0, busy.sum() / rows.sum()
    elif service <= 0:
        service = 0.1 * busy.sum() / rows.sum()  # rows cost something, even where it cannot be seen
        per_batch = 0.9 * busy.sum() / batches.sum()
    return Work(float(service), float(per_batch), float(fixed))
