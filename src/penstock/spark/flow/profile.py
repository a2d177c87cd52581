"""What the tasks of a micro-batch tell about themselves, gathered by pipeline, operator and region.

No extra Spark job is needed: the figures come home with the batch's own results.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import nan

import numpy as np
from numpy.typing import NDArray

from penstock.dataflow.invoke import OperatorFigures
from penstock.dataflow.plan import Plan
from penstock.dataflow.regions import Regions
from penstock.dataflow.routing import moved
from penstock.spark.flow.definition import Definition
from penstock.spark.flow.task_report import TaskReport


@dataclass(frozen=True)
class PipelineProfile:
    """One pipeline in one batch: CPU and wall seconds and tuples of each replica."""

    name: str
    region: str
    operators: tuple[str, ...]
    cpu: tuple[float, ...]
    seconds: tuple[float, ...]
    rows: tuple[int, ...]


@dataclass(frozen=True)
class OperatorProfile:
    """One operator in one batch, over all replicas."""

    rows_in: int = 0
    rows_out: int = 0
    cpu: float = 0.0
    waiting: int = 0


@dataclass(frozen=True)
class Reconfiguration:
    """A change that took effect with a batch: what moved, what it cost."""

    before: Plan
    after: Plan
    #: Seconds from the request to the batch that has it; seconds the batch was held up for it.
    waited: float
    pause: float
    #: Region -> key groups that moved.
    moved: Mapping[str, tuple[int, ...]]
    #: Tuples of this batch that belong to moved groups.
    delayed: int
    #: Bytes of state of the moved groups.
    bytes: float = 0.0


@dataclass(frozen=True)
class Profile:
    """One micro-batch."""

    batch: int
    started: float
    seconds: float
    rows: int
    results: int
    dead: int
    pipelines: Mapping[str, PipelineProfile]
    operators: Mapping[str, OperatorProfile]
    #: Region -> tuples by key group.
    groups: Mapping[str, NDArray[np.int64]]
    plan: Plan
    source_cpu: float = 0.0
    #: The longest task of the source stage.
    source_seconds: float = 0.0
    change: Reconfiguration | None = None
    extra: Mapping[str, float] = field(default_factory=dict)
    #: Rows that the source has beyond those of the batch; nan where nobody can tell.
    left: float = nan
    #: Whether some of them may have been there when the batch was planned, and were held back by a limit of rows a batch.
    limited: bool = False
    #: Region -> seconds that a tuple of each key group costs, where that has been measured.
    costs: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)

    def weights(self, region: str) -> NDArray[np.float64]:
        """The work of each key group of a region: tuples times what they cost, where that is known."""
        counts = self.groups[region].astype(float)
        return counts * self.costs[region] if region in self.costs else counts


@dataclass(frozen=True)
class BatchWork:
    """What the program knows of a batch besides its times: plans, waits, and the reports of its tasks."""

    before: Plan
    plan: Plan
    #: When the change of plan was asked for; None where nobody did.
    asked: float | None
    #: Seconds spent on what was deferred before the change; seconds until the batch's own tasks could start.
    drained: float
    setup: float
    bytes_moved: float
    reports: Sequence[TaskReport]

    @property
    def rows(self) -> int:
        """Rows of the sources."""
        return sum(r.source_rows for r in self.reports)

    @property
    def results(self) -> int:
        """Rows for the sinks."""
        return sum(r.results for r in self.reports)

    @property
    def dead(self) -> int:
        """Tuples that could not be processed."""
        return sum(r.dead for r in self.reports)

    @property
    def figures(self) -> list[OperatorFigures]:
        """What the operators did, task by task."""
        return [figures for r in self.reports for figures in r.operators.values()]

    def change(self, started: float, regions: Regions) -> Reconfiguration | None:
        """The change of plan that took effect with the batch, if there was one."""
        if self.plan == self.before:
            return None
        shifts = {
            r.name: tuple(moved(self.before.regions[r.name].routing, self.plan.regions[r.name].routing))
            for r in regions
            if r.scales
        }
        return Reconfiguration(
            before=self.before,
            after=self.plan,
            waited=0.0 if self.asked is None else max(0.0, started - self.asked),
            pause=self.setup,
            moved={name: groups for name, groups in shifts.items() if groups},
            delayed=sum(r.input.delayed for r in self.reports),
            bytes=self.bytes_moved,
        )


def profile_of(
    definition: Definition, batch: int, started: float, seconds: float, work: BatchWork
) -> Profile:
    """Fold the tasks' reports."""
    reports = work.reports
    first = [r for r in reports if r.input.stage == 0]
    return Profile(
        batch,
        started,
        seconds,
        rows=work.rows,
        results=work.results,
        dead=work.dead,
        pipelines=_pipelines(definition, work.plan, reports),
        operators=_operators(reports),
        groups=_groups(reports),
        plan=work.plan,
        source_cpu=sum(r.cpu for r in first),
        source_seconds=max((r.seconds for r in first), default=0.0),
        change=work.change(started, definition.regions),
        extra={"drained": work.drained, "setup": work.setup},
    )


def _pipelines(
    definition: Definition, plan: Plan, reports: Sequence[TaskReport]
) -> dict[str, PipelineProfile]:
    found = {}
    for pipeline in definition.wiring(plan).layout.pipelines:
        own = {r.input.replica: r for r in reports if r.input.pipeline == pipeline.name}
        replicas = [own.get(i) for i in range(pipeline.replicas)]
        if pipeline.fused:
            figures = [_fused(reports, pipeline.operators)]
        else:
            figures = [(r.cpu, r.seconds, r.input.rows) if r else (0.0, 0.0, 0) for r in replicas]
        cpu, seconds, rows = zip(*figures, strict=True)
        found[pipeline.name] = PipelineProfile(
            pipeline.name, pipeline.region, pipeline.operators, cpu, seconds, rows
        )
    return found


def _fused(reports: Sequence[TaskReport], operators: tuple[str, ...]) -> tuple[float, float, int]:
    """A stateless pipeline has no task of its own: its operators' time in the tasks they are fused with."""
    rows = sum(r.operators[operators[0]].rows_in for r in reports if operators[0] in r.operators)
    cpu = sum(r.operators[n].cpu for r in reports for n in operators if n in r.operators)
    return cpu, cpu, rows


def _operators(reports: Sequence[TaskReport]) -> dict[str, OperatorProfile]:
    found: dict[str, OperatorProfile] = {}
    for report in reports:
        for name, f in report.operators.items():
            have = found.get(name, OperatorProfile())
            found[name] = OperatorProfile(
                have.rows_in + f.rows_in,
                have.rows_out + f.rows_out,
                have.cpu + f.cpu,
                have.waiting + f.waiting,
            )
    return found


def _groups(reports: Sequence[TaskReport]) -> dict[str, NDArray[np.int64]]:
    found: dict[str, NDArray[np.int64]] = {}
    for report in reports:
        for region, counts in report.groups.items():
            have = found.get(region)
            found[region] = np.asarray(counts) if have is None else have + np.asarray(counts)
    return found
