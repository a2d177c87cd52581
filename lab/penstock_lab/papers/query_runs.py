"""Runs of the two-stage preference query for the experiments of PPQ and Elastic-PPQ."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from penstock.core.arrays import Floats
from penstock.core.capacity import Capacity
from penstock.core.controller import Controller, run
from penstock.core.decision import Decision
from penstock.core.guards import Guards
from penstock.core.observation import Observation, StageObservation
from penstock.core.plant import Applied
from penstock.disorder import AdaptiveSlack
from penstock.policies import Fuzzy, Static
from penstock.preference.splitting import GAINS, PidSplitting, Splitting
from penstock.sim.plants.query.preference_plant import PreferencePlant, QueryCosts
from penstock.sim.plants.query.source import QueryStream, of_events
from penstock.traffic import map2, poisson
from penstock.traffic.attributes import Attributes
from penstock.traffic.composition import Shaped
from penstock.traffic.disorder import HeavyDelay
from penstock.traffic.process import ArrivalProcess
from penstock.traffic.seeds import Seeds
from penstock.traffic.selfsimilar import SelfSimilar
from penstock.traffic.shapes import steps
from penstock.traffic.walk import RandomWalk
from penstock_lab.papers.elastic_recordings import recorded_events


@dataclass(frozen=True)
class Traffic:
    """Which stream: a law, its rate, its burstiness and its length."""

    law: Literal["poisson", "map", "selfsimilar", "walk", "steps", "recorded"]
    rate: float
    seconds: float
    burst: float = 0.0  # index of dispersion, or Hurst parameter
    levels: tuple[tuple[float, float], ...] = ()  # (from when, factor) for steps
    seed: int = 1
    stream: str = ""  # name of a recorded one

    def process(self) -> ArrivalProcess:
        """The arrival process."""
        if self.law == "map":
            return map2(rate=self.rate, dispersion=self.burst)
        if self.law == "selfsimilar":
            return SelfSimilar(self.rate, hurst=self.burst)
        if self.law == "walk":
            return RandomWalk(self.rate)
        if self.law == "steps":
            return Shaped(poisson(self.rate), steps(*self.levels))
        return poisson(self.rate)


@dataclass(frozen=True)
class SimulatedQueryRun:
    """One run: stream, query, strategies, workers, and the controller if any."""

    traffic: Traffic
    window: str = "1 second"
    slide: str = "200 milliseconds"
    delay: float = 0.2
    correlations: tuple[tuple[float, float], ...] = ((0.0, 0.0),)
    correlation_period: float | None = None
    splitting: str = "AS_PID"
    scheduling: Any = "MERGE"
    query: Any = "skyline"
    n: int = 1
    m: int = 1
    limit: int = 59  # of a 64-core chip, five are taken by generator, emitters, collector and client
    control: float | None = 2.5  # seconds between decisions of the fuzzy controller; None: fixed workers
    sampling: float = 0.25
    setpoint: float = 0.9  # of the splitting controller
    step: float = 0.3  # most it may change alpha by in a sample
    lowest: float = 0.1  # alpha
    gains: tuple[float, float] = (GAINS.kp, GAINS.kd)  # proportional and derivative
    comparison: float = QueryCosts.comparison
    tuple_time: float = QueryCosts.tuple_time
    in_order: bool = False
    shift: float = 0.0  # seconds to move one entry of the buffer that puts tuples in order
    heavy: float = 0.0  # longest delay in multiples of the mean, for delays of which few are very long
    drop: float | None = None  # share of tuples that may come too late; None: K-slack
    drain: float = 0.3  # how much longer than its stream a run may take, as a share of the stream
    hold: float = 0.0  # seconds before the controller begins to act
    label: str = ""


@dataclass(frozen=True, eq=False)
class QueryOutcome:
    """What a run showed; series have one entry a control interval, counts one a second."""

    run: SimulatedQueryRun
    rows: int
    peak: float  # most arrivals in a second over the mean
    time: Floats
    rate: Floats
    rho_panes: Floats
    samples: Floats  # of the splitting controller while the stream lasts: when, utilisation
    rho_windows: Floats
    n: Floats
    m: Floats
    splitting: Floats
    busy_windows: Floats  # seconds
    pane_counts: Floats
    window_counts: Floats
    selected: float
    parts: float
    pane_latency: float
    closing_lag: float
    held: float
    open_panes: float
    late: float  # share
    balance: float  # busiest over least busy pane worker
    ended: float  # seconds after the end of the stream
    merges: int
    updates: int
    window_latency: float
    window_balance: float  # busiest over mean window worker
    work_panes: float  # seconds of work
    work_windows: float

    @property
    def delta(self) -> float:
        """Extra time to completion over the length of the stream."""
        return self.ended / self.run.traffic.seconds

    def mean_rho(self, after: float = 0.0) -> float:
        """Mean utilisation of the pane stage after some time, by the samples of the splitting controller."""
        later = self.time > after
        return float(np.nanmean(self.rho_panes[later]))

    def median_rho(self, after: float = 0.0) -> float:
        """Median of the splitting controller's samples of the utilisation after some time."""
        return float(np.nanmedian(self.samples[self.samples[:, 0] > after, 1]))

    def cv(self) -> float:
        """Standard deviation over mean of the windows given out a second, while the stream lasts."""
        counts = self.window_counts[: int(self.run.traffic.seconds)]
        return float(counts.std() / counts.mean()) if counts.mean() > 0 else float("nan")


_STREAMS: dict[Any, QueryStream] = {}


def stream_of(spec: SimulatedQueryRun) -> QueryStream:
    """The stream of a run; the last one is kept, since runs of one experiment share it."""
    key = (
        spec.traffic,
        spec.delay,
        spec.correlations,
        spec.correlation_period,
        spec.in_order,
        spec.heavy,
        spec.shift,
    )
    if key not in _STREAMS:
        _STREAMS.clear()
        events = _events(spec.traffic)
        attributes = Attributes(8, spec.correlations, spec.correlation_period)
        if spec.heavy:
            made = _heavy(events, spec, attributes)
        else:
            made = of_events(events, delay=spec.delay, attributes=attributes, seed=spec.traffic.seed)
        _STREAMS[key] = made.in_order(shift=spec.shift) if spec.in_order else made
    return _STREAMS[key]


def _heavy(events: Floats, spec: SimulatedQueryRun, attributes: Attributes) -> QueryStream:
    due = events + HeavyDelay(spec.delay, most=spec.heavy).delays(events, Seeds(spec.traffic.seed), 0)
    order = np.argsort(due, kind="stable")
    return QueryStream(due[order], events[order], attributes, float(events[-1]), spec.traffic.seed)


def _events(traffic: Traffic) -> Floats:
    """Event times; a random walk is run faster or slower so that it has its mean rate over this length too."""
    if traffic.law == "recorded":
        return recorded_events(traffic.stream, traffic.seconds, traffic.seed)
    if traffic.law != "walk":
        return traffic.process().sample(traffic.seconds, traffic.seed)
    events = traffic.process().sample(2 * traffic.seconds, traffic.seed)[
        : int(traffic.rate * traffic.seconds)
    ]
    scaled: Floats = events * (traffic.seconds / events[-1])
    return scaled


class _Panes:
    """A plant whose window stage is left out: the controller is told that it is just right, and nothing of the splitting.

    So do the authors where they look at the pane stage alone (the splitting factor matters for the window stage's work).
    """

    def __init__(self, plant: "_Kept") -> None:
        self._plant = plant

    def observe(self) -> Observation:
        seen = self._plant.observe()
        ideal = StageObservation("windows", Capacity.steady(1), utilisation=0.9)
        return replace(seen, stages=(replace(seen.stages[0], splitting=1.0), ideal))

    def apply(self, decision: Decision) -> Applied:
        return self._plant.apply(decision.with_changes(c for c in decision.changes if c.where == "panes"))


def execute(spec: SimulatedQueryRun) -> QueryOutcome:
    """Run to the end of the stream, and on until everything is given out or time is up."""
    plant = PreferencePlant(
        stream_of(spec), spec.window, spec.slide, QueryCosts(comparison=spec.comparison, tuple_time=spec.tuple_time, sampling=spec.sampling),
        pane_workers=spec.n, window_workers=spec.m, limit=max(64, spec.limit), splitting=_splitting(spec),
        scheduling=spec.scheduling, query=spec.query, by_samples=True, disorder=None if spec.drop is None else AdaptiveSlack(spec.drop),
    )  # fmt: skip
    seen: list[Observation] = []
    watched = _Kept(plant, seen)
    period = spec.control or 1.0
    most = spec.traffic.seconds * (1 + spec.drain) + 5.0
    fuzzy = Fuzzy(limit=spec.limit, interval=spec.control or 1.0)
    for policy, end in ((Static(), most if spec.control is None else spec.hold), (fuzzy, most)):
        # The controllers of the paper act on the utilisation alone; guards would mix their own view in.
        loop: Controller[Any] = Controller(
            watched if spec.scheduling is not None else _Panes(watched), policy, Guards(catch_up=None)
        )
        while plant.now() < end and not plant.drained:
            run(loop, plant, period, min(plant.now() + 5 * period, end + (period if end == most else 0.0)))
    return _outcome(spec, plant, seen)


def _splitting(spec: SimulatedQueryRun) -> str | Splitting:
    if spec.splitting != "AS_PID":
        return spec.splitting
    kp, kd = spec.gains
    pid = replace(GAINS, kp=kp, kd=kd, setpoint=spec.setpoint, limit=spec.step)
    return PidSplitting(pid, lowest=spec.lowest)


class _Kept:
    def __init__(self, plant: PreferencePlant, seen: list[Observation]) -> None:
        self._plant, self._seen = plant, seen

    def observe(self) -> Observation:
        seen: Observation = self._plant.observe()
        self._seen.append(seen)
        return seen

    def apply(self, decision: Decision) -> Applied:
        applied: Applied = self._plant.apply(decision)
        return applied


def _outcome(spec: SimulatedQueryRun, plant: PreferencePlant, seen: Sequence[Observation]) -> QueryOutcome:
    seconds = spec.traffic.seconds
    during = [o for o in seen if o.time <= seconds + (spec.control or 1.0)]
    panes = [o.stage("panes") for o in during]
    windows = [o.stage("windows") if plant.windows is not None else None for o in during]
    busy = plant.panes.busy_until(plant.now())[plant.panes.active]
    finished = plant.windows.finished if plant.windows is not None else []
    # A window that the stream does not fill is not waited for, as in the authors' code.
    last = plant.model.windows_of_pane(int(plant.model.pane_of(np.array([int(seconds * 1e6)]))[0])).start
    ends = [w.time for w in finished if w.number < last] or plant.pane_closed
    steady = max(1, int(len(plant.parts) * 0.1))  # the first tenth is start-up
    return QueryOutcome(
        run=spec,
        rows=len(plant.stream),
        peak=_peak(plant.stream),
        time=np.array([o.time for o in during]),
        rate=np.array([s.arrival_rate for s in panes]),
        rho_panes=np.array([s.utilisation for s in panes]),
        samples=np.array([s for s in plant.samples if s[0] <= seconds]).reshape(-1, 2),
        rho_windows=np.array([s.utilisation if s else np.nan for s in windows]),
        n=np.array([s.workers.observed for s in panes]),
        m=np.array([s.workers.observed if s else 0.0 for s in windows]),
        splitting=np.array([s.splitting for s in panes]),
        busy_windows=np.array([s.busy_time if s else 0.0 for s in windows]),
        pane_counts=_per_second(plant.pane_closed, plant.now()),
        window_counts=_per_second([w.time for w in finished], plant.now()),
        selected=float(np.mean(plant.selected[steady:])),
        parts=float(np.mean(plant.parts[steady:])),
        pane_latency=float(np.mean(plant.pane_latency[steady:])),
        closing_lag=float(np.mean(plant.closing_lag[steady:])),
        held=float(np.mean(plant.held)) + _buffered(plant.stream),
        open_panes=float(np.mean(plant.open_panes)),
        late=plant.late / max(len(plant.stream), 1),
        balance=float(busy.max() / max(busy.min(), 1e-9)) if len(busy) else 1.0,
        ended=max(0.0, (max(ends) if ends and plant.drained else plant.now()) - seconds),
        merges=plant.windows.merges if plant.windows is not None else 0,
        updates=plant.windows.updates if plant.windows is not None else 0,
        window_latency=float(np.mean(plant.window_latency)) if plant.window_latency else float("nan"),
        window_balance=_balance(plant),
        work_panes=float(plant.panes.work.sum()),
        work_windows=plant.windows.busy_until(plant.now()) if plant.windows is not None else 0.0,
    )


def _peak(stream: QueryStream) -> float:
    counts = _per_second(stream.arrival, stream.seconds)
    return float(counts.max() / counts.mean())


def _buffered(stream: QueryStream) -> float:
    """Tuples in the buffer that puts them in order, on average."""
    return stream.buffered / stream.seconds


def _balance(plant: PreferencePlant) -> float:
    if plant.windows is None or not plant.windows.work:
        return float("nan")
    work = [plant.windows.work.get(w, 0.0) for w in range(plant.windows.workers)]
    return max(work) / max(float(np.mean(work)), 1e-12)


def _per_second(times: Sequence[float] | Floats, end: float) -> Floats:
    counts, _ = np.histogram(times, bins=max(1, int(end)), range=(0.0, float(max(1, int(end)))))
    return counts.astype(np.float64)
