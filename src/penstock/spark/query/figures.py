"""A micro-batch of a preference query in numbers: what ``run.progress`` shows, the journal keeps and policies observe."""

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from math import isnan, nan
from statistics import fmean
from typing import Any

from penstock.core.utilisation import utilisation
from penstock.preference.splitting import SplitState
from penstock.spark.query.pane_stage import Part
from penstock.spark.query.query_state import QueryState, QueryTotals
from penstock.spark.query.window_stage import Windowed
from penstock.spark.runtime.batch_size import BatchSize
from penstock.spark.runtime.engine import Effort
from penstock.spark.runtime.program import Batch


@dataclass(frozen=True)
class Measurements:
    """What the program measured of one batch."""

    rows: int
    late: int
    bad: int
    shed: int
    pane_busy: Sequence[float]
    pane_rows: Sequence[float]
    pane_utilisation: float
    pane_write: float
    pane_seconds: float
    close_busy: float
    window_seconds: float
    closed: Sequence[Part]
    done: Windowed
    #: When the first row of each window that was given out came in.
    first_arrivals: Sequence[float]
    #: When those windows ended, in seconds since 1970.
    window_ends: Sequence[float] = ()
    rescaled: bool = False

    @property
    def working(self) -> float:
        """Seconds that the slowest worker of each stage needed: what no engine could have saved."""
        panes = max(self.pane_busy, default=0.0) + self.pane_write + self.close_busy
        return panes + max(self.done.busy, default=0.0) + self.done.write


@dataclass(frozen=True)
class QueryFigures:
    """One batch; times in seconds, ``nan`` where the batch had nothing to measure."""

    batch: int
    rows: int
    late: int
    bad: int
    #: Rows dropped on purpose.
    shed: int
    #: From the start of the batch before to the start of this one.
    interval: float
    arrival_rate: float
    pane_workers: int
    window_workers: int
    utilisation_panes: float
    utilisation_windows: float
    splitting: float
    threshold: float
    filter_ratio: float
    load_balance: float
    pane_latency: float
    closing_lag: float
    window_latency: float
    event_lag: float
    #: When the windows of this batch were due (their ends plus the slack), on average, in seconds since 1970.
    due: float
    #: When the first of them was due.
    first_due: float
    slack: float
    #: The newest event time that is believed, in seconds since 1970.
    newest: float
    dropped_share: float
    windows: int
    answer_rows: float
    results: int
    rows_held: int
    open_rows: int
    live_rows: int
    state_files: int
    pane_seconds: float
    window_seconds: float
    pane_busy: tuple[float, ...]
    window_busy: tuple[float, ...]
    working: float
    totals: QueryTotals
    rescaled: bool
    #: The trigger interval; None where batches follow each other at once.
    trigger: float | None
    #: The share of the true answers' rows that was given out so far, where the slack goes by it.
    recall: float
    #: The whole batch up to its commit, and when that was; known after it.
    seconds: float = nan
    committed: float = nan
    #: Rows that wait beyond those of one trigger; known after the commit.
    backlog: float = nan
    #: Whether both stages have one utilisation, that of the resident workers that they have in common.
    in_common: bool = False

    @property
    def answer_lag(self) -> float:
        """Seconds from the end of a window plus the slack to its commit; means something for a stream in real time."""
        return self.committed - self.due

    @property
    def answer_lag_max(self) -> float:
        """The same of the window that was due first: a batch that was held up gives out many at once."""
        return self.committed - self.first_due

    def on_workers(self, effort: Effort, more: float = nan, apart: bool = False) -> "QueryFigures":
        """The same with the utilisation of resident workers: everything that tuples cost them, not the kernels alone.

        Stages that run in turn share their workers and so have one utilisation; those that overlap (``apart``) have each its own.
        By ``more`` rows more than at the commit before wait at the source now, where it tells: while the batch was at work
        its own rows and so many came. Where it does not tell, they came since the batch before began.
        """
        told = self.seconds * self.rows / max(self.rows + more, 1.0)
        arrived = min(self.interval, self.seconds) if isnan(more) else told
        waiting = self.backlog / self.rows if self.backlog > 0 and self.rows else 0.0

        def share(lane: int) -> float:
            busy = list(effort.lanes.get(lane, {}).values()) or [0.0]  # a lane without a job was idle
            return busy_share(busy, self.trigger, self.seconds, effort.active, arrived, waiting)

        panes = share(0)
        windows = share(1) if apart else panes
        return replace(self, utilisation_panes=panes, utilisation_windows=windows, in_common=not apart)

    def progress(self) -> dict[str, Any]:
        """The figures by name, as ``run.progress`` has them."""
        plain = asdict(self) | {
            "answer_lag": self.answer_lag,
            "answer_lag_max": self.answer_lag_max,
            "work": self.working,
            "fixed": max(self.seconds - self.working, 0.0),
        }
        for name in ("trigger", "committed", "due", "first_due", "in_common"):
            del plain[name]
        return plain | {"pane_busy": list(self.pane_busy), "window_busy": list(self.window_busy)}


def figures_of(
    batch: Batch,
    observed: QueryState,
    state: QueryState,
    measured: Measurements,
    trigger: float | None,
    previous: float | None,
) -> QueryFigures:
    """The figures of a batch that is about to be committed; ``previous`` is when the batch before started."""
    now = time.time()
    interval = max(batch.started - previous, 1e-3) if previous else max(now - batch.started, 1e-3)
    panes = {part.pane for part in measured.closed}
    received = sum(part.received for part in measured.closed)
    kept = sum(part.rows for part in measured.closed)
    times = [observed.pane_times[p] for p in sorted(panes) if p in observed.pane_times]
    done, firsts = measured.done, measured.first_arrivals
    # A gap in the stream (idle trigger) is not the stage's period; the trigger is, where there is one.
    period = trigger or max(now - batch.started, 1e-3)
    return QueryFigures(
        batch=batch.id,
        rows=measured.rows,
        late=measured.late,
        bad=measured.bad,
        shed=measured.shed,
        interval=interval,
        arrival_rate=measured.rows / interval,
        pane_workers=state.pane_workers,
        window_workers=state.window_workers,
        utilisation_panes=measured.pane_utilisation,
        utilisation_windows=stage_utilisation([float(c) for c in done.candidates], list(done.busy), period),
        splitting=len(measured.closed) / len(panes) if panes else nan,
        threshold=SplitState.from_json(state.splitting).threshold,
        filter_ratio=kept / received if received else nan,
        load_balance=_unevenness(measured.pane_busy),
        pane_latency=fmean(t.last - t.first for t in times) if times else nan,
        closing_lag=fmean(now - t.last for t in times) if times else nan,
        window_latency=fmean(now - first for first in firsts) if firsts else nan,
        event_lag=_event_lag(state),
        due=fmean(measured.window_ends) + state.disorder.slack / 1e6 if measured.window_ends else nan,
        first_due=min(measured.window_ends) + state.disorder.slack / 1e6 if measured.window_ends else nan,
        slack=state.disorder.slack / 1e6,
        newest=nan if state.disorder.t_max is None else state.disorder.t_max / 1e6,
        dropped_share=state.disorder.dropped_share,
        windows=len(done.sizes),
        answer_rows=fmean(done.sizes.values()) if done.sizes else nan,
        results=sum(done.sizes.values()),
        rows_held=sum(part.rows for part in state.parts),
        open_rows=sum(part.rows for part in state.open_parts()),
        live_rows=done.live_rows,
        state_files=len(state.files),
        pane_seconds=measured.pane_seconds,
        window_seconds=measured.window_seconds,
        pane_busy=tuple(measured.pane_busy),
        window_busy=tuple(done.busy),
        working=measured.working,
        totals=state.totals,
        rescaled=measured.rescaled,
        trigger=trigger,
        recall=state.judging.recall,
    )


def stage_utilisation(rows: Sequence[float], busy: Sequence[float], period: float) -> float:
    """The papers' utilisation of a stage whose workers were given ``rows`` and took ``busy`` seconds for them.

    What a worker could not finish within the period counts as not processed in it, so an overloaded stage shows a
    factor above 1.

    >>> round(stage_utilisation([100, 100], [0.5, 0.5], 1.0), 2), round(stage_utilisation([100], [2.0], 1.0), 2)
    (0.5, 2.0)
    """
    if not sum(rows) or not sum(busy):
        return 0.0
    processed = [r * min(1.0, period / b) if b > 0 else r for r, b in zip(rows, busy, strict=True)]
    return utilisation(rows, processed, [min(b, period) for b in busy], period)


def busy_share(
    busy: Sequence[float],
    trigger: float | None,
    seconds: float,
    active: float,
    arrived: float,
    waiting: float = 0.0,
) -> float:
    """The busy share of the busiest worker in the time that the driver leaves to workers; above 1 where they fall behind.

    ``arrived`` is the time in which as many rows come as the batch had. A batch that takes longer than that, and than the
    trigger, is more than its workers can do, by so much. ``waiting`` is what waits beyond the rows of a trigger, over the rows
    of the batch. It is work, too: what has to be done of it now to be rid of all in the time that a batch may take. Without a
    trigger batches follow each other at once and workers are busy whenever they can be; then the share is that of all workers
    in the whole batch.

    >>> busy_share([0.3, 0.1], 1.0, 0.5, 0.4, arrived=0.5), busy_share([1.0, 0.0], None, 2.0, 1.0, arrived=2.0)
    (0.3333333333333333, 0.25)
    >>> busy_share([3.0, 2.0], 1.0, 3.0, 3.0, arrived=2.0), busy_share([2.0], 1.0, 2.0, 2.0, arrived=4.0, waiting=3.0)
    (1.5, 2.0)
    """
    if trigger is None:
        return sum(busy) / len(busy) / max(seconds, 1e-6)
    driver = max(seconds - active, 0.0)
    span = max(trigger, arrived) - driver
    now = max(busy) / span if span > 1e-3 else 1.0
    return now + max(busy) * waiting / BatchSize.of(trigger).usual


def _unevenness(loads: Sequence[float]) -> float:
    return max(loads) / fmean(loads) if loads and sum(loads) > 0 else nan


def _event_lag(state: QueryState) -> float:
    """How far the punctuation is behind the newest row, in seconds of event time."""
    d = state.disorder
    return (d.t_max - d.punctuation) / 1e6 if d.t_max is not None and d.punctuation is not None else nan
