"""Streaming queries on Spark as a plant of the control loop: observed from outside, changed by executors and CPU shares."""

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from math import ceil, inf, isnan, nan

from pyspark.sql import SparkSession

from penstock.core.capacity import Capacity, Knob
from penstock.core.decision import Change, Decision
from penstock.core.metrics import Metric
from penstock.core.observation import LastChange, Observation, StageObservation
from penstock.core.plant import Applied
from penstock.spark.actuators.executor_status import RegisteredExecutor, registered
from penstock.spark.actuators.executors import Executors
from penstock.spark.actuators.local_executors import LocalExecutors
from penstock.spark.actuators.power import MachinePower
from penstock.spark.attach.batch_history import SeenBatch, arrival_rate, arrival_times, backlog, latency
from penstock.spark.attach.estimates import WorkEstimate, WorkMeter, warm_up
from penstock.spark.attach.executor_groups import ExecutorGroups
from penstock.spark.attach.query_listener import QueryWatch, Watcher

#: Batches kept for the arrival process of a query.
HISTORY = 2_000


@dataclass
class _Memory:
    """What the plant remembers of one query between two observations."""

    meter: WorkMeter
    history: deque[SeenBatch]
    before: SeenBatch | None = None
    rate: float = nan
    work: WorkEstimate = field(default_factory=WorkEstimate)
    cold: int = (
        2  # batches still to be left out of the estimates: executors, or the query itself, just started
    )
    restarts: int = 0


class AttachedPlant:
    """One stage for each watched query; all share the application's executors.

    Parameters
    ----------
    session
        The session whose queries are watched.
    watcher
        Brings the micro-batches.
    executors
        The actuator; None where executors are not to be changed, then they are only observed.
    groups
        CPU quotas of the executors; None for none.
    power
        Frequencies and energy of this machine; None where the policy does not count power. They are told and set as long
        as all executors run on it.
    warn
        Told of what went wrong without stopping anything, such as executors that never arrived.
    thinking
        CPU seconds that the policy's own process has taken so far; None where it has none.
    """

    def __init__(
        self,
        session: SparkSession,
        watcher: Watcher,
        executors: Executors | None = None,
        groups: ExecutorGroups | None = None,
        power: MachinePower | None = None,
        warn: Callable[[str], None] = lambda text: None,
        clock: Callable[[], float] = time.time,
        partition_limit: bool = True,
        thinking: Callable[[], float] | None = None,
    ) -> None:
        self._partition_limit = partition_limit
        self._thinking, self._thought = thinking, 0.0
        self._session, self._watcher = session, watcher
        self._executors, self._groups, self._power = executors, groups, power
        self._local = LocalExecutors(str(session.sparkContext.applicationId)) if power is not None else None
        self._warn, self._clock = warn, clock
        self._start = self._last = clock()
        self._memory: dict[str, _Memory] = {}
        self._queries: list[QueryWatch] = []  # those last observed
        self._busy: dict[str, float] = {}
        self._since: dict[str, float] = {}
        self._lock = threading.Lock()
        self._changed_at = -inf
        self._arrived_after = 0.0
        self._registered = 0  # executors that hold cores: warm, cold and leaving ones

    def sample(self) -> None:
        """Read the executors' task time just after a batch, while no task runs: it then belongs to that batch.

        Called by a thread of its own; reading it at the steps of the loop would split batches at any point.
        """
        seen = [e for e in registered(self._session) if e.id != "driver"]
        with self._lock:
            # Warming tasks, and the first of the query on an executor that is cold, tell nothing of what its rows cost.
            cold = self._executors.cold if self._executors is not None else set()
            fresh = {id_: seconds for id_, seconds in self._grown(seen).items() if id_ not in cold}
            for id_, seconds in fresh.items():
                self._since[id_] = self._since.get(id_, 0.0) + seconds
            queries = list(self._watcher.queries.values())
            working = sum(q.unread() for q in queries)
            if working > 0 and fresh:
                for query in queries:
                    query.assign(
                        sum(fresh.values()) / working, float(sum(e.cores for e in seen if e.id not in cold))
                    )

    def maintain(self) -> None:
        """Ask for executors that are planned, release those that are not, and put new ones into their CPU groups."""
        now = self._clock()
        actuator = self._executors
        if actuator is not None:
            answer = actuator.advance(now)
            if answer.startswith("gave up"):
                self._warn(answer[0].upper() + answer[1:] + ".")
            if actuator.observed < actuator.planned:
                self._arrived_after = now - self._changed_at
        if self._groups is not None:
            self._groups.update(self._look()[0])

    def observe(self) -> Observation:
        """What happened since the last call."""
        now = self._clock()
        period, self._last = max(1e-3, now - self._last), now
        seen, capacity = self._look()
        self._registered = len(seen) + (self._executors.leaving if self._executors is not None else 0)
        # An executor that is still cold is no capacity yet.
        warm = capacity.observed / len(seen) if seen else 0.0
        slots = warm * sum(e.cores for e in seen) or 1.0
        self._watcher.resolve_triggers()
        with self._lock:
            busy, self._since = self._since, {}
        known = self._watcher.queries
        self._memory = {id_: memory for id_, memory in self._memory.items() if id_ in known}
        # Where none runs, those that ran last are told of until the next one begins.
        self._queries = [q for q in known.values() if q.shown] or self._queries
        capacity = self._within_partitions(capacity, slots)
        frequency = self._frequency(seen)
        stages = tuple(
            self._stage(query, now, period, capacity, slots, busy, frequency) for query in self._queries
        )
        return Observation(
            time=now - self._start,
            period=period,
            stages=stages,
            executors=capacity,
            slots=slots,
            power=self._watts(now),
            extra={"registered": float(self._registered), **self._policy_cores(period)},
        )

    def _policy_cores(self, period: float) -> dict[str, float]:
        """Cores that the policy's own process has taken since the last observation."""
        if self._thinking is None:
            return {}
        before, self._thought = self._thought, self._thinking()
        return {Metric.THINKING.value: max(0.0, self._thought - before) / period}

    def apply(self, decision: Decision) -> Applied:
        """Executors (also asked for as workers of a query), CPU shares and frequencies; everything else is refused."""
        now, made, refused = self._clock(), [], []
        wanted = [c for c in decision.changes if c.knob in (Knob.EXECUTORS, Knob.WORKERS)]
        for change in decision.changes:
            why = self._refusal(change)
            if why:
                refused.append((change, why))
            else:
                made.append(change)
        counts = [int(c.number) for c in wanted if c in made]
        if counts and self._executors is not None:
            self._executors.set_target(max(counts), now)  # queries share the executors: the neediest decides
        for change in made:
            if change.knob is Knob.CPU_SHARE and self._groups is not None:
                self._groups.set_share(change.number, self._executors.seen if self._executors else [])
            elif change.knob is Knob.FREQUENCY and self._power is not None:
                self._power.set(change.number)
            else:
                continue
            for memory in self._memory.values():
                memory.meter.forget()  # a row now takes another time
        if made:
            self._changed_at, self._arrived_after = now, 0.0
        return Applied(tuple(made), refused=tuple(refused))

    def _refusal(self, change: Change) -> str:
        if change.where and not any(q.name == change.where for q in self._watcher.queries.values()):
            return f"there is no query '{change.where}' here"
        if change.knob in (Knob.EXECUTORS, Knob.WORKERS):
            if self._executors is None:
                return "executors cannot be changed here"
            return "" if change.number >= 1 else "an application needs at least one executor"
        if change.knob is Knob.CPU_SHARE:
            return "" if self._groups is not None else "no CPU quotas can be set here"
        if change.knob is Knob.FREQUENCY and self._power is not None:
            if away := self._away(self._look()[0]):
                return f"executors run on {', '.join(away)}, whose frequency is not set from here"
            low, high = self._power.limits
            return "" if low <= change.number <= high else f"the cores can do {low:g} to {high:g} GHz"
        return f"an attached query has no {change.knob} to set"

    def _away(self, seen: list[RegisteredExecutor]) -> tuple[str, ...]:
        """Other hosts that executors run on, where that matters: their frequency is not set from here."""
        return () if self._local is None else self._local.elsewhere(seen)

    def _frequency(self, seen: list[RegisteredExecutor]) -> Capacity | None:
        return None if self._power is None or self._away(seen) else self._power.capacity

    def _watts(self, now: float) -> float:
        watts = None if self._power is None else self._power.watts(now)
        return nan if watts is None else watts

    def _look(self) -> tuple[list[RegisteredExecutor], Capacity]:
        if self._executors is None:
            everyone = registered(self._session)
            seen = [e for e in everyone if e.id != "driver"] or everyone
            return seen, Capacity.steady(len(seen))
        actuator = self._executors
        actuator.refresh()
        return actuator.seen, Capacity(
            actuator.planned, actuator.requested, actuator.observed, actuator.limit
        )

    def _within_partitions(self, capacity: Capacity, slots: float) -> Capacity:
        """More slots than the topics have partitions would have nothing to do."""
        memories = [m for q in self._queries if (m := self._memory.get(q.id)) is not None]
        seen = [m.before.partitions for m in memories if m.before is not None]
        if not self._partition_limit or not seen or any(map(isnan, seen)) or capacity.observed < 1:
            return capacity
        most = max(1, ceil(sum(seen) * capacity.observed / slots))
        if most >= capacity.limit:
            return capacity
        return replace(capacity, limit=most, limited_by=f"the {sum(seen):.0f} partitions of its topics")

    def _grown(self, seen: list[RegisteredExecutor]) -> dict[str, float]:
        """Task time since the last reading, by executor."""
        before, self._busy = self._busy, {e.id: e.busy for e in seen}
        return {e.id: max(0.0, e.busy - before.get(e.id, 0.0)) for e in seen}

    def _stage(
        self,
        query: QueryWatch,
        now: float,
        period: float,
        capacity: Capacity,
        slots: float,
        busy: dict[str, float],
        frequency: Capacity | None,
    ) -> StageObservation:
        memory = self._memory.setdefault(query.id, _Memory(WorkMeter(), deque(maxlen=HISTORY)))
        before, batches = memory.before, [_with_work(b, slots) for b in query.take()]
        slower = warm_up([*list(memory.history)[-2:], *batches], memory.work)
        memory.work = self._measure(query, memory, batches, capacity)
        memory.rate = self._rate(query, memory, batches, now)
        memory.history.extend(batches)
        memory.before = batches[-1] if batches else memory.before
        rows = float(sum(b.rows for b in batches))
        # Where batches follow each other at once, rows that end a silence are taken as they come; some sources look once a second.
        at_most = max(query.trigger, 1.0)
        seen = arrival_times(list(memory.history), at_most)
        times = seen.gaps
        last = memory.before
        load = memory.work.utilisation(memory.rate, slots, query.trigger)
        return StageObservation(
            name=query.name,
            workers=capacity,
            arrival_rate=memory.rate,
            arrival_scv=float(times.var() / times.mean() ** 2) if len(times) > 1 else nan,
            interarrivals=times if len(times) else None,
            interarrival_rows=seen.rows,
            busy_time=sum(b.busy for b in batches),
            tuples_in=rows,
            tuples_out=rows,
            backlog=self._backlog(query, memory, slots, now),
            latency=latency(batches, memory.rate, at_most, before),
            service_time=memory.work.service,
            utilisation=load,
            worker_utilisation=tuple(min(1.0, b / period) for b in busy.values()),
            cpu_share=Capacity(self._groups.share, self._groups.share, self._groups.observed())
            if self._groups is not None
            else None,
            frequency=frequency,
            trigger=query.trigger,
            congestion=max(0.0, 1 - 1 / load) if load > 0 else load,
            overhead_time=memory.work.overhead(slots),
            fixed_time=memory.work.fixed,
            batch_duration=last.duration if last is not None else nan,
            last_change=LastChange(now - self._changed_at, self._arrived_after),
            extra={
                "batches": float(len(batches)),
                "batch_rows": float(batches[-1].rows) if batches else nan,
                "warm_up": slower,
                "state_size": last.state_bytes if last is not None else nan,
            },
        )

    def _measure(
        self,
        query: QueryWatch,
        memory: _Memory,
        batches: list[SeenBatch],
        capacity: Capacity,
    ) -> WorkEstimate:
        """Estimates take no part of a time in which executors were still starting."""
        if capacity.arriving or capacity.observed == 0 or query.restarts > memory.restarts:
            memory.cold, memory.restarts = 2, query.restarts
        if memory.cold:
            memory.cold = max(0, memory.cold - len(batches)) if not capacity.arriving else 2
            return memory.work
        return memory.meter.add(batches)

    def _rate(self, query: QueryWatch, memory: _Memory, batches: list[SeenBatch], now: float) -> float:
        if batches:
            return arrival_rate(batches, memory.before)
        if memory.before is None or isnan(memory.rate):
            return memory.rate
        # No batch ended: either one runs long, or nothing came since.
        quiet = now - memory.before.end > 2 * max(query.trigger, 1.0)
        return 0.0 if quiet and not self._in_batch(query) else memory.rate

    def _backlog(self, query: QueryWatch, memory: _Memory, slots: float, now: float) -> float:
        """What waits; unknown until a run has told of its first batch, whatever the run before left."""
        if memory.before is None or not query.begun:
            return nan
        settled = memory.work.settled(memory.rate, slots)
        return backlog(memory.before, memory.rate, query.trigger, now, settled)

    def _in_batch(self, query: QueryWatch) -> bool:
        try:
            known = self._session.streams.get(query.id)
            return known is not None and bool(known.status["isTriggerActive"])
        except Exception:  # noqa: BLE001 - a query that just ended has no status
            return False


def _with_work(batch: SeenBatch, slots: float) -> SeenBatch:
    """In local mode Spark does not tell task time: the jobs are taken to have kept all slots busy."""
    return replace(batch, busy=batch.working * slots, slots=slots) if isnan(batch.busy) else batch
