"""Run the segments of one step side by side, each as one run of an engine, and fold what their tasks report.

Segment s of batch b runs at step b + s. Segments of one step belong to different batches and to different operators,
so they share nothing and may run at the same time.
"""

import re
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from pyspark.errors import PySparkException

from penstock.core.errors import PenstockError
from penstock.dataflow.plan import Plan
from penstock.dataflow.wiring import Wiring
from penstock.spark.flow.cpu import FlowCpu
from penstock.spark.flow.definition import Definition
from penstock.spark.flow.event_times import EventTimes
from penstock.spark.flow.flow_state import DeferredSegment, FlowState
from penstock.spark.flow.state_store import LayerFile, OperatorState
from penstock.spark.flow.task_output import HANDED, REPORT, FlowOutputs, messages_of, messages_schema
from penstock.spark.flow.task_report import TaskReport
from penstock.spark.flow.tasks import LevelTask, SegmentWork, SourceTask
from penstock.spark.runtime.engine import BatchRows, Engine, InLane, Lane, Stage
from penstock.spark.runtime.locations import location, remove
from penstock.spark.runtime.manifest import Publication

Reports = list[TaskReport]


@dataclass(frozen=True)
class SegmentRun:
    """A segment of a batch that is to run now: with the batch's rows, or with files that wait."""

    batch: int
    segment: int
    plan: Plan
    rows: BatchRows | None = None
    files: tuple[str, ...] = ()


@dataclass(frozen=True)
class StepOutcome:
    """What a step came to."""

    state: FlowState
    outputs: tuple[Publication, ...]
    reports: Reports


@dataclass(frozen=True)
class Stepper:
    """Runs steps of one flow."""

    definition: Definition
    folder: str
    outputs: FlowOutputs
    run: str
    cpu: FlowCpu | None = None
    #: Whether somebody wants to know what the keys cost.
    weighs: bool = False

    def step(
        self, engine: Engine, parts: Iterable[SegmentRun], state: FlowState, prefix: str, before: Plan
    ) -> StepOutcome:
        """Run all parts at the same time; the state after them.

        They run once more where the tuples show that other event times are to be believed than at first sight.
        """
        listed = list(parts)
        times = EventTimes(self.definition, state, int(time.time() * 1e6))
        by_part = self._side_by_side(engine, listed, state, prefix, before, times)
        while times.overturned([r for reports in by_part for r in reports]):
            self._remove([r for reports in by_part for r in reports])
            by_part = self._side_by_side(engine, listed, state, prefix, before, times)
        outputs: list[Publication] = []
        for part, reports in zip(listed, by_part, strict=True):
            state = _folded(self.definition, state, part, reports)
            outputs += [
                Publication(file.staged, file.final, file.folder)
                for report in reports
                for file in report.outputs.files
                if file.folder
            ]
        state = times.remembered(state)
        return StepOutcome(state, tuple(outputs), [r for reports in by_part for r in reports])

    def _side_by_side(
        self,
        engine: Engine,
        listed: list[SegmentRun],
        state: FlowState,
        prefix: str,
        before: Plan,
        times: EventTimes,
    ) -> list[Reports]:
        sizes = lane_sizes(self.definition, state.plan)

        def run(part: SegmentRun) -> Reports:
            own = engine if len(sizes) == 1 else InLane(engine, Lane(part.segment % len(sizes), sizes))
            return self._run(own, part, state, prefix, before, times)

        if len(listed) == 1:
            return [run(listed[0])]
        with ThreadPoolExecutor(max(1, len(listed)), "penstock-segment") as pool:
            # What waits longest goes first: nothing after it can end before it.
            futures = {
                at: pool.submit(run, part)
                for at, part in sorted(enumerate(listed), key=lambda item: -item[1].segment)
            }
            return [futures[at].result() for at in range(len(listed))]

    def _remove(self, reports: Reports) -> None:
        """Remove the files of a run that does not count."""
        folders = {role: folder.place for role, folder in self.outputs.by_role.items()}
        for report in reports:
            named = [layer.file for layer in report.written] + ([report.inbox] if report.inbox else [])
            paths = [location(self.folder) / name for name in named]
            for file in report.outputs.files:
                base = folders.get(file.folder) or location(self.folder) / ".." / HANDED
                paths.append(base / file.staged)
            remove(paths)

    def _run(
        self,
        engine: Engine,
        part: SegmentRun,
        state: FlowState,
        prefix: str,
        before: Plan,
        times: EventTimes,
    ) -> Reports:
        definition = self.definition
        job = SegmentWork(
            definition.wiring(part.plan),
            part.plan,
            part.segment,
            self.folder,
            f"{prefix}-{part.segment}",
            self.outputs,
            _states_of(definition.wiring(part.plan), part.segment, state.operators),
            definition.ttl,
            {name: region.routing for name, region in before.regions.items()},
            self.run,
            part.batch,
            {} if self.cpu is None else self.cpu.groups(definition.wiring(part.plan).layout),
            now=times.now,
            beliefs=times.latest,
            weighs=self.weighs,
        )
        schema = messages_schema()
        layout = job.wiring.layout
        if part.rows is not None:
            rows = part.rows
            stages = [Stage(SourceTask(job, definition.sources, definition.timed), schema)]
        else:
            rows = BatchRows(numbers=layout.workers(part.segment, 1))
            stages = [Stage(LevelTask(job, 1, part.files), schema)]
        first = 1 if part.rows is not None else 2
        stages += [
            Stage(LevelTask(job, level), schema, layout.workers(part.segment, level))
            for level in range(first, job.levels + 1)
        ]
        try:
            batches = engine.run(rows, stages)
        except PySparkException as error:
            raise _in_one_sentence(error) from None
        return [
            TaskReport.from_json(message.payload.to_pybytes())
            for message in messages_of(batches)
            if message.pipeline == REPORT
        ]


def lane_sizes(definition: Definition, plan: Plan) -> tuple[int, ...]:
    """Workers that each segment of a flow wants: its levels run on them in turn, so the most replicas count."""
    pipelines = definition.wiring(plan).layout.pipelines
    most: dict[int, int] = {}
    for pipeline in pipelines:
        most[pipeline.segment] = max(most.get(pipeline.segment, 1), pipeline.replicas)
    return tuple(most.get(segment, 1) for segment in range(max(most, default=0) + 1))


def _in_one_sentence(error: PySparkException) -> Exception:
    """What a task raised for the user, without the traces of two languages around it."""
    found = re.findall(r"penstock\.core\.errors\.PenstockError: (.*)", str(error))
    return PenstockError(found[-1]) if found else error


def _states_of(wiring: Wiring, segment: int, states: Mapping[str, OperatorState]) -> dict[str, OperatorState]:
    """The states of the operators that run in a segment."""
    here = {name for p in wiring.layout.pipelines if p.segment == segment for name in p.operators}
    return {name: state for name, state in states.items() if name in here}


def _folded(definition: Definition, state: FlowState, part: SegmentRun, reports: Reports) -> FlowState:
    """The state with what a part's tasks wrote."""
    operators = dict(state.operators)
    layout = definition.wiring(part.plan).layout
    for report in sorted(reports, key=lambda r: (r.input.stage, r.input.pipeline, r.input.replica)):
        for written in report.written:
            name = written.operator
            region = layout.of(name)
            owned = _owned(part.plan, region.region, region.keys, report.input.replica)
            layer = LayerFile(written.file, owned, written.rows, part.batch)
            operators[name] = operators.get(name, OperatorState()).written(layer, written.replaced)
    for name, clock in _clocks(reports).items():
        operators[name] = operators.get(name, OperatorState()).at(clock)
    deferred = tuple(o for o in state.deferred if (o.batch, o.segment) != (part.batch, part.segment))
    for segment in sorted({s for report in reports for s in report.later}):
        files = tuple(r.inbox for r in reports if segment in r.later and r.inbox)
        known = next((o for o in deferred if (o.batch, o.segment) == (part.batch, segment)), None)
        if known is None:
            deferred = (*deferred, DeferredSegment(part.batch, segment, files, part.plan))
        else:
            deferred = tuple(replace(o, files=(*o.files, *files)) if o is known else o for o in deferred)
    handed = tuple(
        (part.batch, file.sink, f"../{HANDED}/{file.staged}")
        for report in reports
        for file in report.outputs.files
        if not file.folder
    )
    return replace(state, operators=operators, deferred=deferred, handed=(*state.handed, *handed))


def _clocks(reports: Reports) -> dict[str, int]:
    """The newest event time that each operator saw."""
    found: dict[str, int] = {}
    for name, figures in (item for report in reports for item in report.operators.items()):
        if figures.clock is not None:
            found[name] = max(figures.clock, found.get(name, figures.clock))
    return found


def _owned(plan: Plan, region: str, keys: tuple[str, ...], replica: int) -> tuple[int, ...]:
    if not keys:
        return (0,)
    return tuple(g for g, r in enumerate(plan.regions[region].routing) if r == replica)
