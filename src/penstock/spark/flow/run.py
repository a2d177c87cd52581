"""A running flow: what ``Flow.start`` gives back."""

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from pyspark.sql import SparkSession

from penstock.core.deprecation import deprecated
from penstock.dataflow.plan import Plan
from penstock.dataflow.regions import Regions
from penstock.spark.flow.evolve import evolved
from penstock.spark.flow.flow_state import FlowState, FlowTotals
from penstock.spark.flow.profile import Profile
from penstock.spark.flow.program import FlowProgram
from penstock.spark.flow.task_output import HANDED
from penstock.spark.runtime.engine import BatchRows
from penstock.spark.runtime.folders import is_of_batch
from penstock.spark.runtime.locations import Location, remove
from penstock.spark.runtime.microbatch import MicroBatchRun
from penstock.spark.runtime.paths import STAGING
from penstock.spark.runtime.program import BatchResult
from penstock.spark.runtime.python_source import Span

#: Seconds by which a batch is put off, at most, while operators hold many tuples for lack of others.
LONGEST_WAIT = 2.0


class FlowRun(MicroBatchRun[FlowProgram]):
    """A running flow; its plan can be changed while it runs."""

    def _recovered(self) -> None:
        self._overfull: set[str] = set()
        #: Totals of the runs before with the same checkpoint.
        self.totals_before = self.totals
        if self._latest is None:
            return
        program, folder = self._program, self._checkpoint.folder
        state = evolved(
            FlowState.from_json(self._latest.state), program.definition, self._checkpoint.identity
        )
        self._latest = replace(self._latest, state=state.to_json())  # committed with the next batch
        program.plan = state.plan.fitted(program.definition.regions)
        program.hand_over(self._spark, state)  # perhaps again: the last run may have died before it had
        needed = {os.path.basename(file) for _, _, file in state.handed}
        handed = folder / "penstock" / HANDED
        files: list[Location] = [*handed.glob("*.parquet"), *handed.glob(f"{STAGING}/*.parquet")]
        # The next batch may be another run's in a store.
        until = self._latest.batch if self._checkpoint.in_store else None
        remove(f for f in files if f.name not in needed and is_of_batch(f.name, until))

    def rescale(
        self,
        *,
        replicas: Mapping[str, int] | None = None,
        pipelines: Mapping[str, tuple[int, ...]] | None = None,
        routing: Mapping[str, tuple[int, ...]] | None = None,
        overlap: Mapping[str, bool] | None = None,
        cpu: Mapping[str, float] | None = None,
    ) -> Plan:
        """Change the plan from the next micro-batch on; regions go by their name or one of their operators' names.

        ``replicas={"count": 4}`` rescales, ``pipelines={"count": (0, 2)}`` splits a region before its third operator,
        ``overlap={"total": True}`` lets a region work one batch behind what is before it, ``routing`` gives the replica
        of every key group. ``cpu={"count": 0.4}`` sets the CPU share of each replica, at once, in a flow that was started
        with ``cpu=``. The plan to come is given back.
        """
        if cpu:
            self._program.limit(cpu)
        given = {"replicas": replicas, "pipelines": pipelines, "routing": routing, "overlap": overlap}
        return self._program.change(**{k: v for k, v in given.items() if v})

    def reconfigure(self, **changes: Any) -> Plan:
        """Deprecated: the old name of :meth:`rescale`."""
        deprecated("FlowRun.reconfigure", "FlowRun.rescale")
        return self.rescale(**changes)

    def listen(self, listener: Callable[[Profile], None]) -> None:
        """Have a function called with the profile of every batch, after its commit."""
        self._program.listen(listener)

    @property
    def plan(self) -> Plan:
        """The plan of the last batch."""
        return self._program.plan

    @property
    def cpu(self) -> dict[str, float]:
        """The CPU share of each replica by region, where it has a limit."""
        held = self._program.cpu
        shares = {} if held is None else {r.name: held.share(r.name) for r in self.regions}
        return {name: share for name, share in shares.items() if share is not None}

    @property
    def regions(self) -> Regions:
        """The flow's regions."""
        return self._program.definition.regions

    @property
    def totals(self) -> FlowTotals:
        """Rows, results, tuples put aside and batches since the first start, as committed."""
        return FlowTotals() if self._latest is None else FlowState.from_json(self._latest.state).totals

    @property
    def profile(self) -> Profile | None:
        """Figures of the last batch: CPU by replica, cost by operator, tuples by key group."""
        return self._program.profile

    def _process(self, rows: BatchRows, batch_id: int, spark: SparkSession, span: Span | None = None) -> None:
        self._hold_off()
        super()._process(rows, batch_id, spark, span)
        self._warn_of_waiting()

    def _warn_of_waiting(self) -> None:
        """Tell, once for each operator, that tuples wait beyond what its firing rule foresees; they wait on disk."""
        overfull = set(self._progress.get("overfull", ()))
        for operator in sorted(overfull - self._overfull):
            hold = self._program.definition.graph.node(operator).spec.need.hold
            self.journal.warning(
                time.time(),
                "flow",
                f"More than {hold} tuples of one key wait at operator '{operator}' for lack of tuples on its other ports; "
                "they wait in the state store: look at what feeds it, or raise hold.",
            )
        self._overfull = overfull

    def _hold_off(self) -> None:
        """Back-pressure: take in less while some port's queue is more than half full, so that the others can catch up."""
        fullest = float(self._progress.get("fullest", 0.0))
        if fullest > 0.5:
            self._ended.wait(LONGEST_WAIT * min(1.0, 2 * fullest - 1))

    def _settle(self) -> BatchResult | None:
        if self._program.owed is not None:  # a stop has cancelled its job
            self._program.hand_over(self._spark, self._program.owed)
        outcome = super()._settle()
        if outcome is not None:
            self._program.hand_over(self._spark, FlowState.from_json(outcome.state))
        if self._ended.is_set():
            self._commit_handed()
        return outcome

    def _commit_handed(self) -> None:
        """The functions have all their rows: the next start owes them nothing, and may have others."""
        latest = self._latest
        if latest is None or self._checkpoint.batches[-1] != latest.batch:
            return
        state = FlowState.from_json(latest.state)
        if state.handed and state.handed == self._program.given:
            state = replace(state, handed=())
            latest = replace(latest, state=state.to_json(), files=state.files, outputs=())
            self._checkpoint.commit(latest)
            self._latest = latest
