"""The first job of a batch: rows to pane workers, folded into the parts of open panes.

Rows whose times are not believed take no part. Which these are may show only when all of a batch has been seen: then
the job runs a second time, with what the batch has taught (see :mod:`penstock.core.belief`).
"""

from dataclasses import dataclass, field, replace
from typing import Literal

from penstock.core.belief import Judgement, Limits, judge
from penstock.disorder.stats import BatchStats
from penstock.preference.routing_plan import RoutingPlan
from penstock.preference.splitting import SplitState
from penstock.spark.query import pane_stage
from penstock.spark.query.pane_stage import Folds, PaneStage
from penstock.spark.query.query_state import QueryState
from penstock.spark.query.reports import FoldReport, TallyReport
from penstock.spark.query.routing import MESSAGE_SCHEMA, Lift, Router
from penstock.spark.runtime.engine import Stage
from penstock.spark.runtime.locations import location, remove
from penstock.spark.runtime.program import Batch


@dataclass(frozen=True)
class Folded:
    """What the first job reported: statistics of the rows, reports of the workers."""

    stats: BatchStats
    tallies: list[TallyReport]
    workers: list[FoldReport]
    judged: Judgement = field(default_factory=lambda: Judgement(None))

    @property
    def rows(self) -> int:
        """Rows of the batch."""
        return sum(t.rows for t in self.tallies)

    @property
    def late(self) -> int:
        """Rows that came too late."""
        return sum(t.late for t in self.tallies)

    @property
    def shed(self) -> int:
        """Rows dropped on purpose."""
        return sum(t.shed for t in self.tallies)

    @property
    def bad(self) -> int:
        """Rows that cannot be used, or are not believed."""
        return sum(t.bad for t in self.tallies)

    def by_worker(self, workers: int, figure: Literal["busy", "received"]) -> list[float]:
        """A figure of the reports for each worker; 0 for those that had nothing to do."""
        found = [0.0] * workers
        for report in self.workers:
            found[report.worker] += float(getattr(report, figure))
        return found


@dataclass(frozen=True)
class Folding:
    """All that the job needs to know of the query."""

    grouped: Folds
    time: str
    attributes: tuple[str, ...]
    pane_us: int
    strategy: str
    limits: Limits
    #: Whether the pane stage only keeps rows.
    raw: bool
    late_folder: str | None
    dead_folder: str
    lift: Lift | None = None
    #: The share of the rows to drop on purpose.
    shed: float = 0.0
    #: What a time counts that is no timestamp.
    unit: str = "seconds"

    def run(self, batch: Batch, state: QueryState) -> Folded:
        """Fold the rows that are believed."""
        now = int(batch.started * 1e6)
        latest = state.belief.latest(state.disorder.t_max, now, self.limits)
        folded = self._fold(batch, state, latest)
        sightings = [t.sightings for t in folded.tallies]
        usable = sum(t.usable for t in folded.tallies)
        judged = judge(sightings, usable, state.belief, latest, now, self.limits)
        if judged.overturns(latest, sightings):
            _remove(batch.state_folder, folded)
            folded = self._fold(batch, state, judged.bound)
        return replace(folded, judged=judged)

    def _fold(self, batch: Batch, state: QueryState, latest: int | None) -> Folded:
        router = Router(
            time=self.time,
            attributes=self.attributes,
            pane_us=self.pane_us,
            plan=self._plan(batch, state),
            punctuation=state.disorder.punctuation,
            seen=state.disorder.t_max,
            prefix=batch.prefix,
            late_folder=self.late_folder,
            dead_folder=self.dead_folder,
            limits=self.limits,
            latest=latest,
            lift=self.lift,
            shed=self.shed,
            unit=self.unit,
        )
        stage = PaneStage(self.grouped, batch.state_folder, batch.prefix, state.held(), self.raw)
        stages = [Stage(router, MESSAGE_SCHEMA), Stage(stage, pane_stage.REPORT_SCHEMA, state.pane_workers)]
        reports = [
            row
            for some in batch.engine.run(batch.rows, stages)
            for row in zip(some["kind"].to_pylist(), some["report"].to_pylist(), strict=True)
        ]
        tallies = [TallyReport.from_json(text) for kind, text in reports if kind == "tally"]
        workers = [FoldReport.from_json(text) for kind, text in reports if kind == "worker"]
        stats = BatchStats()
        for tally in tallies:
            stats = stats.merge(tally.stats)
        return Folded(stats, tallies, sorted(workers, key=lambda w: w.worker))

    def _plan(self, batch: Batch, state: QueryState) -> RoutingPlan:
        loads = (*state.loads, *([0.0] * state.pane_workers))[: state.pane_workers]
        owners: dict[int, tuple[int, int]] = {}
        for worker, parts in state.held().items():
            for pane, part in parts.items():
                # The emptiest part takes the next rows: its worker became the owner last.
                if pane not in owners or part.received < owners[pane][1]:
                    owners[pane] = (worker, part.received)
        return RoutingPlan(
            strategy=self.strategy,
            workers=state.pane_workers,
            order=tuple(sorted(range(state.pane_workers), key=lambda w: (loads[w], w))),
            threshold=SplitState.from_json(state.splitting).threshold,
            inputs=state.inputs or batch.spark.sparkContext.defaultParallelism,
            owners=owners,
            closed=state.closed_before or 0,
        )


def _remove(state_folder: str, folded: Folded) -> None:
    """Remove the files of a first pass that does not count."""
    written = [location(state_folder) / w.file for w in folded.workers]
    aside = [location(file) for t in folded.tallies for file in (t.late_file, t.dead_file) if file]
    remove([*written, *aside])
