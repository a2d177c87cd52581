"""A whole stream: arrivals, disorder, keys and attributes, delivered in slots of time that can be entered anywhere.

Slot j holds the tuples delivered in [jT, (j+1)T). Their events lie in slots j-k..j, where kT covers the longest
delay, so a mark of the arrival process at the start of event slot j-k is all it takes to deliver slot j again.
Keys and attributes belong to the delivered slot and are drawn in chunks of rows, each from a generator of its own:
whoever needs a few rows draws a few.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil, isfinite

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.core.arrays import Floats
from penstock.core.errors import PenstockError
from penstock.traffic.attributes import Attributes
from penstock.traffic.disorder import DelayModel
from penstock.traffic.keys import Keys
from penstock.traffic.process import ArrivalProcess, Mark, check_size
from penstock.traffic.seeds import Seeds

#: Rows per slot, about, and rows per chunk of payload.
SLOT_ROWS = 8192
CHUNK = 4096
#: A slot is at least this share of the longest delay, so that entering a stream costs few slots.
_LOOK_BACK = 32

_ARRIVALS, _DELAYS, _KEYS, _ATTRIBUTES = range(4)


@dataclass(frozen=True)
class Slot:
    """The tuples delivered in one slot, in order of arrival; times in seconds from the start of the stream."""

    number: int
    arrival: Floats
    event_time: Floats

    def __len__(self) -> int:
        return self.arrival.size


@dataclass(frozen=True)
class TupleStream:
    """What is delivered, and when.

    >>> from penstock.traffic import poisson
    >>> from penstock.traffic.disorder import UniformDelay
    >>> stream = TupleStream(poisson(1000.0), UniformDelay(0.2), attributes=Attributes(2), seconds=5.0, seed=1)
    >>> table = stream.table()
    >>> table.column_names
    ['arrival', 'event_time', 'a0', 'a1']
    """

    process: ArrivalProcess
    disorder: DelayModel | None = None
    keys: Keys | None = None
    attributes: Attributes | None = None
    seed: int = 0
    seconds: float | None = None

    def __post_init__(self) -> None:
        Seeds(self.seed)
        if self.seconds is not None and not (self.seconds > 0.0 and isfinite(self.seconds)):
            raise PenstockError(
                f"A length of {self.seconds} seconds is impossible; give a number above zero."
            )
        check_size(self.process.rate, self.seconds or 60.0)

    @property
    def slot_seconds(self) -> float:
        """T: the length of a slot."""
        longest = self.disorder.longest if self.disorder else 0.0
        return max(SLOT_ROWS / self.process.rate, longest / _LOOK_BACK)

    @property
    def look_back(self) -> int:
        """k: how many event slots before its own a delivered slot may draw from."""
        return ceil(self.disorder.longest / self.slot_seconds) if self.disorder else 0

    @property
    def slots(self) -> int | None:
        """Number of delivered slots; None if the stream has no end."""
        if self.seconds is None:
            return None
        return ceil(self.seconds / self.slot_seconds) + self.look_back

    def seeds(self, branch: int) -> Seeds:
        """The branch of the seed that one part of the stream draws from."""
        return Seeds(self.seed).child(branch)

    def payload(self, slot: Slot, start: int, stop: int) -> dict[str, NDArray[np.generic]]:
        """Key and attributes of the rows ``start`` to ``stop`` of a slot."""
        columns: dict[str, NDArray[np.generic]] = {}
        first = start // CHUNK
        chunks = [
            (number, slot.event_time[number * CHUNK : (number + 1) * CHUNK])
            for number in range(first, max(first + 1, ceil(stop / CHUNK)))
        ]
        cut = slice(start - first * CHUNK, stop - first * CHUNK)
        if self.keys:
            seeds = self.seeds(_KEYS)
            columns["key"] = np.concatenate(
                [self.keys.draw(times, seeds.rng(slot.number, number)) for number, times in chunks]
            )[cut]
        if self.attributes:
            seeds = self.seeds(_ATTRIBUTES)
            rows = np.concatenate(
                [self.attributes.draw(times, seeds.rng(slot.number, number)) for number, times in chunks]
            )[cut]
            columns |= {f"a{i}": column for i, column in enumerate(np.ascontiguousarray(rows.T))}
        return columns

    def batch(self, slot: Slot, start: int = 0, stop: int | None = None) -> pa.RecordBatch:
        """Rows of a slot with everything in them."""
        stop = len(slot) if stop is None else stop
        columns: dict[str, NDArray[np.generic]] = {"arrival": slot.arrival[start:stop]}
        if self.disorder:
            columns["event_time"] = slot.event_time[start:stop]
        columns |= self.payload(slot, start, stop)
        return pa.RecordBatch.from_pydict({name: pa.array(values) for name, values in columns.items()})

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The stream from its beginning, slot by slot."""
        walk = Walk(self)
        while (slot := walk.next()) is not None:
            if len(slot):
                yield self.batch(slot)

    def table(self) -> pa.Table:
        """The whole stream at once; it must have an end."""
        if self.seconds is None:
            raise PenstockError(
                "A stream without an end does not fit into a table; give it a length in seconds."
            )
        batches = list(self.batches())
        if not batches:
            raise PenstockError(
                f"Nothing arrives within {self.seconds:g} seconds at this rate; give a longer time or a higher rate."
            )
        return pa.Table.from_batches(batches)


class Walk:
    """Goes through the slots of a stream in order, from the start or from a mark."""

    def __init__(self, stream: TupleStream, slot: int = 0, mark: Mark | None = None) -> None:
        self._stream, self._next = stream, max(0, slot - stream.look_back)
        self._run = stream.process.run(stream.seeds(_ARRIVALS), mark)
        self._delays = stream.seeds(_DELAYS)
        self._events, self._due = np.empty(0), np.empty(0)
        self._marks = deque([self._run.mark()], maxlen=stream.look_back + 1)
        while self._next < slot:
            self.next()

    @property
    def number(self) -> int:
        """The slot that ``next`` gives."""
        return self._next

    def mark(self) -> Mark:
        """With :attr:`number`, what it takes to go on from here: ``Walk(stream, number, mark)``."""
        return self._marks[0]

    def next(self) -> Slot | None:
        """The next slot, or None after the last."""
        stream, number = self._stream, self._next
        if stream.slots is not None and number >= stream.slots:
            return None
        end = (number + 1) * stream.slot_seconds
        events = self._run.until(end if stream.seconds is None else min(end, stream.seconds))
        self._marks.append(self._run.mark())
        self._next += 1
        if stream.disorder is None:
            return Slot(number, events, events)
        due = events + stream.disorder.delays(events, self._delays, number)
        self._events, self._due = np.concatenate([self._events, events]), np.concatenate([self._due, due])
        return self._deliver(number, end)

    def _deliver(self, number: int, end: float) -> Slot:
        now = self._due < end
        arrival, event_time = self._due[now], self._events[now]
        self._events, self._due = self._events[~now], self._due[~now]
        order = np.argsort(arrival)
        return Slot(number, arrival[order], event_time[order])
