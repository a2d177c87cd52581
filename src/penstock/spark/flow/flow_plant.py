"""A running flow as a plant: what policies observe of it and how their changes reach it.

A pipeline's utilisation is the share of the micro-batches' working time for which its replicas were busy: the stages
of a batch run one after another, so a pipeline that takes most of a batch is what holds the flow back, as a thread that
is always busy is in Joker. It is scaled by how much of the period the batches filled, so an idle flow has no bottleneck.
"""

import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import isnan, nan
from typing import Any

from penstock.core.batched_plant import BatchedPlant, BatchReport, Effect
from penstock.core.capacity import Capacity, Knob
from penstock.core.decision import Change, Decision
from penstock.core.errors import PenstockError
from penstock.core.metrics import Metric
from penstock.core.observation import (
    KeyLoad,
    LastChange,
    Latency,
    Observation,
    OperatorObservation,
    RegionObservation,
    StageObservation,
)
from penstock.core.plant import Applied
from penstock.dataflow.layout import Layout, Pipeline
from penstock.dataflow.plan import Plan
from penstock.dataflow.regions import Region
from penstock.spark.attach.batch_history import SeenBatch, arrival_times, latency
from penstock.spark.flow.busy_shares import busy_shares, fixed_seconds, levels_of, seconds_in_tasks
from penstock.spark.flow.plan_changes import changes_between, knob_value
from penstock.spark.flow.profile import OperatorProfile, PipelineProfile, Profile
from penstock.spark.flow.program import FlowProgram
from penstock.spark.flow.variability import Variability
from penstock.spark.runtime.program import backlog
from penstock.spark.runtime.worker_room import Room

#: Batches kept for the arrival process of a flow.
HISTORY = 2_000
#: First batches whose overhead says nothing about later ones.
COLD = 2
#: The least share of the time between two batches that rows which are there need to come.
SOONEST = 0.1


#: What a plan calls the knobs that change it.
_PLANNED = {Knob.WORKERS: "replicas", Knob.PIPELINES: "pipelines", Knob.ROUTING: "routing"}


@dataclass(frozen=True)
class _Seen:
    """A profile, and the seconds it stands for."""

    profile: Profile
    period: float
    newest: bool


@dataclass(frozen=True)
class _Waiting:
    """Changes of a region that wait for room, the replicas they want, and those it was given meanwhile."""

    changes: Mapping[str, Any]
    replicas: int
    given: int


class FlowPlant(BatchedPlant[Profile]):
    """Makes an observation of the profile of each micro-batch.

    ``room`` tells how many replicas find a place: more would not help. Where it can grow, replicas that are wanted beyond it
    wait until executors have come. ``trigger`` is the time between two batches in seconds, where there is one. With it, pipelines tell on which level of a batch they work,
    which is what a policy needs to predict the response of a flow (see ``Mead``). A batch counts from the moment Spark
    hands it over to its commit. ``at_once``: all rows are there, so that nobody waits for any between two batches, and the rate of arrivals is that at which they could be taken.
    """

    def __init__(
        self, program: FlowProgram, room: Room | None = None, trigger: float = nan, at_once: bool = False
    ) -> None:
        super().__init__()
        self._program, self._room, self._trigger, self._at_once = program, room or Room(), trigger, at_once
        self._waiting: dict[str, _Waiting] = {}
        self._batches: deque[SeenBatch] = deque(maxlen=HISTORY)
        self._varied: dict[str, Variability] = {}
        self._overhead = nan
        #: Rows a second that reach the source; when the last batch was committed, and what it left there.
        self._rate, self._committed = nan, (nan, nan)
        self._start = time.time()
        self._before: float | None = None
        self._changed: tuple[float, LastChange] | None = None

    def report(self, profile: Profile, newest: bool) -> BatchReport:
        """One batch."""
        self._remember(profile)
        now = profile.started + profile.seconds
        begin = profile.started if self._before is None else self._before
        self._before = now
        self._room.refresh()
        seen = _Seen(profile, max(now - begin, 1e-6), newest)
        layout = self._program.definition.wiring(profile.plan).layout
        levels = levels_of(layout)
        observation = Observation(
            now - self._start,
            seen.period,
            tuple(self._stage(p, seen, levels) for p in layout.pipelines),
            tuple(self._region(r, seen, layout) for r in self._program.definition.regions),
            latency=self._latency(),
            slots=self._room.slots,
            extra={
                "batches": 1.0,
                "busy": profile.seconds / seen.period,
                **self._room.figures,
                **self._power(now),
            },
        )
        return BatchReport(observation, profile.plan == self._program.wanted, _effect(profile))

    def _latency(self) -> Latency:
        """Delays of the rows of the last batch."""
        before = self._batches[-2] if len(self._batches) > 1 else None
        return latency([self._batches[-1]], self._rate, self._trigger, before)

    def _power(self, now: float) -> dict[str, float]:
        """Watts drawn since the batch before, where the machine counts them."""
        power = self._program.power
        watts = None if power is None else power.watts(now)
        return {} if watts is None else {Metric.POWER.value: watts}

    def _remember(self, profile: Profile) -> None:
        gap = profile.started - self._batches[-1].start if self._batches else nan
        self._rate = self._arrivals(profile, gap)
        limited = profile.limited and not self._at_once  # of rows that are all there, none came late
        held = max(0.0, profile.left - self._rate * profile.seconds) if limited else nan
        self._batches.append(
            SeenBatch(profile.batch, profile.started, profile.seconds, profile.rows, gap, held)
        )
        fresh = max(0.0, profile.seconds - seconds_in_tasks(profile, self._program))
        # What the first batches cost is loading and compiling; the first warm one takes their place.
        cold = len(self._batches) <= COLD + 1
        self._overhead = fresh if cold else 0.7 * self._overhead + 0.3 * fresh
        if profile.change is not None:
            cost = LastChange(0.0, profile.change.pause, float(profile.change.delayed), profile.change.bytes)
            self._changed = (profile.started, cost)

    def _arrivals(self, profile: Profile, gap: float) -> float:
        """Rows a second that reached the source: those taken, and by how much more wait there than at the commit before.

        Where the source does not tell what waits, those taken since the batch before was handed over. Where all rows are
        there, those that would come if the pipelines took no time: what the flow takes says nothing of what it could have.
        """
        if self._at_once:
            return self._offered(profile, gap)
        commit, (before, waiting) = profile.started + profile.seconds, self._committed
        self._committed = commit, profile.left
        grown, seconds = profile.left - waiting, commit - before
        if isnan(grown):
            grown, seconds = 0.0, profile.seconds if isnan(gap) else gap
        return max(0.0, profile.rows + grown) / max(seconds, 1e-3)

    def _offered(self, profile: Profile, gap: float) -> float:
        between = 0.0 if isnan(gap) else max(0.0, gap - self._batches[-1].duration)
        seconds = fixed_seconds(profile, self._program) + profile.source_seconds + between
        return profile.rows / max(seconds, SOONEST * (profile.seconds + between), 1e-3)

    def apply(self, decision: Decision) -> Applied:
        """Ask for the changes from the next batch on; those of a region are made together or not at all."""
        made: list[Change] = []
        refused: list[tuple[Change, str]] = []
        regions: dict[str, list[Change]] = {}
        for change in decision.changes:
            if change.knob is Knob.FREQUENCY and self._program.power is not None:
                self._program.power.set(change.number)
                made.append(change)
            elif change.knob in _PLANNED or change.knob is Knob.CPU_SHARE:
                regions.setdefault(change.where.split("/")[0], []).append(change)
            else:
                refused.append((change, f"A flow has replicas, pipelines and routing but no {change.knob}."))
        for region, changes in regions.items():
            try:
                self._ask(region, changes)
                made += changes
            except PenstockError as error:
                refused += [(change, str(error)) for change in changes]
        return Applied(tuple(made), refused=tuple(refused))

    def _ask(self, region: str, changes: Sequence[Change]) -> None:
        """The pipelines of a region have one share and one number of replicas: the largest that is asked for."""
        shares = [c.number for c in changes if c.knob is Knob.CPU_SHARE]
        counts = [int(c.number) for c in changes if c.knob is Knob.WORKERS]
        wanted: dict[str, dict[str, object]] = {"replicas": {region: max(counts)}} if counts else {}
        for change in changes:
            if change.knob in (Knob.PIPELINES, Knob.ROUTING):
                wanted[_PLANNED[change.knob]] = {region: change.sequence}
        if shares:
            self._program.limit({region: max(shares)})
        if wanted:
            self._waiting.pop(region, None)
            self._room.want(max(self._program.workers_for(**wanted), self._most_wanted()))
            self._take_up(region, wanted, max(counts, default=0))

    def maintain(self) -> None:
        """Ask for executors that are too few, take up the replicas that there is room for, give back what is not needed."""
        self._room.want(self._most_wanted())
        for region, waiting in list(self._waiting.items()):
            del self._waiting[region]
            if self._wanted_replicas(region) == waiting.given:  # nobody else changed them meanwhile
                self._take_up(region, waiting.changes, waiting.replicas)

    def _most_wanted(self) -> int:
        waiting = [self._program.workers_for(**w.changes) for w in self._waiting.values()]
        return max(self._program.workers_wanted, *waiting, 1)

    def _take_up(self, region: str, changes: Mapping[str, Any], replicas: int) -> None:
        """Make changes that there is room for; of a wish for replicas alone, as much of it as there is room for."""
        program, room = self._program, self._room
        needed = program.workers_for(**changes)
        if needed <= max(room.holds, program.workers_wanted):
            program.change(**changes)
            return
        has = self._wanted_replicas(region)
        if set(changes) == {"replicas"}:
            fits = [n for n in range(has + 1, replicas) if self._workers(region, n) <= room.holds]
            has = max(fits, default=has)
            if fits:
                program.change(replicas={region: has})
        if needed <= room.limit:  # executors may still come
            self._waiting[region] = _Waiting(changes, replicas, has)

    def _workers(self, region: str, replicas: int) -> int:
        return self._program.workers_for(replicas={region: replicas})

    def _wanted_replicas(self, region: str) -> int:
        return self._program.wanted.regions[region].replicas

    def _replicas(self, region: Region, seen: _Seen) -> Capacity:
        room, wanted = self._room, self._wanted_replicas(region.name)
        waiting = self._waiting.get(region.name)
        planned = wanted if waiting is None else max(wanted, waiting.replicas)
        observed = seen.profile.plan.regions[region.name].replicas
        if not region.replicable:
            return Capacity(planned, planned, observed, 1.0, "its operators, which cannot be replicated")
        requested = min(planned, max(wanted, room.requested))
        return Capacity(planned, requested, observed, room.limit, room.limited_by)

    def _stage(self, pipeline: Pipeline, seen: _Seen, levels: Mapping[str, int]) -> StageObservation:
        profile, region = seen.profile, self._program.definition.regions.named(pipeline.region)
        own = profile.pipelines.get(pipeline.name)
        busy = () if own is None else own.seconds
        shares = busy_shares(busy, pipeline, profile, self._span(seen), self._program)
        taken = float(sum(own.rows)) if own is not None else 0.0
        cpu = sum(own.cpu) if own is not None else 0.0
        last = profile.operators.get(pipeline.operators[-1])
        share = self._cpu(region)
        # On one worker, which a share below 1 slows down.
        service = cpu / taken / (1.0 if share is None else share.observed) if taken else nan
        varied = self._varied.setdefault(pipeline.name, Variability())
        varied.add(taken, self._batches[-1].gap, cpu)
        waited = _waited(own)
        timed = self._trigger > 0
        placed = timed and pipeline.name in levels
        first = seen.newest and timed and pipeline.number == 0
        arrived = arrival_times(list(self._batches), self._trigger) if first else None
        return StageObservation(
            pipeline.name,
            self._replicas(region, seen),
            region=pipeline.region,
            # Regions with CPU shares of their own are processes apart.
            pool=f"segment {pipeline.segment}" if self._program.cpu is None else "",
            downstream=self._downstream(pipeline, profile.plan),
            arrival_rate=self._rate * taken / profile.rows if profile.rows else 0.0,
            busy_time=sum(busy),
            tuples_in=taken,
            tuples_out=float(last.rows_out) if last is not None else 0.0,
            # Not what waits for other tuples of its key by a firing rule: no worker could take that.
            backlog=self._coming(profile, taken),
            interarrivals=None if arrived is None else arrived.gaps,
            interarrival_rows=1.0 if arrived is None else arrived.rows,
            arrival_scv=varied.arrival_scv,
            service_scv=varied.service_scv,
            waiting_time=waited,
            latency=Latency(mean=waited + service),
            service_time=service,
            utilisation=max(shares, default=nan),
            congestion=self._congestion(own, profile),
            worker_utilisation=tuple(min(1.0, s) for s in shares),
            operators=tuple(self._operator(n, profile, cpu) for n in pipeline.operators),
            keys=_keys(region, profile),
            cpu_share=share,
            frequency=None if self._program.power is None else self._program.power.capacity,
            trigger=self._trigger,
            # The time of pipelines without tasks of their own is part of the overhead.
            overhead_time=self._overhead if timed else nan,
            level=levels[pipeline.name] if placed else nan,
            visits=taken / profile.rows if placed and profile.rows else 1.0,
            last_change=self._last_change(profile),
        )

    def _span(self, seen: _Seen) -> float:
        """Seconds that there were for a batch: what passes until the next one begins is no time to spare where that is late."""
        profile, period = seen.profile, seen.period
        if self._at_once:
            return profile.seconds
        due = max(self._trigger, profile.seconds) if self._trigger > 0 else profile.seconds
        # After more than two triggers rows were lacking: that time was to spare.
        return due if self._trigger > 0 and period <= 2 * due else max(period, profile.seconds)

    def _congestion(self, own: PipelineProfile | None, profile: Profile) -> float:
        """Share of a batch for which the next one was due: told by the costliest pipeline, which holds the input back."""
        if own is None or not self._trigger > 0 or not profile.seconds > 0:
            return nan
        costliest = max((max(p.seconds, default=0.0) for p in profile.pipelines.values()), default=0.0)
        late = max(0.0, 1.0 - self._trigger / profile.seconds)
        return late if max(own.seconds, default=0.0) >= costliest else 0.0

    def _coming(self, profile: Profile, taken: float) -> float:
        """Rows that a pipeline will get from those that wait at the source beyond one trigger."""
        if not profile.rows or not self._trigger > 0:
            return 0.0
        return backlog(profile.left, self._rate, profile.seconds, self._trigger) * taken / profile.rows

    def _cpu(self, region: Region) -> Capacity | None:
        """The share of a core that each replica may use, where the flow has control groups and the region tasks."""
        cpu = self._program.cpu
        if cpu is None or region.kind == "stateless":
            return None
        share = cpu.share(region.name)
        return Capacity.steady(1.0 if share is None else share)

    def _operator(self, name: str, profile: Profile, cpu: float) -> OperatorObservation:
        own = profile.operators.get(name, OperatorProfile())
        return OperatorObservation(
            name,
            cost=min(1.0, own.cpu / cpu) if cpu > 0 else nan,
            service_time=own.cpu / own.rows_in if own.rows_in else nan,
            selectivity=own.rows_out / own.rows_in if own.rows_in else 1.0,
            state=self._program.definition.graph.nodes[name].spec.kind,
        )

    def _region(self, region: Region, seen: _Seen, layout: Layout) -> RegionObservation:
        profile = seen.profile
        first = profile.operators.get(region.operators[0], OperatorProfile())
        last = [p for p in layout.pipelines if p.region == region.name][-1]
        return RegionObservation(
            region.name,
            self._replicas(region, seen),
            region.operators,
            profile.plan.regions[region.name].pipelines,
            region.kind,
            throughput=first.rows_in / profile.seconds if profile.seconds > 0 else nan,
            downstream=tuple(d.split("/")[0] for d in self._downstream(last, profile.plan)),
            keys=_keys(region, profile),
            last_change=self._last_change(profile),
        )

    def _downstream(self, pipeline: Pipeline, plan: Plan) -> tuple[str, ...]:
        graph = self._program.definition.graph
        layout = self._program.definition.wiring(plan).layout
        found = [layout.of(reader).name for _, reader, _ in graph.readers(pipeline.operators[-1])]
        return tuple(dict.fromkeys(n for n in found if n != pipeline.name))

    def _last_change(self, profile: Profile) -> LastChange:
        if self._changed is None:
            return LastChange()
        at, cost = self._changed
        return replace(cost, age=max(0.0, profile.started + profile.seconds - at))


def _waited(own: PipelineProfile | None) -> float:
    """Seconds that a tuple waits in a replica for those of its batch before it: half of the replica's time."""
    if own is None or not sum(own.rows):
        return nan
    return (
        sum(rows * seconds for rows, seconds in zip(own.rows, own.seconds, strict=True)) / 2 / sum(own.rows)
    )


def _keys(region: Region, profile: Profile) -> KeyLoad | None:
    counts = profile.groups.get(region.name)
    if not region.scales or counts is None:
        return None
    total = counts.astype(float)
    routing = profile.plan.regions[region.name].routing
    costs = tuple(profile.costs[region.name].tolist()) if region.name in profile.costs else ()
    return KeyLoad(tuple((total / max(total.sum(), 1.0)).tolist()), costs, routing)


def _effect(profile: Profile) -> Effect | None:
    """The change of plan that a batch brought."""
    change = profile.change
    if change is None:
        return None
    made = changes_between(change.before, change.after)
    before = {c: knob_value(change.before, c) for c in made}
    return Effect(Applied(tuple(made), change.pause, float(change.delayed), change.bytes), before)
