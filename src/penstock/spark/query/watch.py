"""What a preference query tells about each micro-batch, and the controller that listens."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import nan
from statistics import fmean
from typing import Any

from penstock.core.capacity import Capacity, Knob
from penstock.core.controller import Controller, Step
from penstock.core.decision import Change, Decision
from penstock.core.errors import PenstockError
from penstock.core.guards import Guards
from penstock.core.journal import Journal
from penstock.core.metrics import Metric
from penstock.core.observation import LastChange, Latency, Observation, StageObservation
from penstock.core.plant import Applied
from penstock.core.policy import AnyPolicy
from penstock.core.utilisation import utilisation
from penstock.preference.splitting import SplitState
from penstock.spark.query.pane_stage import Part
from penstock.spark.query.state import QueryState
from penstock.spark.query.window_stage import Windowed
from penstock.spark.runtime.microbatch import BatchResult, MicroBatch

PANES, WINDOWS = "panes", "windows"


@dataclass(frozen=True)
class BatchFigures:
    """Measurements of one batch, as the program took them."""

    rows: int
    late: int
    bad: int
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
    rescaled: bool = False

    @property
    def working(self) -> float:
        """Seconds that the slowest worker of each stage needed: what no engine could have saved."""
        panes = max(self.pane_busy, default=0.0) + self.pane_write + self.close_busy
        return panes + max(self.done.busy, default=0.0) + self.done.write


@dataclass
class Watch:
    """Observes a run, writes its journal, and runs a policy on it every few batches."""

    journal: Journal
    #: Seconds of the trigger interval; None where batches follow each other at once.
    period: float | None
    policy: AnyPolicy | None = None
    guards: Guards | None = None
    control_period: float = 5.0
    notify: Callable[[str], None] | None = None
    dry_run: bool = False
    #: Told what came of each step of the policy; without a policy, of each batch.
    on_step: Callable[[Step], None] | None = None
    #: Told the figures of each committed batch.
    listeners: list[Callable[[Mapping[str, Any]], None]] = field(default_factory=list)
    _began: float = field(default_factory=time.time)
    _previous: float | None = None
    _last_change: float | None = None
    _pause: float = 0.0
    _next_control: float = 0.0
    _loop: Controller[Any] | None = None
    _paused: bool = False
    _plant: "QueryPlant | None" = None

    def figures(
        self, batch: MicroBatch, observed: QueryState, state: QueryState, f: BatchFigures
    ) -> dict[str, Any]:
        """The batch in numbers: what ``run.progress`` shows and the journal keeps."""
        now = time.time()
        interval = max(batch.started - self._previous, 1e-3) if self._previous else now - batch.started
        panes = {part.pane for part in f.closed}
        received = sum(part.received for part in f.closed)
        kept = sum(part.rows for part in f.closed)
        times = [observed.pane_times[p] for p in sorted(panes) if p in observed.pane_times]
        window_busy = f.done.busy
        # A gap in the stream (idle trigger) is not the stage's period; the trigger is, where there is one.
        period = self.period or max(now - batch.started, 1e-3)
        return {
            "batch": batch.id,
            "rows": f.rows,
            "late": f.late,
            "bad": f.bad,
            "interval": interval,
            "arrival_rate": f.rows / interval,
            "pane_workers": state.pane_workers,
            "window_workers": state.window_workers,
            "utilisation_panes": f.pane_utilisation,
            "utilisation_windows": stage_utilisation(
                [float(c) for c in f.done.candidates], list(window_busy), period
            ),
            "splitting": len(f.closed) / len(panes) if panes else nan,
            "threshold": SplitState.from_json(state.splitting).threshold,
            "filter_ratio": kept / received if received else nan,
            "load_balance": _unevenness(f.pane_busy),
            "pane_latency": fmean(t.last - t.first for t in times) if times else nan,
            "closing_lag": fmean(now - t.last for t in times) if times else nan,
            "window_latency": fmean(now - first for first in f.first_arrivals) if f.first_arrivals else nan,
            "event_lag": _event_lag(state),
            "slack": state.disorder.slack / 1e6,
            "dropped_share": state.disorder.dropped_share,
            "windows": len(f.done.sizes),
            "answer_rows": fmean(f.done.sizes.values()) if f.done.sizes else nan,
            "results": sum(f.done.sizes.values()),
            "rows_held": sum(part.rows for part in state.parts),
            "open_rows": sum(part.rows for part in state.open_parts()),
            "live_rows": f.done.live_rows,
            "state_files": len(state.files),
            "pane_seconds": f.pane_seconds,
            "window_seconds": f.window_seconds,
            "pane_busy": list(f.pane_busy),
            "window_busy": list(window_busy),
            "working": f.working,
            "totals": vars(state.totals),
            "rescaled": f.rescaled,
        }

    def committed(self, program: Any, outcome: BatchResult, seconds: float) -> None:
        """Journal the batch and let the policy act, every ``control_period`` seconds."""
        progress = {**outcome.progress, "seconds": seconds}
        self._previous = time.time() - seconds
        if progress["rescaled"]:
            self._last_change, self._pause = time.time(), max(0.0, seconds - (self.period or seconds))
        observation = self._observation(progress, seconds)
        self.journal.observation(observation)
        for listener in self.listeners:
            listener(progress)
        if self.policy is None:
            if self.on_step is not None:
                keep = Decision.keep("no policy")
                self.on_step(Step(observation, keep, keep))
            return
        if observation.time < self._next_control:
            return
        self._next_control = observation.time + self.control_period
        if self._loop is None:
            self._plant = QueryPlant(program)
            self._loop = Controller(
                self._plant,
                self.policy,
                self.guards,
                self.journal,
                notify=self.notify,
                record_observations=False,
                dry_run=self.dry_run,
            )
            if self._paused:
                self._loop.pause()
        assert self._plant is not None
        self._plant.latest = observation
        step = self._loop.step()
        if step is not None and self.on_step is not None:
            self.on_step(step)

    def pause(self) -> None:
        """Let the policy change nothing until :meth:`resume`."""
        self._paused = True
        if self._loop is not None:
            self._loop.pause()

    def resume(self) -> None:
        """Let the policy change things again."""
        self._paused = False
        if self._loop is not None:
            self._loop.resume()

    def _observation(self, p: Mapping[str, Any], seconds: float) -> Observation:
        period = self.period or seconds
        age = float("inf") if self._last_change is None else time.time() - self._last_change
        changed = LastChange(age=age, pause=self._pause)
        panes = StageObservation(
            PANES,
            Capacity.steady(p["pane_workers"]),
            arrival_rate=p["arrival_rate"],
            busy_time=sum(p["pane_busy"]),
            tuples_in=p["rows"],
            tuples_out=p["open_rows"],
            latency=Latency(mean=p["pane_latency"]),
            utilisation=p["utilisation_panes"],
            worker_utilisation=tuple(min(b / period, 1.0) for b in p["pane_busy"]),
            splitting=p["splitting"],
            downstream=(WINDOWS,),
            last_change=changed,
            extra={
                Metric.FILTER_RATIO.value: p["filter_ratio"],
                Metric.LOAD_BALANCE.value: p["load_balance"],
                Metric.CLOSING_LAG.value: p["closing_lag"],
            },
        )
        windows = StageObservation(
            WINDOWS,
            Capacity.steady(p["window_workers"]),
            busy_time=sum(p["window_busy"]),
            tuples_out=p["results"],
            latency=Latency(mean=p["window_latency"]),
            utilisation=p["utilisation_windows"],
            worker_utilisation=tuple(min(b / period, 1.0) for b in p["window_busy"]),
            last_change=changed,
        )
        return Observation(
            time.time() - self._began,
            p["interval"],
            (panes, windows),
            latency=Latency(mean=p["window_latency"]),
            extra={
                Metric.DROPPED_SHARE.value: p["dropped_share"],
                Metric.OVERHEAD_TIME.value: max(seconds - p["working"], 0.0),
                "batch": p["totals"]["windows"],
                "rows": p["rows"],
                "batch_seconds": seconds,
                "rows_held": p["rows_held"],
                "live_rows": p["live_rows"],
                "windows": p["windows"],
                "answer_rows": p["answer_rows"],
                "slack": p["slack"],
                "event_lag": p["event_lag"],
            },
        )


class QueryPlant:
    """A running query as a plant: two stages whose numbers of workers can be changed."""

    def __init__(self, program: Any) -> None:
        self._program = program
        self.latest: Observation | None = None

    def observe(self) -> Observation:
        """The last committed batch."""
        if self.latest is None:
            raise PenstockError("No micro-batch has been committed yet.")
        return self.latest

    def apply(self, decision: Decision) -> Applied:
        """Change the numbers of workers from the next micro-batch on."""
        observation = self.observe()
        wanted = {s.name: int(s.workers.planned) for s in observation.stages}
        made: list[Change] = []
        refused: list[tuple[Change, str]] = []
        for change in decision.changes:
            if change.knob is Knob.WORKERS and change.where in wanted and change.number >= 1:
                wanted[change.where] = int(change.number)
                made.append(change)
            else:
                refused.append((change, "a preference query has pane and window workers only"))
        if made:
            self._program.target = (wanted[PANES], wanted[WINDOWS])
        return Applied(tuple(made), refused=tuple(refused))


def stage_utilisation(rows: Sequence[float], busy: Sequence[float], period: float | None) -> float:
    """The papers' utilisation of a stage whose workers were given ``rows`` and took ``busy`` seconds for them.

    What a worker could not finish within the period counts as not processed in it, so an overloaded stage shows a
    factor above 1. Without a period (no trigger) it is the work of the busiest worker that sets it.

    >>> round(stage_utilisation([100, 100], [0.5, 0.5], 1.0), 2), round(stage_utilisation([100], [2.0], 1.0), 2)
    (0.5, 2.0)
    """
    if not sum(rows) or not sum(busy):
        return 0.0
    span = period or max(busy)
    processed = [r * min(1.0, span / b) if b > 0 else r for r, b in zip(rows, busy, strict=True)]
    return utilisation(rows, processed, [min(b, span) for b in busy], span)


def _unevenness(loads: Sequence[float]) -> float:
    return max(loads) / fmean(loads) if loads and sum(loads) > 0 else nan


def _event_lag(state: QueryState) -> float:
    """How far the punctuation is behind the newest row, in seconds of event time."""
    d = state.disorder
    return (d.t_max - d.punctuation) / 1e6 if d.t_max is not None and d.punctuation is not None else nan
