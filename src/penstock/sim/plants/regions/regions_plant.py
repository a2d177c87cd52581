"""The plant: a data-flow graph whose regions can be cut into pipelines and replicated while it runs."""

from collections.abc import Callable
from math import inf, isinf, nan

import numpy as np

from penstock.core.capacity import Capacity, Knob
from penstock.core.decision import Change
from penstock.core.observation import (
    KeyLoad,
    LastChange,
    Latency,
    Observation,
    OperatorObservation,
    RegionObservation,
    StageObservation,
)
from penstock.sim.plants.regions.groups import regrouped
from penstock.sim.plants.regions.region_graph import FlowCosts, RegionGraph, SimulatedRegion
from penstock.sim.plants.regions.steady_flow import Config, FlowRates, Pipe, flow
from penstock.sim.plants.virtual import VirtualPlant
from penstock.sim.setting import Setting


class RegionsPlant(VirtualPlant):
    """Steady flow in steps of ``step`` seconds; a change pauses its region and shows in full a while later.

    ``offered`` gives the input rate at a time; without it the sources give what the rest can take. Tuples that cannot
    enter wait before the sources.
    """

    def __init__(
        self,
        graph: RegionGraph,
        costs: FlowCosts | None = None,
        offered: Callable[[float], float] | None = None,
        most_replicas: int = 16,
        noise: float = 0.01,
        seed: int = 0,
        step: float = 0.1,
    ) -> None:
        super().__init__()
        self.graph, self.costs, self._offered, self._step = graph, costs or FlowCosts(), offered, step
        self.configs: dict[str, Config] = {r.name: ((0,), 1) for r in graph}
        self._routing = {r.name: (0,) * self.costs.groups for r in graph}
        for region in graph:
            if region.kind != "source":
                most = most_replicas if region.kind == "partitioned" else 1
                self.settings[Knob.WORKERS, region.name] = Setting(1, most)
        self._volumes = graph.volumes()
        self._rng, self._noise = np.random.default_rng(seed), noise
        self._found: dict[tuple[tuple[tuple[str, Config], ...], float], FlowRates] = {}
        self._program = self._steady(self._rate_at(0.0))
        self._slowed_until, self._slowed, self._from = 0.0, 0.0, 0.0
        self.backlog = 0.0
        self._through = self._arrived = self._waited = self._paused = 0.0
        #: Input tuples a second that got through, a step each: (time, rate).
        self.history: list[tuple[float, float]] = []

    def _steady(self, offered: float) -> FlowRates:
        """The steady flow; configurations and rates repeat, so what was found is kept."""
        key = (tuple(self.configs.items()), offered)
        if key not in self._found:
            if len(self._found) > 5000:
                self._found.clear()
            self._found[key] = flow(self.graph, self.configs, self.costs, offered)
        return self._found[key]

    def _rate_at(self, time: float) -> float:
        return inf if self._offered is None else self._offered(time)

    # ---- events

    def _run(self, time: float) -> None:
        start = self._now
        while start < time - 1e-9:
            length = min(self._step, time - start)
            self._slice(start, length)
            start += length

    def _slice(self, start: float, length: float) -> None:
        offered = self._rate_at(start)
        most = self._steady(inf).rate if self.backlog > 0 or isinf(offered) else nan
        wanted = inf if self.backlog > 0 else offered
        self._program = self._steady(wanted)
        rate = self._program.rate if np.isnan(most) else most
        rate *= self._factor(start) * float(np.exp(self._rng.normal(0.0, self._noise)))
        came = 0.0 if isinf(offered) else offered * length
        done = rate * length if isinf(offered) else min(self.backlog + came, rate * length)
        before = self.backlog
        self.backlog = 0.0 if isinf(offered) else max(0.0, self.backlog + came - done)
        self._through += done
        self._arrived += done if isinf(offered) else came
        delay = 0.5 * (before + self.backlog) / max(rate, 1e-9)
        self._waited += delay * done
        if done > 0:
            own = sum(p.total for p in self._program.pipes)
            self.responses.add(np.full(max(1, min(int(done), 20)), delay + own))
        self.history.append((start + length, done / length))

    def _factor(self, time: float) -> float:
        """What is left of the flow while a change is made and settles: nothing in the pause, then growing back."""
        if time >= self._slowed_until:
            return 1.0
        if time < self._from:
            return 0.0
        span = max(self._slowed_until - self._from, 1e-9)
        return 1.0 - self._slowed * (self._slowed_until - time) / span

    # ---- changes

    def _problem(self, change: Change) -> str:
        if change.knob is not Knob.PIPELINES:
            return super()._problem(change)
        region = next((r for r in self.graph if r.name == change.where and r.kind != "source"), None)
        if region is None:
            return f"this plant has no pipelines at '{change.where}'"
        if change.sequence[-1] >= len(region.operators):
            return f"'{change.where}' has only {len(region.operators)} operators"
        return ""

    def _change(self, change: Change) -> LastChange:
        before = self._steady(inf).rate
        starts, replicas = self.configs[change.where]
        moved = 0
        if change.knob is Knob.PIPELINES:
            self.configs[change.where] = (change.sequence, replicas)
        else:
            super()._change(change)
            self.configs[change.where] = (starts, int(change.number))
            self._routing[change.where], moved = regrouped(self._routing[change.where], int(change.number))
        after = self._steady(inf).rate
        threads = len(self.configs[change.where][0]) * self.configs[change.where][1]
        pause = self.costs.pause + self.costs.move * moved
        # What was there before is there again after the pause; what was gained shows while it settles. Changes of
        # many threads cost more than that for a while.
        lost = max(0.0, 1.0 - before / after) if after > 0 else 0.0
        lost = max(lost, 0.3 if threads > 6 else 0.0)
        self._from = max(self._from, self._now) + pause
        self._slowed_until, self._slowed = self._from + self.costs.settling, lost
        held = pause * (self._program.rate if self._program.rate < inf else 0.0)
        return LastChange(0.0, pause, held, float(moved))

    # ---- observation

    def _observe(self, period: float) -> Observation:
        rate, arrived = self._through / period, self._arrived / period
        delay = self._waited / self._through if self._through > 0 else nan
        self._through = self._arrived = self._waited = 0.0
        stages, regions = [], []
        for region in self.graph:
            pipes = [p for p in self._program.pipes if p.region == region.name]
            stages += [self._stage(region, p, rate, arrived, period, delay) for p in pipes]
            regions.append(self._region(region, rate))
        latency = Latency(mean=delay + sum(p.total for p in self._program.pipes))
        return Observation(self._now, period, tuple(stages), tuple(regions), latency=latency)

    def _stage(
        self, region: SimulatedRegion, pipe: Pipe, rate: float, arrived: float, period: float, delay: float
    ) -> StageObservation:
        speed = self._program.speed
        busy = min(1.0, rate * pipe.thread / speed)
        mean = busy / pipe.fullest
        each = (
            busy,
            *[min(1.0, mean * (pipe.replicas - pipe.fullest) / max(pipe.replicas - 1, 1))]
            * (pipe.replicas - 1),
        )
        each = tuple(u + self.costs.polling * u * (1.0 - u) for u in each)
        starts = self.configs[region.name][0]
        spec = region.operators[starts[pipe.index] : starts[pipe.index] + len(pipe.operators)]
        operators = tuple(
            OperatorObservation(
                o.name,
                cost / pipe.total if pipe.total > 0 else nan,
                o.cost / speed,
                o.selectivity,
                _state(region),
            )
            for o, (_, cost) in zip(spec, pipe.operators, strict=True)
        )
        first = region.kind == "source" and pipe.index == 0
        return StageObservation(
            f"{region.name}.{pipe.index}",
            workers=Capacity.steady(pipe.replicas),
            region=region.name,
            downstream=self._downstream(region, pipe),
            arrival_rate=(arrived if first else rate) * pipe.volume,
            busy_time=float(np.mean(each)) * pipe.replicas * period,
            tuples_in=rate * pipe.volume * period,
            tuples_out=rate * pipe.volume * period * float(np.prod([o.selectivity for o in spec])),
            backlog=self.backlog if first else 0.0,
            latency=Latency(mean=(delay if first else 0.0) + pipe.total),
            service_time=pipe.total / pipe.volume / speed if pipe.volume else nan,
            utilisation=(arrived if first else rate) * pipe.thread / speed,
            worker_utilisation=each,
            # Back-pressure is told by the slowest pipeline: what it cannot take waits before the sources.
            congestion=max(0.0, 1.0 - rate / arrived) if arrived > 0 and pipe is self._slowest() else 0.0,
            operators=operators,
            last_change=self.last_change(region.name),
        )

    def _slowest(self) -> Pipe:
        return max(self._program.pipes, key=lambda p: p.thread)

    def _downstream(self, region: SimulatedRegion, pipe: Pipe) -> tuple[str, ...]:
        """The next pipeline of the region, or the first ones of the regions after it."""
        if pipe.index + 1 < len(self.configs[region.name][0]):
            return (f"{region.name}.{pipe.index + 1}",)
        return tuple(f"{name}.0" for name in region.downstream)

    def _region(self, region: SimulatedRegion, rate: float) -> RegionObservation:
        starts, replicas = self.configs[region.name]
        groups, most = self.costs.groups, self.settings.get((Knob.WORKERS, region.name))
        return RegionObservation(
            region.name,
            replicas=Capacity.steady(replicas, most.limit if most is not None else 1),
            operators=tuple(o.name for o in region.operators),
            pipelines=starts,
            kind=region.kind,
            throughput=rate * self._volumes[region.name],
            downstream=region.downstream,
            keys=KeyLoad((1.0 / groups,) * groups, (), self._routing[region.name])
            if region.kind == "partitioned"
            else None,
            last_change=self.last_change(region.name),
        )

    @property
    def threads(self) -> int:
        """Threads in use, sources included."""
        return sum(len(starts) * replicas for starts, replicas in self.configs.values())

    @property
    def steady(self) -> FlowRates:
        """The flow that the present configuration settles to when the input does not limit it."""
        return self._steady(inf)


def _state(region: SimulatedRegion) -> str:
    return region.kind if region.kind != "source" else "stateless"
