"""How busy the pipelines of a flow are: what of a micro-batch's time their tasks worked, and on which level of it."""

from collections.abc import Sequence
from math import nan

from penstock.dataflow.layout import Layout, Pipeline
from penstock.spark.flow.profile import Profile
from penstock.spark.flow.program import FlowProgram


def levels_of(layout: Layout) -> dict[str, int]:
    """The place of each pipeline with tasks of its own among all that work on a batch one after another.

    A colocated pipeline works after its host. Segments, which overlap, are counted one after another too: they share the cores.
    """
    own = [p for p in layout.pipelines if not p.fused]
    place = {p.name: (p.segment, p.level, -1 if p.host is None else p.number) for p in own}
    order = sorted(set(place.values()))
    return {name: order.index(at) for name, at in place.items()}


def busy_shares(
    busy: Sequence[float], pipeline: Pipeline, profile: Profile, span: float, program: FlowProgram
) -> list[float]:
    """How busy the replicas of a pipeline are, with ``span`` seconds for the batch.

    The pipelines of a segment share its workers: the costliest of them is as busy as these are, 1 where they cannot keep
    up, and the others in proportion to it. Segments, which overlap, have workers and shares of their own. What no worker
    could shorten (planning, commit; the time beside the longest segment) counts as no time at all.
    """
    layout = program.definition.wiring(profile.plan).layout
    together = [profile.pipelines.get(p.name) for p in layout.pipelines if p.segment == pipeline.segment]
    costliest = max((max(p.seconds) for p in together if p is not None and p.seconds), default=0.0)
    if costliest <= 0:
        return [nan for _ in busy]
    working = working_seconds(profile, pipeline.segment, program)
    workers = min(1.0, working / max(span - fixed_seconds(profile, program), 1e-9))
    return [workers * seconds / costliest for seconds in busy]


def fixed_seconds(profile: Profile, program: FlowProgram) -> float:
    """Seconds of a batch that no worker could shorten: those beside its longest segment."""
    layout = program.definition.wiring(profile.plan).layout
    longest = max(working_seconds(profile, segment, program) for segment in range(layout.segments))
    return max(0.0, profile.seconds - longest)


def seconds_in_tasks(profile: Profile, program: FlowProgram) -> float:
    """Seconds of a batch in which pipelines with tasks of their own worked."""
    layout = program.definition.wiring(profile.plan).layout
    working = sum(working_seconds(profile, segment, program) for segment in range(layout.segments))
    return working - profile.source_seconds


def working_seconds(profile: Profile, segment: int, program: FlowProgram) -> float:
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
