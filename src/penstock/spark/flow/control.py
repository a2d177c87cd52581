"""Who changes a running flow: the control loop with a policy, and a rebalancer of hot key groups."""

import os
from collections.abc import Callable
from math import nan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.core.capacity import Knob, KnobValue
from penstock.core.controller import Controller, Step
from penstock.core.decision import Change, Decision
from penstock.core.guards import Guards
from penstock.core.journal import Journal
from penstock.core.plant import Applied
from penstock.core.policy import AnyPolicy
from penstock.dataflow.plan import Plan
from penstock.dataflow.routing import is_uneven, rebalance
from penstock.spark.flow.flow_plant import FlowPlant
from penstock.spark.flow.profile import Profile
from penstock.spark.flow.program import FlowProgram


class Control:
    """Told of every batch after its commit; steps the loop when a period is over."""

    def __init__(
        self,
        program: FlowProgram,
        journal: Journal,
        policy: AnyPolicy | None,
        guards: Guards | None,
        period: float,
        dry_run: bool,
        rebalances: bool,
        trigger: float = nan,
    ) -> None:
        self._program, self._journal, self._period = program, journal, period
        self.plant = FlowPlant(program, os.cpu_count() or 1, trigger)
        self.loop: Controller[Any] | None = None
        if policy is not None:
            self.loop = Controller(self.plant, policy, guards, journal, dry_run=dry_run)
        self._rebalancer = Rebalancer(program) if rebalances else None
        self._due: float | None = None
        self._start: float | None = None
        #: Told what came of each step.
        self.on_step: Callable[[Step], None] | None = None

    def pause(self) -> None:
        """Let the policy change nothing until :meth:`resume`."""
        if self.loop is not None:
            self.loop.pause()

    def resume(self) -> None:
        """Let the policy change things again."""
        if self.loop is not None:
            self.loop.resume()

    def __call__(self, profile: Profile) -> None:
        """Take the figures of a batch, write down what changed with it, let the policy decide."""
        self._start = profile.started if self._start is None else self._start
        now = profile.started + profile.seconds
        self.plant.take(profile)
        if profile.change is not None:
            self._record(profile, now - self._start)
        if self._rebalancer is not None:
            self._rebalancer(profile)
        self._due = now + self._period if self._due is None else self._due
        if now >= self._due and (self.loop is not None or self.on_step is not None):
            keep = Decision.keep("no policy")
            step = Step(self.plant.observe(), keep, keep) if self.loop is None else self.loop.step()
            if step is not None and self.on_step is not None:
                self.on_step(step)
            self._due = max(self._due + self._period, now)

    def _record(self, profile: Profile, at: float) -> None:
        change = profile.change
        if change is None:
            return
        made = changes_between(change.before, change.after)
        before = {c: _value(change.before, c) for c in made}
        cost = Applied(tuple(made), change.pause, float(change.delayed), change.bytes)
        self._journal.reconfiguration(at, cost, before, "took effect")


class Rebalancer:
    """Moves hot key groups when replicas stay uneven for some batches (MPC: largest load above 1.3 times the smallest)."""

    def __init__(self, program: FlowProgram, patience: int = 3, past: float = 0.7) -> None:
        self._program, self._patience, self._past = program, patience, past
        self._weights: dict[str, NDArray[np.float64]] = {}
        self._uneven: dict[str, int] = {}

    def __call__(self, profile: Profile) -> None:
        """Look at a batch's key frequencies."""
        for region, counts in profile.groups.items():
            have = self._weights.get(region)
            mixed = counts.astype(float) if have is None else self._past * have + (1 - self._past) * counts
            self._weights[region] = mixed
            plan = self._program.plan.regions[region]
            uneven = plan.replicas > 1 and is_uneven(plan.routing, mixed.tolist(), plan.replicas)
            self._uneven[region] = self._uneven.get(region, 0) + 1 if uneven else 0
            if self._uneven[region] >= self._patience:
                self._uneven[region] = 0
                better = rebalance(plan.routing, mixed.tolist(), plan.replicas)
                if better != plan.routing and self._program.wanted == self._program.plan:
                    self._program.change(routing={region: better})


def changes_between(before: Plan, after: Plan) -> list[Change]:
    """What differs between two plans, as changes of knobs."""
    made = []
    for name, new in after.regions.items():
        old = before.regions[name]
        if new.replicas != old.replicas:
            made.append(Change(Knob.WORKERS, name, new.replicas))
        if new.pipelines != old.pipelines:
            made.append(Change(Knob.PIPELINES, name, new.pipelines))
        if new.routing != old.routing:
            made.append(Change(Knob.ROUTING, name, new.routing))
    return made


def _value(plan: Plan, change: Change) -> KnobValue:
    region = plan.regions[change.where]
    values: dict[Knob, KnobValue] = {
        Knob.WORKERS: float(region.replicas),
        Knob.PIPELINES: region.pipelines,
        Knob.ROUTING: region.routing,
    }
    return values[change.knob]
