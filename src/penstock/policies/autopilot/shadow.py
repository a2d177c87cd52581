"""A micro-batch query in miniature, as a value: what a candidate's own number of executors would have done.

The same rules as the simulated Spark plant (:mod:`penstock.sim.plants.micro_batch`), on arrivals counted in bins rather
than row by row, so that a step costs the same at ten and at a million rows a second. A shadow is advanced from one
observation of the real run to the next, with the costs that were measured in it.
"""

from dataclasses import dataclass, field, replace
from math import isfinite, nan

import numpy as np

from penstock.core.arrays import Floats
from penstock.core.capacity import Capacity
from penstock.core.observation import Latency, Observation, StageObservation
from penstock.policies.batch_waiting import AT_ONCE

#: Seconds until an executor is there and by which it slows its first batch, until measured.
ARRIVES_AFTER, WARM_UP = 5.0, 2.5


def _none() -> Floats:
    return np.zeros(0)


@dataclass(frozen=True, slots=True)
class MeasuredCosts:
    """What rows, batches and executors cost in the real run; times in seconds."""

    trigger: float
    overhead: float
    service: float  # task time a row
    slots: float  # of one executor
    arrives_after: float = ARRIVES_AFTER
    warm_up: float = WARM_UP

    def utilisation(self, rate: float, slots: float) -> float:
        """Arrivals over what can be served, without what no executor can speed up, as the plants tell it.

        Without an interval of triggers nothing but the rows' work counts: batches come one after the other.
        """
        load = rate * self.service / max(slots, 1e-9)
        if self.trigger <= AT_ONCE:
            return load
        room = 1.0 - self.overhead / self.trigger
        return load / room if room > 0.1 else max(load / 0.1, load + self.overhead / self.trigger)


@dataclass(frozen=True, slots=True, eq=False)
class Bins:
    """Arrivals of one period: when, how many rows, how much work."""

    times: Floats = field(default_factory=_none)
    rows: Floats = field(default_factory=_none)
    work: Floats = field(default_factory=_none)

    def joined(self, other: "Bins") -> "Bins":
        """These and then the others."""
        pairs = ((self.times, other.times), (self.rows, other.rows), (self.work, other.work))
        return Bins(*(np.concatenate(p) for p in pairs))

    def split(self, count: int) -> tuple["Bins", "Bins"]:
        """The first so many bins, and the rest."""
        first = Bins(self.times[:count], self.rows[:count], self.work[:count])
        return first, Bins(self.times[count:], self.rows[count:], self.work[count:])


@dataclass(frozen=True, slots=True)
class Period:
    """What a shadow did in one period: rows that got their result, those of them that were late, executor-seconds."""

    time: float
    rows: float = 0.0
    late: float = 0.0
    spent: float = 0.0
    changes: int = 0

    def plus(self, later: "Period") -> "Period":
        """Both together, at the later time."""
        return Period(
            later.time,
            self.rows + later.rows,
            self.late + later.late,
            self.spent + later.spent,
            self.changes + later.changes,
        )

    def minus(self, earlier: "Period") -> "Period":
        """What came after an earlier total."""
        return Period(
            self.time,
            self.rows - earlier.rows,
            self.late - earlier.late,
            self.spent - earlier.spent,
            self.changes - earlier.changes,
        )


@dataclass(frozen=True, slots=True, eq=False)
class Shadow:
    """Executors that work, are planned and are on their way; what waits and what is in the running batch."""

    now: float
    amount: float
    planned: float
    coming: tuple[tuple[float, float], ...] = ()
    waiting: Bins = field(default_factory=Bins)
    batch: Bins = field(default_factory=Bins)
    started: float = 0.0
    ends: float = nan
    next_start: float = 0.0
    warm: float = 1.0
    duration: float = nan  # of the last batch

    def plan(self, amount: float, costs: MeasuredCosts) -> "Shadow":
        """Want so many executors from now on; more arrive later, fewer go at once."""
        if amount == self.planned:
            return self
        coming = tuple((when, min(total, amount)) for when, total in self.coming)
        coming = tuple(c for c in coming if c[1] > self.amount)
        if amount > max([self.amount, *(total for _, total in coming)]):
            coming = (*coming, (self.now + costs.arrives_after, amount))
        return replace(self, planned=amount, amount=min(self.amount, amount), coming=coming)

    def overdue(self, costs: MeasuredCosts, target: float) -> float:
        """Rows without a result that will be late: those of the running batch, whose end is known, and those that wait.

        The ones that wait are taken by the next batch, with as many executors as are planned.
        """
        late, free = 0.0, max(self.now, self.next_start)
        if isfinite(self.ends):
            late, free = float(self.batch.rows[self.ends - self.batch.times > target].sum()), self.ends
        slots = max(max(self.amount, self.planned) * costs.slots, 1e-9)
        end = free + costs.overhead + float(self.waiting.work.sum()) / slots
        return late + float(self.waiting.rows[end - self.waiting.times > target].sum())


class _Run:
    """One advance of a shadow, event by event."""

    def __init__(self, shadow: Shadow, costs: MeasuredCosts, target: float) -> None:
        self.s, self.costs, self.target = shadow, costs, target
        self.spent = self.rows = self.late = self.busy = 0.0
        self.batches = 0
        self.ages: list[Floats] = []
        self.weights: list[Floats] = []

    def until(self, time: float) -> Shadow:
        s = self.s
        amount, coming, at = s.amount, list(s.coming), s.now
        waiting, batch = s.waiting, s.batch
        started, ends, next_start, warm, duration = s.started, s.ends, s.next_start, s.warm, s.duration
        costs = self.costs
        while True:
            while coming and coming[0][0] <= max(at, s.now) + 1e-9:
                amount = max(amount, coming.pop(0)[1])
            if isfinite(ends):
                if ends > time:
                    break
                self._done(batch, started, ends)
                duration = ends - started
                next_start = max(ends, (np.floor(started / costs.trigger + 1e-9) + 1) * costs.trigger)
                ends, batch = nan, Bins()
            at = max(next_start, s.now)
            if at > time:
                break
            while coming and coming[0][0] <= at + 1e-9:
                amount = max(amount, coming.pop(0)[1])
            count = int(np.searchsorted(waiting.times, at, side="right"))
            if not count:
                # Without rows the next trigger is waited for.
                ahead = waiting.times[0] if len(waiting.times) else time
                next_start = max(at + costs.trigger, costs.trigger * np.ceil(ahead / costs.trigger - 1e-9))
                continue
            batch, waiting = waiting.split(count)
            seconds = costs.overhead + float(batch.work.sum()) / max(amount * costs.slots, 1e-9)
            seconds += costs.warm_up if amount > warm else 0.0
            warm, started, ends = amount, at, at + seconds
            self.batches += 1
        while coming and coming[0][0] <= time + 1e-9:
            amount = max(amount, coming.pop(0)[1])
        self.spent = amount * (time - s.now)
        if isfinite(ends):
            self.busy += time - max(started, s.now)
        return Shadow(
            time, amount, s.planned, tuple(coming), waiting, batch, started, ends, float(next_start), warm, duration
        )  # fmt: skip

    def _done(self, batch: Bins, started: float, ends: float) -> None:
        ages = ends - batch.times
        self.ages.append(ages)
        self.weights.append(batch.rows)
        self.rows += float(batch.rows.sum())
        self.late += float(batch.rows[ages > self.target].sum())
        self.busy += ends - max(started, self.s.now)

    def latency(self) -> Latency:
        if not self.ages or self.rows <= 0:
            return Latency()
        ages, weights = np.concatenate(self.ages), np.concatenate(self.weights)
        order = np.argsort(ages)
        places = np.searchsorted(np.cumsum(weights[order]), np.array([0.5, 0.95, 0.99]) * weights.sum())
        p50, p95, p99 = ages[order][np.minimum(places, len(ages) - 1)]
        return Latency(
            float((ages * weights).sum() / weights.sum()),
            float(p50),
            float(p95),
            float(p99),
            float(ages.max()),
        )


def advance(
    shadow: Shadow,
    bins: Bins,
    real: Observation,
    stage: StageObservation,
    costs: MeasuredCosts,
    target: float,
) -> tuple[Shadow, Observation, Period]:
    """The shadow at the time of a real observation, what it would have told then, and what it did."""
    run = _Run(replace(shadow, waiting=shadow.waiting.joined(bins)), costs, target)
    shadow = run.until(real.time)
    capacity = Capacity(
        shadow.planned,
        shadow.planned,
        shadow.amount,
        real.executors.limit if real.executors else float("inf"),
    )
    slots = shadow.amount * costs.slots
    latency = run.latency()
    seen = replace(
        stage,
        workers=capacity,
        busy_time=run.busy * shadow.amount,
        tuples_in=run.rows,
        tuples_out=run.rows,
        backlog=float(shadow.waiting.rows.sum()),
        latency=latency,
        waiting_time=nan,
        utilisation=costs.utilisation(stage.arrival_rate, slots),
        worker_utilisation=(),
        batch_duration=shadow.duration,
        congestion=nan,
        extra={**stage.extra, "batches": float(run.batches)},
    )
    observation = replace(real, stages=(seen,), executors=capacity, latency=latency, slots=slots)
    return shadow, observation, Period(real.time, run.rows, run.late, run.spent)
