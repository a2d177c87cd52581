"""A running preference query as a plant: two stages whose numbers of workers can be changed."""

import time
from math import nan
from typing import Protocol

from penstock.core.batched_plant import BatchedPlant, BatchReport
from penstock.core.capacity import Capacity, Knob
from penstock.core.decision import Change, Decision
from penstock.core.metrics import Metric
from penstock.core.observation import LastChange, Latency, Observation, StageObservation
from penstock.core.plant import Applied
from penstock.spark.query.figures import QueryFigures
from penstock.spark.runtime.worker_room import Room

PANES, WINDOWS = "panes", "windows"


class Rescalable(Protocol):
    """The program of a query, as far as a plant changes it."""

    #: Numbers of pane and window workers from the next batch on; None: as they are.
    target: tuple[int, int] | None
    #: The share of the rows to drop from the next batch on.
    shedding: float

    @property
    def workers(self) -> tuple[int, int]:
        """Pane and window workers of the next batch."""

    def workers_for(self, stages: tuple[int, int]) -> int:
        """How many workers such numbers of pane and window workers are."""


class QueryPlant(BatchedPlant[QueryFigures]):
    """Makes an observation of each batch; a batch works with other numbers of workers from the next one on.

    ``room`` tells how many workers find a place: more would not help. Where it can grow, workers that are wanted beyond it
    wait until executors have come.
    """

    def __init__(self, program: Rescalable, room: Room | None = None) -> None:
        super().__init__()
        self._program, self._room = program, room or Room()
        self._waiting: tuple[int, int] | None = (
            None  # what is wanted, where that is more than there is room for
        )
        self._given = program.workers
        self._began = time.time()
        self._before: float | None = None
        self._changed: tuple[float, float] | None = None
        self._windows_rho = WindowsShare()

    def report(self, figures: QueryFigures, newest: bool) -> BatchReport:
        """One batch."""
        if figures.rescaled:
            held_up = max(0.0, figures.seconds - (figures.trigger or figures.seconds))
            self._changed = (figures.committed, held_up)
        started = figures.committed - figures.seconds
        # Periods follow each other without gap or overlap, so that what is summed over them counts once.
        begin = started if self._before is None else self._before
        self._before = figures.committed
        self._room.refresh()
        period = max(figures.committed - begin, 1e-6)
        self._windows_rho.add(figures, period)
        observation = Observation(
            figures.committed - self._began,
            period,
            (self._panes(figures), self._windows(figures)),
            latency=Latency(mean=figures.window_latency),
            slots=self._room.slots,
            extra={
                **self._room.figures,
                Metric.DROPPED_SHARE.value: figures.dropped_share,
                Metric.SHED_SHARE.value: figures.shed / figures.rows if figures.rows else 0.0,
                Metric.ANSWER_LAG.value: figures.answer_lag,
                Metric.OVERHEAD_TIME.value: max(figures.seconds - figures.working, 0.0),
                "batch": figures.totals.windows,
                "rows": figures.rows,
                "batch_seconds": figures.seconds,
                "rows_held": figures.rows_held,
                "live_rows": figures.live_rows,
                "windows": figures.windows,
                "answer_rows": figures.answer_rows,
                "slack": figures.slack,
                "event_lag": figures.event_lag,
            },
        )
        worked = (figures.pane_workers, figures.window_workers)
        return BatchReport(observation, current=worked == self._program.workers)

    def apply(self, decision: Decision) -> Applied:
        """Change the numbers of workers from the next micro-batch on."""
        wanted = dict(zip((PANES, WINDOWS), self._planned, strict=True))
        made: list[Change] = []
        refused: list[tuple[Change, str]] = []
        for change in decision.changes:
            if change.knob is Knob.WORKERS and change.where in wanted and change.number >= 1:
                wanted[change.where] = int(change.number)
                made.append(change)
            elif change.knob is Knob.SHEDDING and change.where == PANES:
                self._program.shedding = min(1.0, max(0.0, change.number))
                made.append(change)
            else:
                refused.append((change, "a query has pane and window workers, and sheds rows of its panes"))
        if any(change.knob is Knob.WORKERS for change in made):
            self._waiting, self._given = (wanted[PANES], wanted[WINDOWS]), self._program.workers
            self.maintain()
        return Applied(tuple(made), refused=tuple(refused))

    def maintain(self) -> None:
        """Ask for executors that are too few, take up the workers that there is room for, give back what is not needed."""
        if self._program.workers != self._given:  # changed by hand meanwhile
            self._waiting, self._given = None, self._program.workers
        wanted = self._planned
        self._room.want(self._program.workers_for(wanted))
        if self._waiting is None:
            return
        fits = self._within(wanted, self._room.holds)
        if fits != self._given:
            self._program.target = self._given = fits
        if fits in (wanted, self._within(wanted, self._room.limit)):  # there is no more to wait for
            self._waiting = None

    @property
    def _planned(self) -> tuple[int, int]:
        return self._waiting or self._program.workers

    def _within(self, wanted: tuple[int, int], room: float) -> tuple[int, int]:
        """As many workers as there is room for: the larger stage gives way."""
        panes, windows = wanted
        while self._program.workers_for((panes, windows)) > room and max(panes, windows) > 1:
            most = max(panes, windows) - 1
            panes, windows = min(panes, most), min(windows, most)
        return panes, windows

    def _panes(self, figures: QueryFigures) -> StageObservation:
        return StageObservation(
            PANES,
            self._workers(0, figures.pane_workers),
            pool=self._pool,
            arrival_rate=figures.arrival_rate,
            busy_time=sum(figures.pane_busy),
            tuples_in=figures.rows,
            tuples_out=figures.open_rows,
            backlog=figures.backlog,
            latency=Latency(mean=figures.pane_latency),
            utilisation=figures.utilisation_panes,
            worker_utilisation=_shares(figures.pane_busy, figures),
            splitting=figures.splitting,
            shedding=self._program.shedding,
            downstream=(WINDOWS,),
            last_change=self._last_change(figures),
            extra={
                Metric.FILTER_RATIO.value: figures.filter_ratio,
                Metric.LOAD_BALANCE.value: figures.load_balance,
                Metric.CLOSING_LAG.value: figures.closing_lag,
            },
        )

    def _windows(self, figures: QueryFigures) -> StageObservation:
        return StageObservation(
            WINDOWS,
            self._workers(1, figures.window_workers),
            pool=self._pool,
            busy_time=sum(figures.window_busy),
            tuples_out=figures.results,
            latency=Latency(mean=figures.window_latency),
            utilisation=self._windows_rho.told,
            worker_utilisation=_shares(figures.window_busy, figures),
            last_change=self._last_change(figures),
        )

    @property
    def _pool(self) -> str:
        """Stages that work in turn have their workers in common."""
        return "workers" if self._program.workers_for((1, 1)) == 1 else ""

    def _workers(self, stage: int, worked: int) -> Capacity:
        room, planned = self._room, self._planned[stage]
        requested = min(planned, max(self._program.workers[stage], room.requested))
        return Capacity(planned, requested, worked, room.limit, room.limited_by)

    def _last_change(self, figures: QueryFigures) -> LastChange:
        if self._changed is None:
            return LastChange()
        at, held_up = self._changed
        return LastChange(age=figures.committed - at, pause=held_up)


class WindowsShare:
    """How busy window workers are: the mean from one batch that gave out windows to the next, since between them they idle.

    What a batch without windows tells would be 0, whatever the last window took. Other workers share the same work until then.
    """

    def __init__(self) -> None:
        self.told = nan
        self._work, self._busy, self._seconds = nan, 0.0, 0.0

    def add(self, figures: QueryFigures, seconds: float) -> None:
        """One batch more, which stands for so many seconds."""
        if figures.in_common:  # the workers of the panes, busy or not
            self.told = figures.utilisation_windows
            return
        # A utilisation is that of a trigger's time, however long the batch took.
        span = figures.trigger or figures.seconds
        self._busy += span * figures.utilisation_windows * figures.window_workers
        self._seconds += seconds
        if figures.windows:
            self._work, self._busy, self._seconds = self._busy / self._seconds, 0.0, 0.0
        self.told = self._work / figures.window_workers


def _shares(busy: tuple[float, ...], figures: QueryFigures) -> tuple[float, ...]:
    period = max(figures.trigger or figures.seconds, 1e-6)
    return tuple(min(seconds / period, 1.0) for seconds in busy)
