"""A flow as a program of the micro-batch runtime."""

import os
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pyspark.sql import SparkSession

from penstock.core.errors import PenstockError
from penstock.core.listeners import Listeners
from penstock.dataflow.key_costs import RegionCosts
from penstock.dataflow.plan import Plan
from penstock.dataflow.routing import moved
from penstock.spark.actuators.power import MachinePower
from penstock.spark.flow.cpu import FlowCpu
from penstock.spark.flow.definition import Definition
from penstock.spark.flow.flow_state import FlowState
from penstock.spark.flow.profile import BatchWork, Profile, profile_of
from penstock.spark.flow.steps import SegmentRun, Stepper, lane_sizes
from penstock.spark.flow.task_output import FlowOutputs
from penstock.spark.runtime.engine import Effort, Engine
from penstock.spark.runtime.locations import location, size_of
from penstock.spark.runtime.manifest import Publication
from penstock.spark.runtime.program import Batch, BatchResult
from penstock.spark.runtime.sinks import read_back

Listener = Callable[[Profile], None]


class FlowProgram:
    """Runs a flow's micro-batches and takes changes of its plan in between."""

    def __init__(
        self,
        definition: Definition,
        first: Plan,
        outputs: FlowOutputs,
        state_folder: str,
        cpu: FlowCpu | None = None,
        listeners: Listeners[Profile] | None = None,
    ) -> None:
        self.definition = definition
        self.outputs = outputs
        self._first = first
        self._stepper = Stepper(definition, state_folder, outputs, uuid.uuid4().hex, cpu)
        self.cpu = cpu
        #: Frequencies and energy of the machine, where the policy counts power.
        self.power: MachinePower | None = None
        self._lock = threading.Lock()
        self._pending: list[Mapping[str, Any]] = []
        self._listeners = Listeners[Profile]() if listeners is None else listeners
        self._asked: float | None = None
        self.profile: Profile | None = None
        self.plan = first
        #: The state whose rows are being given to functions, or were when a stop came.
        self.owed: FlowState | None = None
        #: The rows that functions were given last, all of them.
        self.given: tuple[tuple[int, str, str], ...] = ()
        self._last: BatchWork | None = None
        self._costs = RegionCosts(first.groups)

    @property
    def identity(self) -> Mapping[str, Any]:
        """What makes state of this flow unusable for another."""
        return self.definition.identity(self._first.groups)

    @property
    def workers_wanted(self) -> int:
        """Segments have workers of their own; within one, regions run on all of its workers in turn."""
        return sum(lane_sizes(self.definition, self.wanted))

    def workers_for(self, **changes: Any) -> int:
        """Workers that the flow would want with such changes of its plan; wrong ones raise."""
        return sum(lane_sizes(self.definition, self.wanted.changed(self.definition.regions, **changes)))

    def first_state(self) -> Mapping[str, Any]:
        """The state before the first batch."""
        regions = {name: region.name for region in self.definition.regions for name in region.operators}
        sources = tuple(self.definition.graph.sources)
        return FlowState(
            self._first,
            regions=regions,
            shapes=self.definition.shapes,
            sources=sources,
            channels=self.definition.channels,
        ).to_json()

    def listen(self, listener: Listener) -> None:
        """Have a function called with the profile of every batch, after its commit."""
        self._listeners.add(listener)

    def weigh_keys(self) -> None:
        """Measure what keys cost from now on: for those who place them."""
        self._stepper = replace(self._stepper, weighs=True)

    def change(self, **changes: Any) -> Plan:
        """Ask for another plan from the next batch on; wrong ones raise at once."""
        with self._lock:
            wanted = self._next(self.plan)
            wanted = wanted.changed(self.definition.regions, **changes)
            self._pending.append(changes)
            self._asked = self._asked or time.time()
        return wanted

    def limit(self, shares: Mapping[str, float]) -> None:
        """Set CPU shares of regions from now on."""
        if self.cpu is None:
            raise PenstockError(
                "This flow has no control groups; start it with cpu={...}, or cpu={} for none at first."
            )
        self.cpu.set(shares)

    @property
    def wanted(self) -> Plan:
        """The plan of the next batch."""
        with self._lock:
            return self._next(self.plan)

    def _next(self, plan: Plan) -> Plan:
        for changes in self._pending:
            plan = plan.changed(self.definition.regions, **changes)
        return plan

    def run_batch(self, batch: Batch) -> BatchResult:
        """One micro-batch: the first segments on its rows, and whatever later segments are due."""
        state = FlowState.from_json(batch.state)
        before = state.plan.fitted(self.definition.regions)
        with self._lock:
            plan, taken, asked = self._next(before), len(self._pending), self._asked
        outputs: list[Publication] = []
        drained = 0.0
        if plan != before and self._merges(state, plan):
            started = time.time()
            state, outputs = self.drained(batch.engine, state, batch.prefix)
            drained = time.time() - started
        state = replace(state, plan=plan, handed=())
        due = [
            SegmentRun(o.batch, o.segment, o.plan, files=o.files) for o in state.deferred if o.due <= batch.id
        ]
        parts = [SegmentRun(batch.id, 0, plan, rows=batch.rows), *due]
        planned = time.time()
        outcome = self._stepper.step(batch.engine, parts, state, batch.prefix, before)
        with self._lock:  # only now: a batch that is run again takes the same changes
            self.plan, self._asked = plan, None
            del self._pending[:taken]
        work = BatchWork(
            before=before,
            plan=plan,
            asked=asked,
            drained=drained,
            setup=planned - batch.started,
            bytes_moved=(
                _moved_bytes(self.definition, state, before, plan, batch.state_folder)
                if plan != before
                else 0.0
            ),
            reports=outcome.reports,
        )
        self._last = work
        after = outcome.state.counted(work.rows, work.results, work.dead)
        progress = {
            "rows": work.rows,
            "results": work.results,
            "dead": work.dead,
            "waiting": sum(f.waiting for f in work.figures),
            "fullest": max((f.fullest for f in work.figures), default=0.0),
            "overfull": sorted({n for r in outcome.reports for n, f in r.operators.items() if f.fullest > 1}),
            "deferred": len(after.deferred),
            "replicas": {n: r.replicas for n, r in plan.regions.items()},
            "pipelines": {n: list(r.pipelines) for n, r in plan.regions.items()},
        }
        return BatchResult(after.to_json(), after.files, [*outputs, *outcome.outputs], progress)

    def settled(self, batch: Batch) -> BatchResult | None:
        """Run the segments that are due after the last batch, and those after them."""
        state = replace(FlowState.from_json(batch.state), handed=())
        if not state.deferred:
            return None
        after, outputs = self.drained(batch.engine, state, batch.prefix)
        return BatchResult(after.to_json(), after.files, outputs, {"deferred": 0})

    def committed(
        self, batch: Batch, outcome: BatchResult, seconds: float, effort: Effort | None
    ) -> Mapping[str, Any]:
        """Hand rows to the sinks on the driver, then tell those who listen."""
        if self._last is None:
            return {}
        self.hand_over(batch.spark, FlowState.from_json(outcome.state))
        if not self._listeners:
            return {}
        seen = profile_of(self.definition, batch.id, batch.started, seconds, self._last)
        costs = self._key_costs(seen, self._last)
        self.profile = replace(seen, left=batch.left, limited=batch.rows.limited, costs=costs)
        self._listeners.tell(self.profile)
        return {}

    def _key_costs(self, profile: Profile, work: BatchWork) -> dict[str, NDArray[np.float64]]:
        """What a tuple of each key group costs, by region, with what the tasks of a batch measured."""
        for report in work.reports:
            for operator, figures in report.operators.items():
                self._costs.add(operator, figures.slices)
        rows = {name: operator.rows_in for name, operator in profile.operators.items()}
        found = {r.name: self._costs.of(r.operators, rows) for r in self.definition.regions if r.scales}
        return {region: costs for region, costs in found.items() if costs is not None}

    def close(self) -> None:
        """The run has ended."""
        for held in (self.cpu, self.power):
            if held is not None:
                held.close()

    def hand_over(self, spark: SparkSession, state: FlowState) -> None:
        """Give the rows of a committed batch to the sinks that are functions."""
        self.owed = state
        files: dict[tuple[int, str], list[str]] = {}
        for batch, sink, file in state.handed:
            files.setdefault((batch, sink), []).append(os.path.join(self._stepper.folder, file))
        for (batch, name), some in sorted(files.items()):
            to = self.definition.graph.sinks[name].to
            if callable(to):
                to(read_back(spark, some, self.definition.sink_schemas[name]), batch)
        self.owed, self.given = None, state.handed

    def drained(self, engine: Engine, state: FlowState, prefix: str) -> tuple[FlowState, list[Publication]]:
        """Run everything that is deferred, step by step."""
        outputs: list[Publication] = []
        while state.deferred:
            now = min(o.due for o in state.deferred)
            parts = [
                SegmentRun(o.batch, o.segment, o.plan, files=o.files) for o in state.deferred if o.due == now
            ]
            done = self._stepper.step(engine, parts, state, f"{prefix}d{now}", state.plan)
            state = done.state
            outputs += done.outputs
        return state, outputs

    def _merges(self, state: FlowState, plan: Plan) -> bool:
        """Whether some operator moves to an earlier segment than batches in work have it in."""
        new = self.definition.wiring(plan).layout
        for deferred in state.deferred:
            old = self.definition.wiring(deferred.plan).layout
            if any(new.of(n).segment < old.of(n).segment for n in self.definition.graph.nodes):
                return True
        return False


def _moved_bytes(definition: Definition, state: FlowState, before: Plan, plan: Plan, folder: str) -> float:
    """State of the groups that change hands, in bytes: each file's share by its groups."""
    total = 0.0
    for region in definition.regions:
        gone = set(moved(before.regions[region.name].routing, plan.regions[region.name].routing))
        for operator in region.operators if gone else ():
            for layer in state.operators[operator].layers if operator in state.operators else ():
                share = len(gone & set(layer.groups)) / max(len(layer.groups), 1)
                total += share * size_of(location(folder) / layer.file)
    return total
