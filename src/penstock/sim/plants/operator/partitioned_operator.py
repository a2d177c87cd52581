"""The plant: a partitioned-stateful operator on cores of one frequency (MPC 2.1, 4)."""

from dataclasses import dataclass, replace
from math import inf, nan

import numpy as np

from penstock.core.arrays import Floats, Ints
from penstock.core.capacity import Knob
from penstock.core.decision import Change, Decision
from penstock.core.errors import PenstockError
from penstock.core.metrics import Metric
from penstock.core.observation import KeyLoad, LastChange, Observation, StageObservation
from penstock.core.plant import Applied
from penstock.core.utilisation import utilisation
from penstock.dataflow.routing import dealt
from penstock.sim.plants.operator import kernel
from penstock.sim.plants.operator.migration import PROTOCOLS, Protocol, hand_over
from penstock.sim.plants.operator.triggers import Triggers
from penstock.sim.plants.virtual import VirtualPlant
from penstock.sim.power import watts
from penstock.sim.setting import Setting
from penstock.sim.summary import dispersion_of, latency_of, scv_of

RECENT = 50_000


@dataclass(frozen=True)
class OperatorCosts:
    """What the operator and its machine take. The defaults imitate the machine of MPC 5: 0.46 ms a window at 2 GHz."""

    ticks: float = 0.92e6  # clock cycles of one triggering tuple
    spread: float = 0.3  # standard deviation of the logarithm of a single computation
    key_spread: float = 0.2  # the same of the mean cost of a key
    split_time: float = 2e-6  # seconds of the splitter a trigger (with the tuples before it)
    queue: int = 160  # triggers that a replica's queue holds
    hand_over: float = 30e-6  # seconds to give one key's state away
    give_time: float = 10e-6  # seconds of the splitter to give one held trigger out (S-BLK)
    state_bytes: float = 64e3  # state of a key
    set_aside: int = 20_000  # triggers that a replica can set aside while their state is on its way (MP)
    held_back: int = 200_000  # triggers that the splitter can hold back while state moves (S-BLK)
    protocol: Protocol = "MP"
    frequencies: tuple[float, ...] = (1.2, 1.3, 1.4, 1.5, 1.6, 1.7, 1.8, 1.9, 2.0)

    def __post_init__(self) -> None:
        if self.protocol not in PROTOCOLS:
            raise PenstockError(
                f"There is no migration protocol '{self.protocol}'; choose {', '.join(PROTOCOLS)}."
            )
        if self.ticks <= 0 or min(self.queue, self.set_aside, self.held_back) < 1 or not self.frequencies:
            raise PenstockError(
                "An operator needs a cost above 0, buffers of 1 or more and at least one frequency."
            )


class PartitionedOperator(VirtualPlant):
    """Replicas of one operator behind a splitter; keys are routed by a table that can be changed."""

    STAGE = "operator"

    def __init__(
        self,
        stream: Triggers,
        costs: OperatorCosts | None = None,
        workers: int = 1,
        limit: int = 12,
        frequency: float | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.stream, self.costs = stream, costs or OperatorCosts()
        rng = np.random.default_rng(seed)
        self._key_ticks = self.costs.ticks * _unit_lognormal(rng, self.costs.key_spread, stream.key_count)
        self._own = _unit_lognormal(rng, self.costs.spread, len(stream.times))
        self._own *= self._key_ticks[stream.keys]
        self._workers = Setting(workers, limit)
        top = max(self.costs.frequencies)
        self._frequency = Setting(frequency or top, top)
        self.settings = {
            (Knob.WORKERS, self.STAGE): self._workers,
            (Knob.FREQUENCY, self.STAGE): self._frequency,
        }
        self._loads = np.full(stream.key_count, 1.0 / stream.key_count)
        self.routing = self._balanced(workers)
        n = len(stream.times)
        self._starts, self._departures = np.full(n, inf), np.full(n, inf)
        self._replicas = np.full(n, -1, dtype=np.int16)
        self._available = np.full(stream.key_count, -inf)
        self._moving = np.zeros(stream.key_count, dtype=np.bool_)
        self._free = np.zeros(limit)
        self._queues = np.full((limit, self.costs.queue), -inf)
        self._places = np.zeros(limit, dtype=np.int64)
        self._pending = np.zeros((limit, self.costs.set_aside), dtype=np.int64)
        self._waiting = np.zeros(limit, dtype=np.int64)
        self._passed = np.zeros(stream.key_count + 1, dtype=np.int64)
        self._held = np.zeros(self.costs.held_back, dtype=np.int64)
        self._clock = np.zeros(4)
        self._blocked = 0.0
        self._sent = self._first_open = 0

    @property
    def departures(self) -> Floats:
        """When the result of each triggering tuple came out; infinite for those still inside."""
        return self._departures

    def unfinished(self) -> Floats:
        """Ages of the triggers that wait or are being served."""
        last = int(np.searchsorted(self.stream.times, self._now, side="right"))
        rows = self._first_open + np.flatnonzero(self._departures[self._first_open : last] > self._now)
        return self._now - self.stream.times[rows]

    # ---- events

    def _run(self, time: float) -> None:
        per_tick = 1e-9 / self._frequency.amount
        self._sent = kernel.serve(
            self._sent, time, self.stream.times, self.stream.keys, self._own, self.routing, self._available,
            self._moving, self._free, self._queues, self._places, self._pending, self._waiting, self._held,
            self._clock, self.costs.split_time, self.costs.give_time, per_tick, self._starts, self._departures, self._replicas,
            self._passed,
        )  # fmt: skip

    # ---- changes

    def apply(self, decision: Decision) -> Applied:
        """Workers and routing that are changed together move the state once."""
        routing = decision.value(Knob.ROUTING, self.STAGE)
        workers = decision.value(Knob.WORKERS, self.STAGE)
        if routing is None or workers is None:
            return super().apply(decision)
        together = [c for c in decision.changes if (c.knob, c.where) != (Knob.WORKERS, self.STAGE)]
        change = next(c for c in decision.changes if (c.knob, c.where) == (Knob.WORKERS, self.STAGE))
        problem = self._problem(change)
        if problem:  # and then the routing was made for other workers
            others = [c for c in together if c.knob is not Knob.ROUTING]
            lost = [(c, f"it came with {change}") for c in together if c.knob is Knob.ROUTING]
            done = super().apply(decision.with_changes(others))
            return replace(done, refused=(*done.refused, (change, problem), *lost))
        self._workers.plan(change.number, self._now)
        done = super().apply(decision.with_changes(together))
        return Applied((change, *done.changes), done.pause, done.delayed, done.moved, done.refused)

    def _problem(self, change: Change) -> str:
        if change.knob is Knob.ROUTING and change.where == self.STAGE:
            if len(change.sequence) != self.stream.key_count:
                return f"the routing needs an entry for each of the {self.stream.key_count} keys"
            most = int(self._workers.planned)
            return "" if max(change.sequence) < most else f"there are only {most} workers"
        if change.knob is Knob.FREQUENCY and change.where == self.STAGE:
            near = min(abs(f - change.number) for f in self.costs.frequencies)
            return "" if near < 1e-6 else f"{change.number:g} GHz is not one of the frequencies"
        return super()._problem(change)

    def _change(self, change: Change) -> LastChange:
        if change.knob is Knob.ROUTING:
            return self._migrate(np.array(change.sequence, dtype=np.int64))
        super()._change(change)
        if change.knob is Knob.WORKERS:
            return self._migrate(self._balanced(int(change.number)))
        return LastChange()

    def _balanced(self, workers: int) -> Ints:
        return np.array(dealt(self._loads, workers), dtype=np.int64)

    def _migrate(self, routing: Ints) -> LastChange:
        moved = np.flatnonzero(routing != self.routing)
        if not len(moved):
            return LastChange()
        available, free = hand_over(self.routing, routing, self._free, self._now, self.costs.hand_over)
        pause = max(0.0, float(available.max()) - self._now)
        if self.costs.protocol == "R-BLK":
            for replica in np.unique(routing[moved]):
                free[replica] = max(free[replica], float(available[moved][routing[moved] == replica].max()))
        elif self.costs.protocol == "S-BLK":
            self._hold_back(moved, float(available.max()))
        else:
            self._set_aside(moved, available, routing)
        self._free, self.routing = free, routing
        delayed = pause * self.stream.rate * float(self._loads[moved].sum() / self._loads.sum())
        return LastChange(0.0, pause, delayed, len(moved) * self.costs.state_bytes)

    def _hold_back(self, moved: Ints, available: float) -> None:
        """S-BLK: tuples of these keys wait at the splitter; so do those of keys that still wait for an earlier change."""
        before = float(self._clock[kernel.MOVED])
        if before <= self._now and not self._clock[kernel.HELD]:
            self._moving[:] = False
        else:
            available = max(available, before + self.costs.hand_over)
        self._moving[moved] = True
        self._clock[kernel.MOVED] = available

    def _set_aside(self, moved: Ints, available: Floats, routing: Ints) -> None:
        """MP: tuples wait at the new replica; state that is still on its way from an earlier change goes on from there."""
        late = self._available[moved] > self._now
        onward = np.where(late, self._available[moved] + self.costs.hand_over, -inf)
        self._available[moved] = np.maximum(available[moved], onward)
        aside = [self._pending[r, :n].copy() for r, n in enumerate(self._waiting)]
        everyone = np.sort(np.concatenate(aside))
        owners = routing[self.stream.keys[everyone]]
        self._waiting[:] = np.bincount(owners, minlength=len(self._waiting))
        missing = int(self._waiting.max()) - self._pending.shape[1]
        if missing > 0:  # several replicas' buffers come together in one
            self._pending = np.pad(self._pending, ((0, 0), (0, missing)))
        for r in np.flatnonzero(self._waiting):
            self._pending[r, : self._waiting[r]] = everyone[owners == r]
        self._replicas[everyone] = owners

    # ---- observation

    def _observe(self, period: float) -> Observation:
        start, times = self._now - period, self.stream.times
        first = int(np.searchsorted(times, start, side="right")) if self._observed_at else 0
        last = int(np.searchsorted(times, self._now, side="right"))
        rows = self._first_open + np.flatnonzero(self._departures[self._first_open : last] > start)
        done = rows[self._departures[rows] <= self._now] if self._observed_at else self._done_until(last)
        open_rows = self._first_open + np.flatnonzero(self._departures[self._first_open : last] > self._now)
        self._first_open = int(open_rows[0]) if len(open_rows) else last
        responses = self._departures[done] - times[done]
        self.responses.add(responses)
        arrived = times[first:last]
        stage = self._stage(period, first, last, done, responses, arrived, float(len(open_rows)))
        power = watts(self._workers.amount, self._frequency.amount)
        return Observation(self._now, period, (stage,), latency=stage.latency, power=power)

    def _done_until(self, last: int) -> Ints:
        return np.flatnonzero(self._departures[:last] <= self._now)

    def _stage(
        self,
        period: float,
        first: int,
        last: int,
        done: Ints,
        responses: Floats,
        arrived: Floats,
        backlog: float,
    ) -> StageObservation:
        ghz = self._frequency.amount * 1e9
        service = self._own[done] / ghz
        counts = np.bincount(self.stream.keys[first:last], minlength=self.stream.key_count).astype(np.float64)
        if len(arrived):
            self._loads = counts / len(arrived) * self._key_ticks
            self._loads += self._loads.mean() * 1e-3  # a key that did not come may come again
        n = int(self._workers.amount)
        busy = self._busy(done, self._now - period)
        scheduled = np.bincount(self.routing[self.stream.keys[first:last]], minlength=n)[:n]
        processed = np.bincount(self._replicas[done].astype(np.int64), minlength=n)
        rho = utilisation(scheduled.tolist(), processed[:n].tolist(), busy[:n].tolist(), period)
        frequencies = counts / max(len(arrived), 1)
        return StageObservation(
            self.STAGE,
            workers=self._workers.capacity(),
            arrival_rate=len(arrived) / period,
            arrival_scv=scv_of(np.diff(arrived)),
            arrival_dispersion=dispersion_of(arrived, self._now - period, period),
            interarrivals=np.diff(self.stream.times[max(0, last - RECENT) : last]),
            busy_time=float(busy.sum()),
            tuples_in=float(len(done)),
            tuples_out=float(len(done)),
            backlog=backlog,
            latency=latency_of(responses),
            waiting_time=max(0.0, float((responses - service).mean())) if len(done) else nan,
            service_time=float(service.mean()) if len(done) else nan,
            service_scv=scv_of(service),
            utilisation=rho,
            worker_utilisation=tuple(np.minimum(busy[:n] / period, 1.0).tolist()),
            keys=KeyLoad(
                tuple(frequencies.tolist()),
                tuple((self._key_ticks / ghz).tolist()),
                tuple(self.routing.tolist()),
            ),
            frequency=self._frequency.capacity(),
            congestion=self._congestion(period),
            last_change=self.last_change(self.STAGE),
            extra={Metric.LOAD_BALANCE.value: _balance(scheduled)},
        )

    def _congestion(self, period: float) -> float:
        """Share of the period in which the splitter waited for a place in a queue."""
        total = float(self._clock[kernel.BLOCKED])
        blocked, self._blocked = total - self._blocked, total
        return min(1.0, blocked / period)

    def _busy(self, done: Ints, start: float) -> Floats:
        """Seconds each replica worked in the period: whole services, and the parts of those that reach across its ends."""
        spent = self._departures[done] - np.maximum(self._starts[done], start)
        busy: Floats = np.bincount(
            self._replicas[done].astype(np.int64), weights=spent, minlength=len(self._free)
        ).astype(np.float64)
        running = self._first_open + np.flatnonzero(
            (self._starts[self._first_open : self._sent] < self._now)
            & (self._departures[self._first_open : self._sent] > self._now)
        )
        part = self._now - np.maximum(self._starts[running], start)
        busy += np.bincount(self._replicas[running].astype(np.int64), weights=part, minlength=len(self._free))
        return busy


def _balance(scheduled: Ints) -> float:
    mean = scheduled.mean()
    return float(scheduled.max() / mean) if mean > 0 else 1.0


def _unit_lognormal(rng: np.random.Generator, spread: float, count: int) -> Floats:
    """Factors around 1 with the given standard deviation of the logarithm; their expectation is 1."""
    if spread == 0:
        return np.ones(count)
    return np.exp(rng.normal(-0.5 * spread**2, spread, count))
