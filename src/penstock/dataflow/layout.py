"""From a plan to the steps of a micro-batch: which pipelines run in which tasks, and what waits for the next batch.

A *pipeline* is a run of operators of one region that one task executes. Pipelines stand in *segments*: segment s
works on batch k - s while segment 0 works on batch k, so segments overlap. Within a segment pipelines stand on
*levels*, which are Spark stages one after another; tuples move between levels by a shuffle and between segments
through durable files. Stateless regions are *fused*: they run in the tasks that produce their tuples, unless they have
replicas of their own, to which tuples are dealt out evenly. A keyed region whose tuples come from a region with the same keys and the same routing is *colocated*: its replicas run in that region's tasks,
right after it, and what passes between the two stays in the task.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.dataflow.graph import Graph
from penstock.dataflow.plan import Plan
from penstock.dataflow.regions import Region, Regions, key_types


@dataclass(frozen=True)
class Pipeline:
    """Operators that run in one task, for each replica."""

    number: int
    region: str
    index: int
    operators: tuple[str, ...]
    keys: tuple[str, ...]
    replicas: int
    segment: int
    level: int
    fused: bool
    #: The number of the pipeline in whose tasks this one is colocated.
    host: int | None = None

    @property
    def name(self) -> str:
        """The region with the pipeline's place in it."""
        return f"{self.region}/{self.index}"


@dataclass(frozen=True)
class Layout:
    """All pipelines, and the workers of each (segment, level)."""

    pipelines: tuple[Pipeline, ...]

    def of(self, operator: str) -> Pipeline:
        """The pipeline that has an operator."""
        return next(p for p in self.pipelines if operator in p.operators)

    @property
    def segments(self) -> int:
        """How many batches are in work at once."""
        return 1 + max((p.segment for p in self.pipelines), default=0)

    def levels(self, segment: int) -> int:
        """How many stages a segment has after its input."""
        return max((p.level for p in self.pipelines if p.segment == segment and not p.fused), default=0)

    def at(self, segment: int, level: int) -> list[Pipeline]:
        """The pipelines with tasks of their own at a level."""
        return [
            p
            for p in self.pipelines
            if p.segment == segment and p.level == level and not p.fused and p.host is None
        ]

    def colocated(self, pipeline: Pipeline) -> list[Pipeline]:
        """The pipelines that run in another one's tasks, in the order in which they run."""
        return [p for p in self.pipelines if p.host == pipeline.number]

    def workers(self, segment: int, level: int) -> int:
        """Tasks at a level."""
        return sum(p.replicas for p in self.at(segment, level))

    def worker(self, pipeline: Pipeline, replica: int) -> int:
        """The number of the task that has a pipeline's replica at its level."""
        if pipeline.host is not None:
            return self.worker(self.pipelines[pipeline.host], replica)
        first = 0
        for other in self.at(pipeline.segment, pipeline.level):
            if other.number == pipeline.number:
                return first + replica
            first += other.replicas
        raise AssertionError(f"{pipeline.name} is fused and has no task")

    def hosted(self, segment: int, level: int, worker: int) -> tuple[Pipeline, int]:
        """The pipeline and replica that a task is; others may be colocated with it."""
        for pipeline in self.at(segment, level):
            if worker < pipeline.replicas:
                return pipeline, worker
            worker -= pipeline.replicas
        raise AssertionError("no such worker")


def make_layout(graph: Graph, regions: Regions, plan: Plan) -> Layout:
    """Lay a flow out by a plan."""
    made: list[Pipeline] = []
    home: dict[str, Pipeline] = {}
    for region in regions:
        for index, operators in enumerate(_cut(region, plan.regions[region.name].pipelines)):
            pipeline = _place(graph, plan, region, index, operators, home, len(made))
            made.append(pipeline)
            home |= dict.fromkeys(operators, pipeline)
    return Layout(tuple(made))


def _cut(region: Region, starts: tuple[int, ...]) -> list[tuple[str, ...]]:
    ends = [*starts[1:], len(region.operators)]
    return [region.operators[a:b] for a, b in zip(starts, ends, strict=True)]


def _place(
    graph: Graph,
    plan: Plan,
    region: Region,
    index: int,
    operators: tuple[str, ...],
    home: dict[str, Pipeline],
    number: int,
) -> Pipeline:
    settings = plan.regions[region.name]
    feeders = graph.feeders(operators[0])
    before = [home[f] for f in feeders if f in home]
    splits = index > 0 or settings.overlap
    segment = max((p.segment for p in before), default=0) + (1 if splits else 0)
    same = [p for p in before if p.segment == segment]
    # A fused pipeline needs all its tuples to come from tasks of one batch; a source's tasks are level 0 of segment 0.
    alone = region.kind == "stateless" and settings.replicas == 1 and not splits
    fused = alone and all(_reaches(f, home, segment) for f in feeders)
    host = None if splits or not region.scales else _host(graph, plan, region, feeders, home, segment)
    level = max((p.level for p in same), default=0) + (0 if fused or host is not None else 1)
    replicas = settings.replicas if region.replicable else 1
    return Pipeline(number, region.name, index, operators, region.keys, replicas, segment, level, fused, host)


def _host(
    graph: Graph, plan: Plan, region: Region, feeders: Sequence[str], home: dict[str, Pipeline], segment: int
) -> int | None:
    """The pipeline whose tasks already have the keys of this region's replicas, if it is the last that feeds it."""
    found: dict[int, Pipeline] = {}
    for feeder in feeders:
        for pipeline in _tasks(graph, feeder, home):
            if pipeline.segment == segment:
                found[pipeline.number] = pipeline
    last = [p for p in found.values() if p.level == max(q.level for q in found.values())]
    if len(last) != 1 or last[0].keys != region.keys:
        return None
    if key_types(graph, last[0].operators[0], region.keys) != key_types(
        graph, region.operators[0], region.keys
    ):
        return None
    theirs, own = plan.regions[last[0].region], plan.regions[region.name]
    if theirs.routing != own.routing or theirs.replicas != own.replicas:
        return None
    if any(
        set(graph.nodes[n].spec.changes) & set(region.keys) for n in _between(graph, feeders, last[0], home)
    ):
        return None
    return last[0].number if last[0].host is None else last[0].host


def _tasks(graph: Graph, operator: str, home: dict[str, Pipeline]) -> list[Pipeline]:
    """The pipelines in whose tasks an operator runs; sources have none."""
    if operator not in home:
        return []
    if not home[operator].fused:
        return [home[operator]]
    above = graph.feeders(home[operator].operators[0])
    return [p for feeder in above for p in _tasks(graph, feeder, home)]


def _between(graph: Graph, feeders: Sequence[str], end: Pipeline, home: dict[str, Pipeline]) -> set[str]:
    """The operators that tuples pass on their way from the entry of a pipeline, itself included."""
    found = set(end.operators)
    for feeder in feeders:
        if feeder in home and home[feeder].fused:
            found |= set(home[feeder].operators)
            found |= _between(graph, graph.feeders(home[feeder].operators[0]), end, home)
    return found


def _reaches(feeder: str, home: dict[str, Pipeline], segment: int) -> bool:
    return home[feeder].segment == segment if feeder in home else segment == 0
