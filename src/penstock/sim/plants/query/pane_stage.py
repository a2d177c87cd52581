"""The pane stage: workers that keep the skylines of the partitions of open panes (PPQ 4, Elastic-PPQ 3.1, 4.1).

Rows are dealt out by the scheduling that the Spark runtime uses too (:mod:`penstock.preference.scheduling`). A worker
serves its rows in order; a row costs a comparison with each one its partition keeps. A punctuation closes panes: each worker that holds a partition
gives its result on after the rows that were queued before. Workers that are removed close what they hold by force.
"""

from dataclasses import dataclass

import numpy as np

from penstock.core.arrays import Bytes, Floats, Ints
from penstock.core.jit import jit
from penstock.preference.grid import padded
from penstock.preference.scheduling import OpenPane, assign, handed_over
from penstock.sim.plants.query.bnl import BLOCK, Points, Pool, Rows, insert


@dataclass(frozen=True)
class PaneResult:
    """What a partition of a pane gives on, and when."""

    ready: float
    pane: int
    rows: Rows
    received: int  # rows that were sent to the partition


@dataclass
class SimulatedPaneTimes:
    """When a pane's first row came, when its last row was computed, and how many rows and parts it had."""

    first: float
    rows: int = 0
    computed: float = 0.0
    parts: int = 0


class SimulatedPaneStage:
    """Workers, their queues and the partitions they hold; ``workers`` of them are switched on."""

    def __init__(self, workers: int, most: int, dims: int, comparison: float, tuple_time: float) -> None:
        self.comparison, self.tuple_time = comparison, tuple_time
        self.active = list(range(workers))
        self.free, self.work = np.zeros(most), np.zeros(most)
        self.sent, self.done = np.zeros(most, dtype=np.int64), np.zeros(most, dtype=np.int64)
        self._finish = np.zeros((most, 4096))
        self._pool = Pool.of(64, 32 * BLOCK, dims)
        self._sizes = np.zeros(64, dtype=np.int64)
        self._last = np.zeros(64)
        self._received = np.zeros(64, dtype=np.int64)
        self._vacant = list(range(63, -1, -1))
        self._slots: dict[int, dict[int, int]] = {}  # pane -> worker -> slot
        self.open: dict[int, OpenPane] = {}
        self.times: dict[int, SimulatedPaneTimes] = {}
        self._rotation = 0
        self.tuples = 0  # rows held in partitions now

    # ---- rows

    def take(
        self, arrival: Floats, panes: Ints, points: Points, strategy: str, threshold: float, now: float
    ) -> None:
        """Deal out the rows that came up to ``now`` and serve them."""
        made = assign(strategy, threshold, panes, self.open, self.queued(now).tolist(), self._rotation)
        self.open, self._rotation = dict(made.panes), made.rotation
        workers = np.array(self.active, dtype=np.int64)[made.workers]
        slots = self._slots_of(panes, workers)
        self._make_room(len(arrival))
        _serve(
            *self._pool, self._sizes, slots, points, arrival, workers, self.free, self.work, self._finish,
            self.sent, self._last, self._received, self.comparison, self.tuple_time,
        )  # fmt: skip
        distinct, first, counts = np.unique(panes, return_index=True, return_counts=True)
        for pane, row, count in zip(distinct.tolist(), first.tolist(), counts.tolist(), strict=True):
            times = self.times.setdefault(pane, SimulatedPaneTimes(float(arrival[row])))
            times.rows += count

    def queued(self, now: float) -> Ints:
        """Rows waiting or in service at each active worker."""
        _advance(self._finish, self.done, self.sent, now)
        return (self.sent - self.done)[self.active]

    def _slots_of(self, panes: Ints, workers: Ints) -> Ints:
        width = len(self.free)
        distinct, inverse = np.unique(panes * width + workers, return_inverse=True)
        slots = np.empty(len(distinct), dtype=np.int64)
        for at, code in enumerate(distinct.tolist()):
            pane, worker = divmod(code, width)
            held = self._slots.setdefault(pane, {})
            if worker not in held:
                held[worker] = self._new_slot()
            slots[at] = held[worker]
        return slots[inverse]

    def _new_slot(self) -> int:
        if not self._vacant:
            count = len(self._sizes)
            self._pool = self._pool.copied(2 * count, self._pool.rows.shape[1], self._sizes)
            self._sizes, self._last = (
                np.concatenate([a, np.zeros_like(a)]) for a in (self._sizes, self._last)
            )
            self._received = np.concatenate([self._received, np.zeros_like(self._received)])
            self._vacant = list(range(2 * count - 1, count - 1, -1))
        slot = self._vacant.pop()
        self._sizes[slot] = self._received[slot] = 0
        self._last[slot] = 0.0
        return slot

    def _make_room(self, rows: int) -> None:
        """Slots and queues that may overflow within the next rows are made larger."""
        needed = int(self._sizes.max()) + rows + BLOCK
        if needed > self._pool.rows.shape[1]:
            self._pool = self._pool.copied(len(self._sizes), 2 * needed, self._sizes)
        longest = int((self.sent - self.done).max()) + rows + 1
        if longest > self._finish.shape[1]:
            old, self._finish = self._finish, np.zeros((len(self.free), 2 * longest))
            for w in np.flatnonzero(self.sent > self.done):
                places = np.arange(self.done[w], self.sent[w])
                self._finish[w, places % (2 * longest)] = old[w, places % old.shape[1]]

    # ---- panes

    def close(self, before: int, now: float) -> list[PaneResult]:
        """The results of all open panes below ``before``."""
        results: list[PaneResult] = []
        for pane in sorted(p for p in self.open if p < before):
            for worker, slot in self._slots.pop(pane, {}).items():
                results.append(self._give(pane, worker, slot, now))
            del self.open[pane]
        return results

    def _give(self, pane: int, worker: int, slot: int, now: float) -> PaneResult:
        times = self.times[pane]
        times.parts += 1
        times.computed = max(times.computed, float(self._last[slot]))
        rows = self._pool.rows[slot, : self._sizes[slot]].astype(np.float64)
        self._vacant.append(slot)
        received = int(self._received[slot])
        self._sizes[slot] = 0
        return PaneResult(max(float(self.free[worker]), now), pane, rows, received)

    # ---- workers

    def resize(self, workers: int, now: float) -> list[PaneResult]:
        """Switch workers on or off; results that the removed ones give on by force."""
        if workers > len(self.active):
            off = [w for w in range(len(self.free)) if w not in self.active]
            # Those that have worked off their old queue first.
            off.sort(key=lambda w: float(self.free[w]))
            self.active += off[: workers - len(self.active)]
            return []
        if workers == len(self.active):
            return []
        queued = self.queued(now)
        # The shortest queues are released first.
        gone = sorted(np.argsort(queued, kind="stable")[: len(self.active) - workers].tolist())
        panes, forced = handed_over(self.open, gone, queued.tolist())
        results = []
        for index, of in forced.items():
            worker = self.active[index]
            held = [pane for pane in of if worker in self._slots.get(pane, {})]
            results += [self._give(pane, worker, self._slots[pane].pop(worker), now) for pane in held]
        staying = [i for i in range(len(self.active)) if i not in set(gone)]
        place = {old: new for new, old in enumerate(staying)}
        self.open = {
            pane: OpenPane(
                place[held.owner], tuple(held.sizes[i] if i < len(held.sizes) else 0 for i in staying)
            )
            for pane, held in panes.items()
        }
        self.active = [self.active[i] for i in staying]
        self._rotation %= workers
        return results

    def busy_until(self, now: float) -> Floats:
        """Seconds each worker has worked since the start."""
        return self.work - np.maximum(self.free - now, 0.0)

    def held(self) -> int:
        """Rows kept in open partitions now."""
        return int(self._sizes.sum())


@jit
def _serve(
    rows: Points,
    low: Bytes,
    high: Bytes,
    sizes: Ints,
    slots: Ints,
    points: Points,
    arrival: Floats,
    workers: Ints,
    free: Floats,
    work: Floats,
    finish: Floats,
    sent: Ints,
    last: Floats,
    received: Ints,
    comparison: float,
    tuple_time: float,
) -> None:
    codes = np.zeros(padded(rows.shape[2]), dtype=np.uint8)
    counter = np.zeros_like(codes)
    for i in range(len(arrival)):
        slot = slots[i]
        w = workers[i]
        cost = tuple_time + comparison * sizes[slot]
        sizes[slot] = insert(rows[slot], low[slot], high[slot], sizes[slot], points[i], codes, counter)
        free[w] = max(arrival[i], free[w]) + cost
        work[w] += cost
        finish[w, sent[w] % finish.shape[1]] = free[w]
        sent[w] += 1
        received[slot] += 1
        last[slot] = free[w]


@jit
def _advance(finish: Floats, done: Ints, sent: Ints, now: float) -> None:
    for w in range(len(done)):
        while done[w] < sent[w] and finish[w, done[w] % finish.shape[1]] <= now:
            done[w] += 1
