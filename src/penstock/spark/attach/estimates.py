"""Work per row, overhead per batch and utilisation of a micro-batch query, from what Spark reports anyway.

A batch of n rows on W slots that work at the same time takes

    duration = fixed + (per_batch + service * n) / W

*service* is task time a row, *per_batch* task time that every batch costs whatever its size (starting tasks), *fixed* what
happens outside tasks (planning, scheduling, commits). With a trigger every T seconds the query can serve

    capacity = W * (T - overhead) / (service * T)  rows a second,   overhead = fixed + per_batch / W
    utilisation = arrival rate / capacity

which is 1 exactly where a batch takes T. Without a trigger interval batches follow each other at once, larger ones
share the overhead among more rows, and the capacity is W / service.

Task time is read after every batch, so the coefficients come from a regression over batches:

    busy = per_batch + service * rows        (both >= 0)

Errors count in relation to the busy time, so that small batches matter as much as large ones. Batches are kept by
size, the latest few of each, so that a long quiet time does not make the meter forget what a busy one has taught; older
ones count less (half after five minutes), since code that was cold then is warm now.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, isnan, log2, nan

import numpy as np

from penstock.spark.attach.batch_history import SeenBatch

#: Seconds after which a period counts half.
HALF_LIFE = 300.0


@dataclass(frozen=True, slots=True)
class WorkEstimate:
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

    def settled(self, rate: float, slots: float) -> float:
        """How long batches end up taking that follow each other at once; infinite where they grow without end.

        >>> WorkEstimate(service=0.005, per_batch=0.0, fixed=2.0).settled(rate=100.0, slots=1.0)
        4.0
        """
        load = self.utilisation(rate, slots, 0.0)
        return inf if load >= 1 else self.overhead(slots) / (1.0 - load)

    def utilisation(self, rate: float, slots: float, trigger: float) -> float:
        """Arrivals over what can be served (see the module's text)."""
        load = rate * self.service / slots
        if trigger <= 0 or isnan(load):
            return load
        room = 1.0 - self.overhead(slots) / trigger
        # Where the overhead alone fills the interval the capacity is no longer positive; what remains true
        # is that a batch takes so many times the interval.
        return load / room if room > 0.1 else max(load / 0.1, self.duration(rate * trigger, slots) / trigger)


class WorkMeter:
    """Makes a :class:`WorkEstimate` from the latest ``per_size`` batches of each size (in steps of sqrt 2)."""

    def __init__(self, per_size: int = 8, memory: float = 900.0) -> None:
        self._per_size, self._memory = per_size, memory
        self._sizes: dict[int, deque[SeenBatch]] = {}
        self._work = WorkEstimate()

    def add(self, batches: Sequence[SeenBatch]) -> WorkEstimate:
        """Take batches whose task time is known; returns the present estimate."""
        filled = [b for b in batches if b.rows > 0 and b.busy > 0]
        for batch in filled:
            size = round(2 * log2(batch.rows))
            self._sizes.setdefault(size, deque(maxlen=self._per_size)).append(batch)
        if filled:
            now = filled[-1].end
            self._work = _fit(
                [b for kept in self._sizes.values() for b in kept if b.end > now - self._memory], now
            )
        return self._work

    def forget(self) -> None:
        """Begin anew: what was measured before no longer holds, for example after the CPU quota changed."""
        self._sizes.clear()


def warm_up(batches: Sequence[SeenBatch], work: WorkEstimate) -> float:
    """Seconds by which new executors made the longest of these batches longer than its rows say; nan where none were new.

    Executors may come before a batch or within it, so both the batch in which there are more slots and the next one may be the
    first on them. The former is held against the slots there were before, which leaves out what the new ones helped. The first
    two batches are there for their slots only.

    >>> rows = [SeenBatch(k, 2.0 * k, took, 100, 2.0, slots=n) for k, (took, n) in enumerate([(0.7, 1), (0.7, 1), (3.2, 2), (0.5, 2)])]
    >>> round(warm_up(rows, WorkEstimate(0.005, 0.0, 0.2)), 3)
    2.5
    """
    longer = [
        max(0.0, batch.duration - work.duration(batch.rows, min(before.slots, batch.slots)))
        for last, before, batch in zip(batches, batches[1:], batches[2:], strict=False)
        if work.known and (batch.slots > before.slots or before.slots > last.slots)
    ]
    return max(longer, default=nan)


def _fit(batches: list[SeenBatch], now: float) -> WorkEstimate:
    weight = np.array([0.5 ** ((now - b.end) / HALF_LIFE) for b in batches])
    busy = np.array([b.busy for b in batches])
    rows = np.array([float(b.rows) for b in batches])
    fixed = max(0.0, float(np.median([b.duration - b.busy / b.slots for b in batches])))
    # Batches of one size cannot tell the two coefficients apart: a faint belief that each has half settles it.
    belief = np.array([np.median(busy) / 2, np.median(busy / rows) / 2])
    columns = np.vstack(
        [np.column_stack([np.ones_like(rows), rows]) * (weight / busy)[:, None], np.diag(0.2 / belief)]
    )
    values = np.concatenate([weight, [0.2, 0.2]])
    per_batch, service = np.linalg.lstsq(columns, values, rcond=None)[0]
    if per_batch < 0:
        per_batch, service = 0.0, 2 * belief[1]
    elif service <= 0:  # rows cost something, even where it cannot be seen
        per_batch, service = 1.8 * belief[0], 0.2 * belief[1]
    return WorkEstimate(float(service), float(per_batch), fixed)
