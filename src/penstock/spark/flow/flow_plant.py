"""A running flow as a plant: what policies observe of it and how their changes reach it.

A pipeline's utilisation is the share of the micro-batches' working time for which its replicas were busy: the stages
of a batch run one after another, so a pipeline that takes most of a batch is what holds the flow back, as a thread that
is always busy is in Joker. It is scaled by how much of the period the batches filled, so an idle flow has no bottleneck.
"""

import time
from collections import deque
from collections.abc import Mapping, Sequence
from math import nan

import numpy as np

from penstock.core.capacity import Capacity, Knob
from penstock.core.decision import Change, Decision
from penstock.core.errors import PenstockError
from penstock.core.metrics import Metric
from penstock.core.observation import (
    KeyLoad,
    LastChange,
    Observation,
    OperatorObservation,
    RegionObservation,
    StageObservation,
)
from penstock.core.plant import Applied
from penstock.dataflow.layout import Layout, Pipeline
from penstock.dataflow.regions import Region
from penstock.spark.attach.batch_history import SeenBatch, interarrivals, latency
from penstock.spark.flow.profile import Profile
from penstock.spark.flow.program import FlowProgram

#: Batches kept for the arrival process of a flow.
HISTORY = 2_000
#: First batches whose overhead says nothing about later ones.
COLD = 2


class FlowPlant:
    """Gathers the profiles of micro-batches between two observations.

    ``trigger`` is the time between two batches in seconds, where there is one. With it, pipelines tell on which level of a
    batch they work, which is what a policy needs to predict the response of a flow (see ``Mead``). A batch counts from
    the moment Spark hands it over to its commit.
    """

    def __init__(
        self, program: FlowProgram, limit: int, trigger: float = nan, clock: float | None = None
    ) -> None:
        self._program = program
        self._trigger = trigger
        self._batches: deque[SeenBatch] = deque(maxlen=HISTORY)
        self._overhead = nan
        self._limit = limit
        self._profiles: list[Profile] = []
        self._start = time.time() if clock is None else clock
        self._from = self._start
        self._changed: tuple[float, LastChange] | None = None

    def take(self, profile: Profile) -> None:
        """Add the figures of one batch."""
        self._profiles.append(profile)
        gap = profile.started - self._batches[-1].start if self._batches else nan
        self._batches.append(SeenBatch(profile.batch, profile.started, profile.seconds, profile.rows, gap))
        fresh = max(0.0, profile.seconds - _in_tasks(profile, self._program))
        # What the first batches cost is loading and compiling; the first warm one takes their place.
        cold = len(self._batches) <= COLD + 1
        self._overhead = fresh if cold else 0.7 * self._overhead + 0.3 * fresh
        if profile.change is not None:
            cost = LastChange(0.0, profile.change.pause, float(profile.change.delayed), profile.change.bytes)
            self._changed = (profile.started, cost)

    def observe(self) -> Observation:
        """What happened since the last call."""
        profiles, self._profiles = self._profiles, []
        now = profiles[-1].started + profiles[-1].seconds if profiles else time.time()
        period = max(now - self._from, 1e-6)
        self._from = now
        # Figures of batches under an older plan would blur those of the present one.
        plan = self._program.plan
        current = [p for p in profiles if p.plan == plan] or profiles[-1:]
        layout = self._program.definition.wiring(plan).layout
        busy = sum(p.seconds for p in profiles) / period
        levels = _levels(layout)
        stages = tuple(self._stage(p, current, min(1.0, busy), levels) for p in layout.pipelines)
        recent = list(self._batches)[-len(current) :] if current else []
        regions = tuple(self._region(r, current) for r in self._program.definition.regions)
        extra = {"batches": float(len(profiles)), "busy": busy}
        return Observation(now - self._start, period, stages, regions, latency=latency(recent), extra=extra)

    def apply(self, decision: Decision) -> Applied:
        """Ask for the changes from the next batch on."""
        made: list[Change] = []
        refused: list[tuple[Change, str]] = []
        # The pipelines of a region have one share: the largest that is asked for.
        shares: dict[str, float] = {}
        for change in decision.changes:
            if change.knob is Knob.CPU_SHARE:
                region = change.where.split("/")[0]
                shares[region] = max(shares.get(region, 0.0), change.number)
        for change in decision.changes:
            try:
                if change.knob is Knob.CPU_SHARE:
                    region = change.where.split("/")[0]
                    self._program.limit({region: shares[region]})
                else:
                    self._program.change(**self._wanted(change))
                made.append(change)
            except PenstockError as error:
                refused.append((change, str(error)))
        return Applied(tuple(made), refused=tuple(refused))

    def _wanted(self, change: Change) -> dict[str, dict[str, object]]:
        region = change.where.split("/")[0]
        if change.knob is Knob.WORKERS:
            return {"replicas": {region: int(change.number)}}
        if change.knob is Knob.PIPELINES:
            return {"pipelines": {region: change.sequence}}
        if change.knob is Knob.ROUTING:
            return {"routing": {region: change.sequence}}
        raise PenstockError(f"A flow has replicas, pipelines and routing but no {change.knob}.")

    def _replicas(self, region: Region) -> Capacity:
        wanted = self._program.wanted.regions[region.name].replicas
        limit = float(self._limit) if region.scales else 1.0
        return Capacity(wanted, wanted, self._program.plan.regions[region.name].replicas, limit)

    def _stage(
        self, pipeline: Pipeline, profiles: Sequence[Profile], busy: float, levels: Mapping[str, int]
    ) -> StageObservation:
        region = self._program.definition.regions.named(pipeline.region)
        own = [p.pipelines[pipeline.name] for p in profiles if pipeline.name in p.pipelines]
        span = sum(p.seconds for p in profiles)
        work = sum(_working(p, pipeline.segment, self._program) for p in profiles)
        shares = [
            busy * sum(o.seconds[i] for o in own if i < len(o.seconds)) / work if work > 0 else nan
            for i in range(pipeline.replicas)
        ]
        taken = float(sum(sum(o.rows) for o in own))
        given = float(
            sum(
                p.operators[pipeline.operators[-1]].rows_out
                for p in profiles
                if pipeline.operators[-1] in p.operators
            )
        )
        cpu = sum(sum(o.cpu) for o in own)
        share = self._cpu(region)
        first = pipeline.number == 0 and self._trigger > 0
        return StageObservation(
            pipeline.name,
            self._replicas(region),
            region=pipeline.region,
            downstream=self._downstream(pipeline),
            arrival_rate=taken / span if span > 0 else nan,
            busy_time=sum(sum(o.seconds) for o in own),
            tuples_in=taken,
            tuples_out=given,
            backlog=float(
                sum(
                    p.operators[n].waiting
                    for p in profiles[-1:]
                    for n in pipeline.operators
                    if n in p.operators
                )
            ),
            interarrivals=interarrivals(list(self._batches)) if first else None,
            # On one worker, which a share below 1 slows down.
            service_time=cpu / taken / (1.0 if share is None else share.observed) if taken else nan,
            utilisation=max(shares, default=nan),
            worker_utilisation=tuple(min(1.0, s) for s in shares),
            operators=tuple(self._operator(n, profiles, cpu) for n in pipeline.operators),
            keys=self._keys(region, profiles),
            cpu_share=share,
            last_change=self._last(profiles),
            extra=self._place(pipeline, profiles, taken, levels),
        )

    def _place(
        self, pipeline: Pipeline, profiles: Sequence[Profile], taken: float, levels: Mapping[str, int]
    ) -> dict[str, float]:
        """Where a pipeline with tasks of its own stands in a batch; the others' time is part of the overhead."""
        rows = sum(p.rows for p in profiles)
        if not self._trigger > 0:
            return {}
        timing = {"trigger": self._trigger, Metric.OVERHEAD_TIME.value: self._overhead}
        if pipeline.name not in levels:
            return timing
        return timing | {"level": levels[pipeline.name], "visits": taken / rows if rows else 1.0}

    def _cpu(self, region: Region) -> Capacity | None:
        """The share of a core that each replica may use, where the flow has control groups and the region tasks."""
        cpu = self._program.cpu
        if cpu is None or region.kind == "stateless":
            return None
        share = cpu.share(region.name)
        return Capacity.steady(1.0 if share is None else share)

    def _operator(self, name: str, profiles: Sequence[Profile], cpu: float) -> OperatorObservation:
        own = [p.operators[name] for p in profiles if name in p.operators]
        used, rows = sum(o.cpu for o in own), sum(o.rows_in for o in own)
        spec = self._program.definition.graph.nodes[name].spec
        out = sum(o.rows_out for o in own)
        return OperatorObservation(
            name,
            cost=min(1.0, used / cpu) if cpu > 0 else nan,
            service_time=used / rows if rows else nan,
            selectivity=out / rows if rows else 1.0,
            state=spec.kind,
        )

    def _region(self, region: Region, profiles: Sequence[Profile]) -> RegionObservation:
        span = sum(p.seconds for p in profiles)
        rows = sum(
            p.operators[region.operators[0]].rows_in for p in profiles if region.operators[0] in p.operators
        )
        layout = self._program.definition.wiring(self._program.plan).layout
        last = [p for p in layout.pipelines if p.region == region.name][-1]
        return RegionObservation(
            region.name,
            self._replicas(region),
            region.operators,
            self._program.plan.regions[region.name].pipelines,
            region.kind,
            throughput=rows / span if span > 0 else nan,
            downstream=tuple(d.split("/")[0] for d in self._downstream(last)),
            keys=self._keys(region, profiles),
            last_change=self._last(profiles),
        )

    def _keys(self, region: Region, profiles: Sequence[Profile]) -> KeyLoad | None:
        counts = [p.groups[region.name] for p in profiles if region.name in p.groups]
        if not region.scales or not counts:
            return None
        total = np.sum(counts, axis=0).astype(float)
        routing = self._program.plan.regions[region.name].routing
        return KeyLoad(tuple((total / max(total.sum(), 1.0)).tolist()), routing=routing)

    def _downstream(self, pipeline: Pipeline) -> tuple[str, ...]:
        graph = self._program.definition.graph
        layout = self._program.definition.wiring(self._program.plan).layout
        found = [layout.of(reader).name for _, reader, _ in graph.readers(pipeline.operators[-1])]
        return tuple(dict.fromkeys(n for n in found if n != pipeline.name))

    def _last(self, profiles: Sequence[Profile]) -> LastChange:
        if self._changed is None:
            return LastChange()
        at, cost = self._changed
        return LastChange(max(0.0, self._from - at), cost.pause, cost.delayed, cost.moved)


def _levels(layout: Layout) -> dict[str, int]:
    """The place of each pipeline with tasks of its own among all that work on a batch one after another.

    A colocated pipeline works after its host. Segments, which overlap, are counted one after another too: they share the cores.
    """
    own = [p for p in layout.pipelines if not p.fused]
    place = {p.name: (p.segment, p.level, -1 if p.host is None else p.number) for p in own}
    order = sorted(set(place.values()))
    return {name: order.index(at) for name, at in place.items()}


def _in_tasks(profile: Profile, program: FlowProgram) -> float:
    """Seconds of a batch in which pipelines with tasks of their own worked."""
    layout = program.definition.wiring(profile.plan).layout
    working = sum(_working(profile, segment, program) for segment in range(layout.segments))
    return working - profile.source_seconds


def _working(profile: Profile, segment: int, program: FlowProgram) -> float:
    """Seconds that the stages of a segment worked in a batch: the longest task of each, one stage after another."""
    layout = program.definition.wiring(profile.plan).layout
    levels: dict[int, float] = {}
    for level in range(1, layout.levels(segment) + 1):
        for host in layout.at(segment, level):
            inside = [profile.pipelines.get(p.name) for p in (host, *layout.colocated(host))]
            tasks = zip(*(p.seconds for p in inside if p is not None), strict=True)
            longest = max((sum(seconds) for seconds in tasks), default=0.0)
            levels[level] = max(levels.get(level, 0.0), longest)
    return sum(levels.values()) + (profile.source_seconds if segment == 0 else 0.0)
