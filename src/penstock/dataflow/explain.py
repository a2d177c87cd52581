"""A flow explained: regions, pipelines, replicas, and the Spark stages they become."""

from pathlib import Path

from penstock.dataflow.graph import Graph
from penstock.dataflow.layout import Layout, Pipeline, make_layout
from penstock.dataflow.plan import Plan
from penstock.dataflow.regions import Region, find_regions


def explain(graph: Graph, plan: Plan | None = None, picture: str | Path | None = None) -> str:
    """The flow as text under a plan (the first one unless given), and as an SVG picture where a path is given."""
    regions = find_regions(graph)
    plan = plan or Plan.first(regions)
    layout = make_layout(graph, regions, plan)
    if picture is not None:
        from penstock.dataflow.picture import draw

        Path(picture).write_text(draw(graph, regions, plan, layout))
    lines = [f"flow {graph.name}"]
    lines += [f"  source {s.name} ({', '.join(s.schema.names)})" for s in graph.sources.values()]
    for region in regions:
        lines += _region(graph, region, plan, layout)
    lines += [f"  sink {s.name} <- {s.stream.node}" for s in graph.sinks.values()]
    lines.append("Spark stages of a micro-batch")
    lines += _stages(layout)
    return "\n".join(lines)


def _region(graph: Graph, region: Region, plan: Plan, layout: Layout) -> list[str]:
    own = plan.regions[region.name]
    keys = f" by {', '.join(region.keys)}" if region.keys else ""
    lines = [
        f"  region {region.name}: {region.kind}{keys}, {_replicas(region, own.replicas)}, {_feeders(graph, region)}"
    ]
    inside = [p for p in layout.pipelines if p.region == region.name]
    return lines + [f"    pipeline {p.index}: {' -> '.join(p.operators)}  [{_place(p)}]" for p in inside]


def _replicas(region: Region, replicas: int) -> str:
    if region.kind == "stateless" and replicas == 1:
        return "as many tasks as what feeds it"
    return f"{replicas} replica{'s' if replicas > 1 else ''}"


def _feeders(graph: Graph, region: Region) -> str:
    return "fed by " + ", ".join(dict.fromkeys(graph.feeders(region.operators[0])))


def _place(pipeline: Pipeline) -> str:
    stage = f"stage {pipeline.level}" if not pipeline.fused else f"fused into stage {pipeline.level}"
    if pipeline.host is not None:
        stage += ", in the tasks before it"
    return stage + (
        f" of segment {pipeline.segment}, {pipeline.segment} batch behind" if pipeline.segment else ""
    )


def _stages(layout: Layout) -> list[str]:
    lines = []
    for segment in range(layout.segments):
        if segment == 0:
            fused = [p.name for p in layout.pipelines if p.fused and p.segment == 0 and p.level == 0]
            lines.append(
                "  stage 0: read sources"
                + (f", run {', '.join(fused)}" if fused else "")
                + ", route by key group"
            )
        for level in range(1, layout.levels(segment) + 1):
            names = ", ".join(
                " + ".join([p.name, *(g.name for g in layout.colocated(p))]) + f" x{p.replicas}"
                for p in layout.at(segment, level)
            )
            fused = [p.name for p in layout.pipelines if p.fused and (p.segment, p.level) == (segment, level)]
            late = f" of segment {segment} (batch k-{segment}, from files)" if segment else ""
            lines.append(f"  stage {level}{late}: {names}" + (f", run {', '.join(fused)}" if fused else ""))
    return lines
