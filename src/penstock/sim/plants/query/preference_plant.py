"""The plant: pane stage and window stage, each with workers that can be switched on and off."""

from dataclasses import dataclass
from math import inf, nan
from typing import Literal

import numpy as np

from penstock.core.arrays import Floats
from penstock.core.capacity import Capacity, Knob
from penstock.core.decision import Change
from penstock.core.errors import PenstockError
from penstock.core.metrics import Metric
from penstock.core.observation import LastChange, Observation, StageObservation
from penstock.core.utilisation import utilisation
from penstock.disorder import KSlack
from penstock.disorder.stats import partition_stats
from penstock.disorder.strategy import Disorder
from penstock.preference.panes import PaneModel
from penstock.preference.splitting import PidSplitting, Splitting, StatisticSplitting, splitting
from penstock.sim.plants.query.pane_stage import PaneResult, SimulatedPaneStage
from penstock.sim.plants.query.source import QueryStream
from penstock.sim.plants.query.window_stage import SimulatedWindowStage, Strategy
from penstock.sim.plants.virtual import VirtualPlant
from penstock.sim.setting import Setting
from penstock.sim.summary import latency_of, scv_of

PANES, WINDOWS = "panes", "windows"


@dataclass(frozen=True)
class QueryCosts:
    """Seconds on one worker, and the clocks of the scheduler. The defaults imitate a 1.3 GHz many-core.

    The two costs of the pane stage are the straight line through the utilisations that the authors of Elastic-PPQ publish
    for 7 to 20 evenly loaded workers (Fig. 11), against the mean size of the partitions there; it fits to 1 %.
    """

    comparison: float = 177e-9  # of two tuples of eight attributes
    tuple_time: float = 3.7e-6  # a tuple in the pane stage, comparisons apart
    task_time: float = 30e-6  # a task of the window stage, comparisons apart
    tick: float = 0.01  # least time between two punctuations
    sampling: float = 0.25  # sampling period of the pane-splitting controller

    def __post_init__(self) -> None:
        if min(self.comparison, self.tuple_time, self.task_time) < 0 or min(self.tick, self.sampling) <= 0:
            raise PenstockError(
                "The costs of a query must not be negative and its clocks above 0; check them."
            )


#: How many times as long a comparison takes as one of the skyline query. PPQ 4.3 says 1.5 to 2 for top-delta, the threads of
#: Tables 4 and 5 of Elastic-PPQ say 1.25.
QUERY_FACTOR = {"skyline": 1.0, "top_delta": 1.25}
Query = Literal["skyline", "top_delta"]


class PreferencePlant(VirtualPlant):
    """A continuous preference query with n pane workers and m window workers.

    ``splitting``: PB_RR, TB_RR, AS, AS_PID (or a configured strategy), or "none": whole panes to the least loaded worker.
    ``scheduling``: the window stage's strategy, or None for the pane stage alone. ``by_samples``: observe the pane stage's
    utilisation as the mean of the splitting controller's short samples instead of over the whole period. In a short
    sample only the workers of the panes that are open get tuples, so that it shows unevenness that evens out later.
    """

    def __init__(
        self,
        stream: QueryStream,
        window: str = "1 second",
        slide: str = "200 milliseconds",
        costs: QueryCosts | None = None,
        *,
        pane_workers: int = 1,
        window_workers: int = 1,
        limit: int = 64,
        splitting: str | Splitting = "AS_PID",
        scheduling: Strategy | None = "MERGE",
        disorder: Disorder | None = None,
        query: Query = "skyline",
        by_samples: bool = False,
    ) -> None:
        super().__init__()
        if query not in QUERY_FACTOR:
            raise PenstockError(f"There is no query '{query}' here; choose {', '.join(QUERY_FACTOR)}.")
        self.stream, self.costs = stream, costs or QueryCosts()
        self.model = PaneModel.of(window, slide)
        comparison, dims = self.costs.comparison * QUERY_FACTOR[query], stream.attributes.dims
        self.panes = SimulatedPaneStage(pane_workers, limit, dims, comparison, self.costs.tuple_time)
        self.windows = (
            None
            if scheduling is None
            else SimulatedWindowStage(
                self.model, window_workers, comparison, self.costs.task_time, scheduling
            )
        )
        self._by_samples = by_samples
        self._strategy, self._split = _strategy(splitting)
        self._split_state = self._split.start()
        if isinstance(splitting, str) and splitting == "none":
            self._split_state = StatisticSplitting(inf).start()
        self._disorder = disorder or KSlack()
        self._slack = self._disorder.start()
        self._n = Setting(pane_workers, limit)
        self.settings = {(Knob.WORKERS, PANES): self._n}
        if self.windows is not None:
            self._m = Setting(window_workers, limit)
            self.settings[Knob.WORKERS, WINDOWS] = self._m
        self._row = 0
        self._event_us = np.round(stream.event_time * 1e6).astype(np.int64)
        self._pane_of = self.model.pane_of(self._event_us)
        self._tick_at = self._sampled_at = 0.0
        self._first_pane: int | None = None
        self._sample = self._mark(0.0)
        self._seen = self._mark(0.0)
        self._closed_sizes: list[int] = []
        #: What was measured pane by pane and sample by sample, over the whole run.
        self.pane_latency: list[float] = []
        self.closing_lag: list[float] = []
        self.parts: list[int] = []
        #: Tuples that each closed pane gave to the windows.
        self.given_out: list[int] = []
        self.selected: list[
            float
        ] = []  # tuples that left the pane stage over tuples that entered it, by pane
        self.pane_closed: list[float] = []
        self.samples: list[tuple[float, float]] = []  # (time, utilisation of the pane stage)
        self.held: list[int] = []  # tuples in the pane stage, a tick each
        self.open_panes: list[int] = []
        self.window_latency: list[float] = []
        self.late = 0
        self.is_late = np.zeros(len(stream), dtype=np.bool_)
        self._late_seen = 0
        self._window_mark: tuple[dict[int, int], int, float] = ({}, 0, 0.0)
        self._results_seen = 0
        self._panes_seen = 0
        self._first_arrival: dict[int, float] = {}
        self._results_of: dict[int, list[PaneResult]] = {}

    # ---- events

    def _run(self, time: float) -> None:
        tick = self.costs.tick
        while self._tick_at + tick <= time + 1e-9:
            self._tick(self._tick_at + tick)
        if self.windows is not None:
            self.windows.run(time)

    def _tick(self, now: float) -> None:
        last = int(np.searchsorted(self.stream.arrival, now, side="left"))
        if last > self._row:
            self._rows(self._row, last, now)
            self._row = last
        self._punctuate(now)
        if now - self._sampled_at >= self.costs.sampling - 1e-9:
            self._sample_now(now)
        if self.windows is not None:
            self.windows.run(now)
        self.held.append(self.panes.held() + int((self.panes.sent - self.panes.done).sum()))
        self.open_panes.append(len(self.panes.open))
        self._tick_at = now

    def _rows(self, first: int, last: int, now: float) -> None:
        rows = slice(first, last)
        times = self._event_us[rows]
        stats = partition_stats(times, self._slack.t_max, self._slack.punctuation)
        kept = np.ones(last - first, dtype=np.bool_)
        if stats.late and self._slack.punctuation is not None:
            # A punctuation promises that nothing older follows, so what is older goes (PPQ 4.1.1).
            kept = times >= self._slack.punctuation
            self.late += int((~kept).sum())
            self.is_late[rows] = ~kept
        self._slack = self._disorder.step(self._slack, stats)
        panes, arrival = self._pane_of[rows], self.stream.arrival[rows]
        points = self.stream.points(first, last)
        if not kept.all():
            panes, arrival, points = panes[kept], arrival[kept], points[kept]
        if not len(panes):
            return
        if self._first_pane is None:
            self._first_pane = int(panes.min())
        self.panes.take(arrival, panes, points, self._strategy, self._split_state.threshold, now)

    def _punctuate(self, now: float) -> None:
        """Close what the punctuation allows; at the end of the stream, everything."""
        if self._row >= len(self.stream) and self.panes.open:
            before = max(self.panes.open) + 1
        elif self._slack.punctuation is None:
            return
        else:
            before = self.model.closed_before(self._slack.punctuation)
        results = self.panes.close(before, now)
        self._give_on(results)
        over = [p for p in self.panes.times if p < before]
        if not over:
            return
        for pane in sorted(over):
            self._pane_done(pane, now)
        if self.windows is not None:
            parts = {p: self.panes.times[p].parts for p in over}
            if self._row >= len(self.stream):
                last = self.model.windows_of_pane(before - 1).stop - 1
                before = self.model.panes_of_window(last)[1] + 1
            self.windows.closed(before, parts, self._first_pane)
        for pane in over:
            del self.panes.times[pane]

    def _give_on(self, results: list[PaneResult]) -> None:
        for result in results:
            self._closed_sizes.append(result.received)
            self._results_of.setdefault(result.pane, []).append(result)
            if self.windows is not None:
                self.windows.add(result)

    def _pane_done(self, pane: int, now: float) -> None:
        times, results = self.panes.times[pane], self._results_of.pop(pane, [])
        self.pane_latency.append(times.computed - self._arrived_first(pane, times.first))
        self.closing_lag.append(max(0.0, now - times.computed))
        self.parts.append(times.parts)
        self.given_out.append(sum(len(r.rows) for r in results))
        self.selected.append(self.given_out[-1] / max(times.rows, 1))
        self.pane_closed.append(max((r.ready for r in results), default=now))
        self._first_arrival[pane] = times.first

    def _arrived_first(self, pane: int, first: float) -> float:
        """When the first row of a pane arrived, whenever it was released."""
        if self.stream.waiting is None:
            return first
        rows = slice(
            *np.searchsorted(self._pane_of, [pane, pane + 1])
        )  # in order, so that a pane is a stretch
        return float(self.stream.waiting[rows].min())

    def _sample_now(self, now: float) -> None:
        """One sampling period of the pane-splitting controller."""
        mark = self._mark(now)
        rho = self._utilisation(self._sample, mark, now - self._sampled_at)
        self._split_state = self._split.step(self._split_state, self._closed_sizes, rho)
        self.samples.append((now, rho))
        self._closed_sizes, self._sample, self._sampled_at = [], mark, now

    def _mark(self, now: float) -> tuple[Floats, Floats, Floats]:
        """Rows sent to, rows processed by, and seconds worked by each pane worker so far."""
        self.panes.queued(now)
        return (
            self.panes.sent.astype(np.float64),
            self.panes.done.astype(np.float64),
            self.panes.busy_until(now),
        )

    def _utilisation(self, before: tuple[Floats, ...], after: tuple[Floats, ...], period: float) -> float:
        active = self.panes.active
        sent, done, busy = ((b - a)[active].tolist() for a, b in zip(before, after, strict=True))
        return utilisation(sent, done, busy, period)

    def _mean_sample(self, mark: tuple[Floats, ...], period: float) -> float:
        """Mean of the splitting controller's samples."""
        start = self._now - period
        recent = [
            rho for t, rho in self.samples[-int(period / self.costs.sampling) - 2 :] if t > start + 1e-9
        ]
        known = [rho for rho in recent if not np.isnan(rho)]
        return float(np.mean(known)) if known else self._utilisation(self._seen, mark, period)

    # ---- changes

    def _change(self, change: Change) -> LastChange:
        super()._change(change)
        count = int(change.number)
        if change.where == PANES:
            self._give_on(self.panes.resize(count, self._now))
        elif self.windows is not None:
            self.windows.resize(count, self._now)
        return LastChange()

    @property
    def drained(self) -> bool:
        """Whether the stream has ended and every window was given out."""
        over = self._row >= len(self.stream) and not self.panes.open
        return over and (self.windows is None or self.windows.idle_now)

    # ---- observation

    def _observe(self, period: float) -> Observation:
        mark = self._mark(self._now)
        stages = [self._pane_observation(mark, period)]
        if self.windows is not None:
            stages.append(self._window_observation(period))
        rows = float((mark[0] - self._seen[0]).sum())
        late, self._late_seen = self.late - self._late_seen, self.late
        self._seen = mark
        extra = {Metric.DROPPED_SHARE.value: late / max(late + rows, 1.0), "rows": rows}
        return Observation(self._now, period, tuple(stages), latency=stages[-1].latency, extra=extra)

    def _pane_observation(self, mark: tuple[Floats, ...], period: float) -> StageObservation:
        start, active = self._now - period, self.panes.active
        sent, done, busy = (a - b for a, b in zip(mark, self._seen, strict=True))
        first = int(np.searchsorted(self.stream.arrival, start)) if self._observed_at else 0
        arrived = self.stream.arrival[first : self._row]
        late = self.late - self._late_seen
        closed, self._panes_seen = slice(self._panes_seen, len(self.parts)), len(self.parts)
        parts, selected = self.parts[closed], self.selected[closed]
        latencies = np.array(self.pane_latency[closed])
        load = sent[active]
        return StageObservation(
            PANES,
            workers=Capacity(self._n.planned, self._n.planned, len(active), self._n.limit),
            downstream=(WINDOWS,) if self.windows is not None else (),
            arrival_rate=len(arrived) / period,
            arrival_scv=scv_of(np.diff(arrived)),
            interarrivals=np.diff(arrived[-50_000:]),
            busy_time=float(busy.sum()),
            tuples_in=float(done.sum()),
            tuples_out=float(sum(self.given_out[closed])),
            backlog=float((self.panes.sent - self.panes.done).sum()),
            latency=latency_of(latencies),
            service_time=float(busy.sum() / done.sum()) if done.sum() else nan,
            utilisation=self._mean_sample(mark, period)
            if self._by_samples
            else self._utilisation(self._seen, mark, period),
            worker_utilisation=tuple(np.minimum(busy[active] / period, 1.0).tolist()),
            splitting=float(np.mean(parts)) if parts else nan,
            last_change=self.last_change(PANES),
            extra={
                "dropped": float(late),
                "alpha": self._split_state.alpha,
                Metric.FILTER_RATIO.value: float(np.mean(selected)) if selected else nan,
                Metric.LOAD_BALANCE.value: float(load.max() / load.mean()) if load.sum() else 1.0,
                Metric.CLOSING_LAG.value: float(np.mean(self.closing_lag[closed])) if parts else nan,
            },
        )

    def _window_observation(self, period: float) -> StageObservation:
        stage = self.windows
        assert stage is not None
        given_before, done_before, spent_before = self._window_mark
        spent = stage.busy_until(self._now)
        finished, busy = stage.done - done_before, spent - spent_before
        utilisation = stage.utilisation(given_before, finished, busy, period)
        arrived = sum(stage.given.values()) - sum(given_before.values())
        self._window_mark = (dict(stage.given), stage.done, spent)
        given = stage.finished[self._results_seen :]
        self._results_seen = len(stage.finished)
        latencies = np.array([self._latency_of(w.number, w.time) for w in given])
        latencies = latencies[~np.isnan(latencies)]
        self.window_latency += latencies.tolist()
        self.responses.add(latencies)
        m = stage.workers
        return StageObservation(
            WINDOWS,
            workers=Capacity(self._m.planned, self._m.planned, m, self._m.limit),
            arrival_rate=arrived / period,
            busy_time=busy,
            tuples_in=float(finished),
            tuples_out=float(len(given)),
            backlog=float(stage.waiting),
            latency=latency_of(latencies),
            service_time=busy
            / max(finished, 1),  # where none has ended, what was spent is the least one takes
            utilisation=utilisation,
            worker_utilisation=(min(busy / (m * period), 1.0),) * m,
            last_change=self.last_change(WINDOWS),
            extra={"windows": float(len(given)), "merges": float(stage.merges)},
        )

    def _latency_of(self, window: int, time: float) -> float:
        """From the arrival of the window's first row to its answer (PPQ Def. 3)."""
        first, last = self.model.panes_of_window(window)
        came = [self._first_arrival[p] for p in range(first, last + 1) if p in self._first_arrival]
        for pane in [p for p in self._first_arrival if p < first]:
            del self._first_arrival[pane]
        return time - min(came) if came else nan


def _strategy(given: str | Splitting) -> tuple[str, Splitting]:
    if not isinstance(given, str):
        return given.name, given
    if given == "none":
        return "AS", StatisticSplitting(float("inf"))
    made = splitting(given)
    return made.name, made


__all__ = ["PANES", "PidSplitting", "PreferencePlant", "QUERY_FACTOR", "QueryCosts", "WINDOWS"]
