"""A Structured Streaming query as a policy meets it: micro-batches, and executors that come late.

    duration of a batch of n rows = (overhead + work / (executors x cores)) x noise,   work = n row_cost

A batch starts at the first multiple of the trigger after the last batch has ended, and takes all rows that have
arrived by then. Executors that were asked for arrive seconds later and work from the next batch on; their first batch is
slower by what it takes to warm them up. This is what Spark really does; the figures are those of a standalone
cluster on loopback and can be calibrated from a journal (:mod:`penstock.sim.calibrate`).
"""

from dataclasses import dataclass
from math import ceil, inf, isnan, nan

import numpy as np

from penstock.core.arrays import Floats
from penstock.core.capacity import Capacity, Knob
from penstock.core.decision import Change
from penstock.core.errors import PenstockError
from penstock.core.observation import LastChange, Observation, StageObservation
from penstock.sim.plants.virtual import VirtualPlant
from penstock.sim.setting import Setting
from penstock.sim.summary import dispersion_of, latency_of, scv_of

RECENT = 50_000  # inter-arrival times that an observation carries


@dataclass(frozen=True)
class SparkCosts:
    """What a query and its cluster take; times in seconds."""

    overhead: float = 0.3  # a batch, whatever is in it
    row_cost: float = 1e-3  # of one core, a row
    trigger: float = 1.0
    arrives_after: float = 4.0  # from asking for an executor to having it
    warm_up: float = 2.5  # of the first batch on new executors
    cores: int = 1  # an executor
    noise: float = 0.05  # standard deviation of the logarithm of a batch's duration

    def __post_init__(self) -> None:
        if min(self.overhead, self.row_cost, self.arrives_after, self.warm_up, self.noise) < 0:
            raise PenstockError(
                "The costs of a Spark-like plant must not be negative; check the calibration."
            )
        if self.trigger <= 0 or self.cores < 1:
            raise PenstockError(
                "A Spark-like plant needs a trigger above 0 s and at least 1 core an executor."
            )

    def duration(self, work: float, executors: float) -> float:
        """How long a batch takes, noise apart."""
        return self.overhead + work / max(executors * self.cores, 1e-9)

    def utilisation(self, load: float, executors: float) -> float:
        """load / slots over 1 - overhead / trigger, where load is the work that arrives a second.

        What no executor can speed up is left out: 0 without load, 1 where a batch takes its trigger. Where the overhead
        alone fills the interval, batches follow each other at once and share it among more rows.
        """
        each = load / max(executors * self.cores, 1e-9)
        room = 1.0 - self.overhead / self.trigger
        return (
            each / room
            if room > 0.1
            else max(each / 0.1, self.duration(load * self.trigger, executors) / self.trigger)
        )


@dataclass(frozen=True)
class SimulatedBatch:
    """One finished micro-batch."""

    start: float
    end: float
    rows: int
    work: float
    executors: float
    warm_up: float = nan  # seconds that new executors made it longer; nan where none were new


class SparkLike(VirtualPlant):
    """The plant; ``costs_of_rows`` gives single rows a cost of their own (seconds of one core).

    Executors can be set as EXECUTORS of the application or as WORKERS of the stage "query"; both are the same.
    """

    STAGE = "query"

    def __init__(
        self,
        arrivals: Floats,
        costs: SparkCosts | None = None,
        executors: int = 1,
        limit: int = 64,
        seed: int = 0,
        costs_of_rows: Floats | None = None,
    ) -> None:
        super().__init__()
        self.costs = costs or SparkCosts()
        self._arrivals = np.ascontiguousarray(arrivals, dtype=np.float64)
        self._gaps = np.diff(self._arrivals)
        single = (
            np.full(len(arrivals), self.costs.row_cost)
            if costs_of_rows is None
            else np.asarray(costs_of_rows)
        )
        self._work = np.concatenate([[0.0], np.cumsum(single)])
        self._rng = np.random.default_rng(seed)
        self._executors = Setting(executors, limit, self.costs.arrives_after)
        self.settings = {(Knob.EXECUTORS, ""): self._executors, (Knob.WORKERS, self.STAGE): self._executors}
        self.settings[Knob.SHEDDING, self.STAGE] = Setting(0.0, 1.0)
        self._next_start, self._taken, self._warm = 0.0, 0, float(executors)
        self._running: SimulatedBatch | None = None
        self._running_from = 0
        self._done: list[SimulatedBatch] = []
        self._responses: list[Floats] = []
        self._shed = self._seen = 0
        self._busy_until = self._busy = 0.0

    # ---- events

    def _run(self, time: float) -> None:
        while True:
            if self._running is not None:
                if self._running.end > time:
                    return
                self._finish(self._running)
            if self._next_start > time:
                return
            self._begin(self._next_start)

    def _begin(self, start: float) -> None:
        """Take what has arrived; without rows the next trigger is waited for."""
        upto = int(np.searchsorted(self._arrivals, start, side="right"))
        if upto == self._taken:
            nearest = self._arrivals[upto] if upto < len(self._arrivals) else inf
            step = self.costs.trigger
            self._next_start = max(start + step, step * ceil(nearest / step - 1e-9)) if nearest < inf else inf
            return
        executors = self._executors.settle(start)
        work = float(self._work[upto] - self._work[self._taken]) * (1.0 - self._shedding)
        expected = duration = self.costs.duration(work, executors)
        new = executors > self._warm
        if new:
            duration += self.costs.warm_up
        self._warm = executors
        duration *= float(np.exp(self._rng.normal(0.0, self.costs.noise))) if self.costs.noise else 1.0
        warm_up = max(0.0, duration - expected) if new else nan
        rows = upto - self._taken
        kept = rows - round(rows * self._shedding)
        self._shed += rows - kept
        self._running, self._running_from = (
            SimulatedBatch(start, start + duration, kept, work, executors, warm_up),
            self._taken,
        )
        self._taken = upto

    def _finish(self, batch: SimulatedBatch) -> None:
        self._done.append(batch)
        responses = batch.end - self._arrivals[self._running_from : self._taken]
        self._responses.append(responses)
        self.responses.add(responses)
        self._running = None
        trigger = self.costs.trigger
        self._next_start = max(batch.end, (np.floor(batch.start / trigger + 1e-9) + 1) * trigger)
        self._busy += batch.end - max(batch.start, self._busy_until)
        self._busy_until = batch.end

    def unfinished(self) -> Floats:
        """Ages of the rows that wait or are in the batch that runs."""
        first = self._taken if self._running is None else self._running_from
        last = int(np.searchsorted(self._arrivals, self._now, side="right"))
        return self._now - self._arrivals[first:last]

    @property
    def _shedding(self) -> float:
        return self.setting(Knob.SHEDDING, self.STAGE).amount

    def _change(self, change: Change) -> LastChange:
        if change.knob is Knob.WORKERS:
            change = Change(Knob.EXECUTORS, "", change.number)
        return super()._change(change)

    # ---- observation

    def _observe(self, period: float) -> Observation:
        start = self._now - period
        self._executors.settle(self._now)
        first = int(np.searchsorted(self._arrivals, start, side="right")) if self._observed_at else 0
        last = int(np.searchsorted(self._arrivals, self._now, side="right"))
        arrived = self._arrivals[first:last]
        batches, self._done = self._done, []
        responses = np.concatenate(self._responses) if self._responses else np.zeros(0)
        self._responses = []
        shed, self._shed = self._shed, 0
        taken, self._seen = self._taken - self._seen, self._taken
        stage = StageObservation(
            self.STAGE,
            workers=self._executors.capacity(),
            arrival_rate=len(arrived) / period,
            arrival_scv=scv_of(self._gaps[first : max(first, last - 1)]),
            arrival_dispersion=dispersion_of(arrived, start, period),
            interarrivals=self._gaps[max(0, last - RECENT) : max(0, last - 1)],
            busy_time=self._busy_share(start) * self._executors.amount,
            tuples_in=float(taken - shed),
            tuples_out=float(sum(b.rows for b in batches)),
            backlog=float(last - self._taken),
            latency=latency_of(responses),
            waiting_time=self._waiting(responses, batches),
            service_time=self._service(first, last),
            service_scv=0.0,
            utilisation=self._utilisation(first, last, period),
            worker_utilisation=(),
            shedding=self._shedding,
            trigger=self.costs.trigger,
            overhead_time=self.costs.overhead,
            batch_duration=batches[-1].end - batches[-1].start if batches else nan,
            last_change=self.last_change(""),
            extra={
                "shed": float(shed),
                "batches": float(len(batches)),
                "batch_rows": float(batches[-1].rows) if batches else nan,
                "warm_up": max((b.warm_up for b in batches if not isnan(b.warm_up)), default=nan),
            },
        )
        return Observation(
            self._now,
            period,
            (stage,),
            executors=Capacity(*_parts(self._executors)),
            latency=stage.latency,
            slots=self._executors.amount * self.costs.cores,
        )

    def _busy_share(self, start: float) -> float:
        """Seconds of the period in which a batch ran."""
        busy, self._busy = self._busy, 0.0
        if self._running is not None:
            begun = max(self._running.start, self._busy_until)
            busy += max(0.0, self._now - begun)
            self._busy_until = self._now
        return busy

    def _service(self, first: int, last: int) -> float:
        rows = last - first
        return float(self._work[last] - self._work[first]) / rows if rows else self.costs.row_cost

    def _utilisation(self, first: int, last: int, period: float) -> float:
        load = float(self._work[last] - self._work[first]) * (1.0 - self._shedding) / period
        return self.costs.utilisation(load, self._executors.amount)

    @staticmethod
    def _waiting(responses: Floats, batches: list[SimulatedBatch]) -> float:
        """From a row's arrival to the start of its batch, on average."""
        rows = sum(b.rows for b in batches)
        if not rows or not len(responses):
            return float("nan")
        inside = sum(b.rows * (b.end - b.start) for b in batches) / rows
        return max(0.0, float(responses.mean()) - inside)


def _parts(setting: Setting) -> tuple[float, float, float, float]:
    capacity = setting.capacity()
    return capacity.planned, capacity.requested, capacity.observed, capacity.limit
