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

Errors count in relation to the busy time, so that small batches matter as much as large ones. Periods are kept by the
size of their batches, the latest few of each size, so that a long quiet time does not make the meter forget what a
busy one has taught; older ones count less (half after five minutes), since code that was cold then is warm now.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from math import isnan, log2, nan

import numpy as np

from penstock.spark.autoscale.batches import Batch

#: Seconds after which a period counts half.
HALF_LIFE = 300.0


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
    time: float = 0.0


class WorkMeter:
    """Estimates :class:`Work` from the latest ``per_size`` periods of each size of batches (in steps of sqrt 2).

    Busy time and batches are reported at different instants, so what belongs to one period is first summed up until
    at least ``least`` batches are in it.
    """

    def __init__(self, per_size: int = 6, least: int = 2, memory: float = 900.0) -> None:
        self._per_size, self._least, self._memory = per_size, least, memory
        self._sizes: dict[int, deque[_Sample]] = {}
        self._open = _Sample(0.0, 0.0, 0, 0.0)
        self._work = Work()

    def add(self, busy: float, batches: Sequence[Batch], slots: float) -> Work:
        """Take what happened since the last call; returns the present estimate."""
        filled = [b for b in batches if b.rows > 0]
        now = max((b.end for b in filled), default=self._open.time)
        rows = sum(b.rows for b in filled)
        before = self._open
        self._open = _Sample(
            before.busy + busy,
            before.rows + rows,
            before.batches + len(filled),
            before.outside + sum(b.duration for b in filled) - busy / max(slots, 1e-9),
            now,
        )
        if self._open.batches >= self._least:
            size = round(2 * log2(self._open.rows / self._open.batches))
            self._sizes.setdefault(size, deque(maxlen=self._per_size)).append(self._open)
            self._open = _Sample(0.0, 0.0, 0, 0.0)
            kept = [s for sizes in self._sizes.values() for s in sizes if s.time > now - self._memory]
            self._work = _fit(kept, now)
        return self._work

    def skip(self) -> None:
        """Leave out what was added and not used yet: it was measured while something was still starting."""
        self._open = _Sample(0.0, 0.0, 0, 0.0)

    def forget(self) -> None:
        """Begin anew: what was measured before no longer holds, for example after the CPU quota changed."""
        self._sizes.clear()
        self._open = _Sample(0.0, 0.0, 0, 0.0)


def _fit(samples: list[_Sample], now: float) -> Work:
    weight = np.array([0.5 ** ((now - s.time) / HALF_LIFE) for s in samples])
    busy = np.maximum([s.busy for s in samples], 1e-6)
    batches = np.array([float(s.batches) for s in samples])
    rows = np.array([s.rows for s in samples])
    fixed = max(0.0, float(np.median([s.outside / s.batches for s in samples])))
    # Batches of one size cannot tell the two coefficients apart: a faint belief that each has half settles it.
    belief = np.array([np.median(busy / batches) / 2, np.median(busy / rows) / 2])
    columns = np.vstack([np.column_stack([batches, rows]) * (weight / busy)[:, None], np.diag(0.2 / belief)])
    values = np.concatenate([weight, [0.2, 0.2]])
    per_batch, service = np.linalg.lstsq(columns, values, rcond=None)[0]
    if per_batch < 0:
        per_batch, service = 0.0, 2 * belief[1]
    elif service <= 0:  # rows cost something, even where it cannot be seen
        per_batch, service = 1.8 * belief[0], 0.2 * belief[1]
    return Work(float(service), float(per_batch), fixed)
