"""Streams of tuples with attributes, in the order in which they arrive or in the order in which they are released."""

from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from penstock.core.arrays import Floats, Ints
from penstock.core.errors import PenstockError
from penstock.core.jit import jit
from penstock.traffic.attributes import Attributes
from penstock.traffic.process import ArrivalProcess
from penstock.traffic.seeds import Seeds

Points = NDArray[np.float32]

#: Rows of attributes that are drawn together, from a generator of their own.
_CHUNK = 16_384


@dataclass(frozen=True, eq=False)
class QueryStream:
    """Arrival and event times in seconds, in order of arrival; the attributes are drawn when they are needed.

    Attributes are drawn chunk by chunk from the seed, so that every run sees the same ones and none has to hold
    them all.
    """

    arrival: Floats
    event_time: Floats
    attributes: Attributes = field(default_factory=lambda: Attributes(8))
    seconds: float = 0.0
    seed: int = 0
    waiting: Floats | None = None  # when each row really arrived, where it was held back to be put in order
    buffered: float = 0.0  # seconds that rows were held back, all together

    def __post_init__(self) -> None:
        if len(self.arrival) != len(self.event_time) or not len(self.arrival):
            raise PenstockError("A query stream needs at least one tuple, with arrival and event time.")

    def __len__(self) -> int:
        return len(self.arrival)

    def points(self, first: int, last: int) -> Points:
        """Attributes of the rows ``first`` to ``last``."""
        parts = []
        for chunk in range(first // _CHUNK, (max(last - 1, first)) // _CHUNK + 1):
            start = chunk * _CHUNK
            drawn = _draw(self, chunk)
            parts.append(drawn[max(0, first - start) : last - start])
        return np.concatenate(parts) if len(parts) > 1 else parts[0]

    def in_order(self, shift: float = 0.0) -> "QueryStream":
        """The stream as a K-slack buffer gives it on: by event time, each row once no earlier one is expected.

        A row is released when the largest event time seen is K beyond its own, K the largest delay so far; rows that
        come after their turn are dropped. The buffer is kept sorted, as the papers' is: a row that comes late is put
        in its place by moving the entries before or after it, whichever are fewer, ``shift`` seconds each, and rows that
        come meanwhile wait.
        """
        highest = np.maximum.accumulate(self.event_time)
        slack = np.maximum.accumulate(highest - self.event_time)
        punctuation = np.maximum.accumulate(highest - slack)
        late = self.event_time < np.concatenate([[-np.inf], punctuation[:-1]])
        inserted = self.arrival
        if shift:
            inserted = _inserted(self.arrival, shift * _moved(self.event_time, punctuation))
        kept = np.flatnonzero(~late)
        order = kept[np.argsort(self.event_time[kept], kind="stable")]
        index = np.searchsorted(punctuation, self.event_time[order], side="left")
        release = np.where(
            index < len(punctuation), inserted[np.minimum(index, len(punctuation) - 1)], inserted[-1]
        )
        release = np.maximum.accumulate(np.maximum(release, inserted[order]))
        return QueryStream(
            release,
            self.event_time[order],
            self.attributes,
            self.seconds,
            self.seed,
            self.arrival[order],
            float((release - inserted[order]).sum()),
        )


def _moved(event_time: Floats, punctuation: Floats) -> Floats:
    """How many entries of a sorted buffer each row displaces: those before its place or those after, the fewer."""
    rank = np.empty(len(event_time), dtype=np.int64)
    order = np.argsort(event_time, kind="stable")
    rank[order] = np.arange(len(order))
    gone = np.searchsorted(event_time[order], punctuation, side="right")
    return _displaced(rank, gone)


@jit
def _displaced(rank: Ints, gone: Ints) -> Floats:
    """The same from the ranks of the event times and the rank below which rows have been released."""
    size = len(rank)
    tree = np.zeros(size + 1, dtype=np.int64)  # sums over ranks (Fenwick)
    moved = np.zeros(size)
    released = 0
    for i in range(size):
        before = _below(tree, rank[i])
        moved[i] = max(0, min(before - released, i - before))
        at = rank[i] + 1
        while at <= size:
            tree[at] += 1
            at += at & -at
        released = _below(tree, gone[i])
    return moved


@jit
def _below(tree: Ints, rank: int) -> int:
    total = 0
    while rank > 0:
        total += tree[rank]
        rank -= rank & -rank
    return total


@jit
def _inserted(arrival: Floats, work: Floats) -> Floats:
    """When rows that are handled one after the other are done."""
    done = np.empty(len(arrival))
    free = -np.inf
    for i in range(len(arrival)):
        free = max(free, arrival[i]) + work[i]
        done[i] = free
    return done


@lru_cache(maxsize=8)
def _draw(stream: QueryStream, chunk: int) -> Points:
    rng = np.random.default_rng([stream.seed, chunk])
    start = chunk * _CHUNK
    times = stream.event_time[start : start + _CHUNK]
    if stream.attributes.changes == ((0.0, 0.0),):
        return rng.random((len(times), stream.attributes.dims), dtype=np.float32)
    return stream.attributes.draw(times, rng).astype(np.float32)


def query_stream(
    process: ArrivalProcess,
    seconds: float,
    *,
    delay: float = 0.2,
    attributes: Attributes | None = None,
    seed: int = 0,
) -> QueryStream:
    """Tuples of a process, each delayed uniformly on [0, 2 ``delay``), in order of the delayed times."""
    return of_events(process.run(Seeds(seed)).until(seconds), delay=delay, attributes=attributes, seed=seed)


def of_events(
    events: Floats, *, delay: float = 0.0, attributes: Attributes | None = None, seed: int = 0
) -> QueryStream:
    """The same for given event times."""
    if not len(events):
        raise PenstockError("Nothing arrives in this stream; give a longer time or a higher rate.")
    rng = np.random.default_rng([seed, 1])
    due = events + (rng.uniform(0.0, 2.0 * delay, len(events)) if delay else 0.0)
    order = np.argsort(due, kind="stable") if delay else np.arange(len(events))
    return QueryStream(due[order], events[order], attributes or Attributes(8), float(events[-1]), seed)
