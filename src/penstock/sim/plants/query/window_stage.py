"""The window stage: tasks that merge pane results into windows (PPQ 5.1, Elastic-PPQ 3.2, Alg. 2 and 3).

Each result of a pane partition is put into the buffers of all windows that hold the pane. A WIN_UPDATE task merges one
buffered result into its window, one at a time for each window; a MERGE task joins two buffered results of a window into
one. A task is computed for real when it is given to a worker, and lasts as long as its comparisons.

The utilisation is that of the papers (Elastic-PPQ 3.1, "similarly" for this stage in 4.2); what a period was given to do is
here what the workers got and what still waits at its end, since an idle worker is the only one that gets a task:

    rho = sum_i p_i lambda_i / mu,   p_i = given_i / given,   lambda_i = p_i (given + waiting),   mu = period done / busy

The strategies are those of :mod:`penstock.preference.window_scheduling`, event by event.
"""

from collections import deque
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from typing import Literal

import numpy as np

from penstock.core.errors import PenstockError
from penstock.preference.panes import PaneModel
from penstock.preference.window_scheduling import turn
from penstock.sim.plants.query.bnl import Rows, merged
from penstock.sim.plants.query.pane_stage import PaneResult

Strategy = Literal["WIN_FB", "MERGE", "WIN_RR"]
STRATEGIES: tuple[Strategy, ...] = ("WIN_FB", "MERGE", "WIN_RR")


@dataclass
class Window:
    """A window that is not finished: results waiting, its own result so far, whether a task works on it."""

    number: int
    buffer: deque[Rows] = field(default_factory=deque)
    busy: bool = False
    rows: Rows = field(default_factory=lambda: np.empty((0, 0)))
    merging: int = 0  # MERGE tasks under way


@dataclass(frozen=True)
class Finished:
    """A window that was given out."""

    number: int
    time: float
    size: int


class SimulatedWindowStage:
    """Workers and the windows they work on; ``workers`` of them are switched on."""

    def __init__(
        self,
        model: PaneModel,
        workers: int,
        comparison: float,
        task_time: float,
        strategy: Strategy,
    ) -> None:
        if strategy not in STRATEGIES:
            raise PenstockError(f"There is no window strategy '{strategy}'; choose {', '.join(STRATEGIES)}.")
        self.model, self.comparison, self.task_time, self.strategy = model, comparison, task_time, strategy
        self.workers = workers
        self._idle = dict.fromkeys(range(workers))  # in the order in which they became idle
        self._order = count()
        self._coming: list[tuple[float, int, PaneResult]] = []
        self._running: list[tuple[float, int, int, Window, str, Rows | None]] = []
        self._windows: dict[int, Window] = {}
        self._missing: dict[int, int] = {}  # pane -> results still to come, for closed panes
        self._arrived: dict[int, int] = {}
        self._closed_before: int | None = None
        self._next: int | None = None
        self.finished: list[Finished] = []
        self.updates = self.merges = 0
        self.work: dict[int, float] = {}  # seconds of tasks given to each worker
        self.given: dict[int, int] = {}  # tasks given to each worker

    # ---- input

    def add(self, result: PaneResult) -> None:
        """A pane result that arrives when it is ready."""
        heappush(self._coming, (result.ready, next(self._order), result))

    def closed(self, before: int, parts: dict[int, int], first: int | None) -> None:
        """All panes below ``before`` are closed; ``parts`` tells how many results each of the newly closed ones has."""
        self._missing |= parts
        self._closed_before = before
        if self._next is None and first is not None:
            self._next = self.model.windows_of_pane(first).start

    # ---- events

    def run(self, time: float) -> None:
        """Let results arrive and tasks finish up to this time."""
        while True:
            coming = self._coming[0][0] if self._coming else np.inf
            ending = self._running[0][0] if self._running else np.inf
            now = min(coming, ending)
            if now > time:
                break
            if ending <= coming:
                self._end(heappop(self._running))
            else:
                self._arrive(heappop(self._coming)[2])
            self._dispatch(now)
        self._finish(time)

    def _arrive(self, result: PaneResult) -> None:
        self._arrived[result.pane] = self._arrived.get(result.pane, 0) + 1
        for number in self.model.windows_of_pane(result.pane):
            window = self._windows.setdefault(number, Window(number))
            window.buffer.append(result.rows)

    def _end(self, task: tuple[float, int, int, Window, str, Rows | None]) -> None:
        time, _, worker, window, kind, made = task
        if kind == "update":
            window.busy = False
            self.updates += 1
        else:
            assert made is not None
            window.merging -= 1
            window.buffer.append(made)
            self.merges += 1
        if worker < self.workers:
            self._idle[worker] = None
        self._finish(time)

    def _dispatch(self, now: float) -> None:
        for worker in list(self._idle):
            if not self._give_task(worker, now) and self.strategy != "WIN_RR":
                return

    def _give_task(self, worker: int, now: float) -> bool:
        mine = self.strategy == "WIN_RR"
        for number in sorted(self._windows):
            window = self._windows[number]
            if window.buffer and not window.busy and (not mine or turn(number, self.workers) == worker):
                self._update(worker, window, now)
                return True
        if self.strategy == "MERGE":
            for number in sorted(self._windows):
                window = self._windows[number]
                if len(window.buffer) >= 2:
                    self._merge(worker, window, now)
                    return True
        return False

    def _update(self, worker: int, window: Window, now: float) -> None:
        window.rows, made = merged(window.rows, window.buffer.popleft())
        window.busy = True
        self._start(worker, window, "update", None, now, made)

    def _merge(self, worker: int, window: Window, now: float) -> None:
        result, made = merged(window.buffer.popleft(), window.buffer.popleft())
        window.merging += 1
        self._start(worker, window, "merge", result, now, made)

    def _start(
        self, worker: int, window: Window, kind: str, made: Rows | None, now: float, comparisons: int
    ) -> None:
        duration = self.task_time + self.comparison * comparisons
        self.work[worker] = self.work.get(worker, 0.0) + duration
        self.given[worker] = self.given.get(worker, 0) + 1
        self._idle.pop(worker, None)
        heappush(self._running, (now + duration, next(self._order), worker, window, kind, made))

    # ---- windows

    def _finish(self, now: float) -> None:
        """Give out complete windows in order."""
        while self._next is not None and self._closed_before is not None:
            first, last = self.model.panes_of_window(self._next)
            if last >= self._closed_before:
                return
            if any(self._missing.get(p, 0) > self._arrived.get(p, 0) for p in range(first, last + 1)):
                return
            window = self._windows.get(self._next)
            if window is not None and (window.busy or window.buffer or window.merging):
                return
            if window is not None:
                del self._windows[self._next]
            size = len(window.rows) if window is not None else 0
            self.finished.append(Finished(self._next, now, size))
            self._next += 1
            for pane in [p for p in self._missing if p < self.model.first_pane_needed(self._next - 1)]:
                self._missing.pop(pane)
                self._arrived.pop(pane, None)

    # ---- workers and figures

    def resize(self, workers: int, now: float) -> None:
        """Switch workers on or off; one that works finishes its task first."""
        running = {task[2] for task in self._running}
        self.workers = workers
        self._idle = {w: None for w in range(workers) if w not in running}
        self._dispatch(now)

    def busy_until(self, now: float) -> float:
        """Seconds worked since the start, over all workers."""
        return sum(self.work.values()) - sum(max(0.0, task[0] - now) for task in self._running)

    def utilisation(self, before: dict[int, int], done: int, busy: float, period: float) -> float:
        """Utilisation of a period that began with the tasks ``before`` given to each worker (see above)."""
        given = [count - before.get(worker, 0) for worker, count in self.given.items()]
        total, waiting = sum(given), self.waiting
        if not total:
            return 0.0 if not waiting else waiting * busy / max(done, 1) / (self.workers * period)
        share = sum(g * g for g in given) / total**2
        return share * (total + waiting) * busy / max(done, 1) / period

    @property
    def done(self) -> int:
        """Tasks that have ended."""
        return self.updates + self.merges

    @property
    def waiting(self) -> int:
        """Tasks still to be given out: one for each result in a buffer or being merged, for every window that holds it."""
        return sum(len(w.buffer) + w.merging for w in self._windows.values())

    @property
    def idle_now(self) -> bool:
        """Whether nothing is under way or on its way."""
        return not self._running and not self._coming and not self.waiting
