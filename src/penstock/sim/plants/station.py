"""A FIFO station with one queue and several like servers, simulated tuple by tuple from given arrivals."""

import numpy as np

from penstock.core.arrays import Floats, Ints
from penstock.core.jit import jit


class SimulatedStation:
    """Arrivals are appended in order of time; a tuple's service starts when it is first in line and a server is free.

    ``demands`` are drawn beforehand, one a place in line, so that the n-th tuple of a station has the same demand
    whatever the configuration. A service that has begun goes on at the speed it began with.
    """

    def __init__(self, capacity: int, demands: Floats, servers: int) -> None:
        self.arrival, self.start, self.departure = np.empty(capacity), np.empty(capacity), np.empty(capacity)
        self.ids = np.empty(capacity, dtype=np.int64)
        self._left = np.zeros(capacity, dtype=np.bool_)
        self.demands = demands
        self.count = self.served = self.passed = 0
        self.free = np.zeros(servers)

    def append(self, times: Floats, ids: Ints) -> None:
        """Tuples that come next."""
        rows = slice(self.count, self.count + len(times))
        self.arrival[rows], self.ids[rows] = times, ids
        self.count += len(times)

    def resize(self, servers: int, now: float) -> None:
        """Other servers: those that go finish what they do, those that come are free."""
        kept = np.sort(self.free)[: min(servers, len(self.free))]
        self.free = np.concatenate([kept, np.full(max(0, servers - len(kept)), now)])

    def run(self, until: float, speed: float) -> None:
        """Begin all services that can begin by then."""
        self.served = _serve(
            self.arrival,
            self.count,
            self.served,
            until,
            self.demands,
            speed,
            self.free,
            self.start,
            self.departure,
        )

    def leave(self, until: float) -> Ints:
        """Places of the tuples that left since the last call, in order of their departure."""
        # With several servers tuples overtake, so some behind the first one inside may have left already.
        open_ = slice(self.passed, self.served)
        gone = self.passed + np.flatnonzero((self.departure[open_] <= until) & ~self._left[open_])
        self._left[gone] = True
        inside = np.flatnonzero(~self._left[open_])
        self.passed = self.passed + int(inside[0]) if len(inside) else self.served
        ordered: Ints = gone[np.argsort(self.departure[gone], kind="stable")]
        return ordered

    @property
    def inside(self) -> Ints:
        """Ids of the tuples that came and have not left."""
        open_ = self.passed + np.flatnonzero(~self._left[self.passed : self.count])
        return self.ids[open_]

    @property
    def waiting(self) -> int:
        """Tuples that came and have not left."""
        return self.count - self.passed - int(self._left[self.passed : self.served].sum())


@jit
def _serve(
    arrival: Floats,
    count: int,
    first: int,
    until: float,
    demands: Floats,
    speed: float,
    free: Floats,
    start: Floats,
    departure: Floats,
) -> int:
    for i in range(first, count):
        server = 0
        for s in range(1, len(free)):
            if free[s] < free[server]:
                server = s
        begin = max(arrival[i], free[server])
        if begin > until:
            return i
        start[i] = begin
        free[server] = begin + demands[i] / speed
        departure[i] = free[server]
    return count
