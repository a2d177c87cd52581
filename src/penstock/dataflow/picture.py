"""A flow as a picture: columns by depth, a box a region, pipelines inside it, as SVG."""

from html import escape

from penstock.dataflow.graph import Graph
from penstock.dataflow.layout import Layout
from penstock.dataflow.plan import Plan
from penstock.dataflow.regions import Region, Regions

_WIDE, _GAP, _LINE, _PAD = 190, 60, 22, 12
_COLOURS = {
    "stateless": "#e8f0fe",
    "partitioned": "#e6f4ea",
    "stateful": "#fef7e0",
    "source": "#f1f3f4",
    "sink": "#f1f3f4",
}


def draw(graph: Graph, regions: Regions, plan: Plan, layout: Layout) -> str:
    """The picture as SVG text."""
    boxes = {s: ("source", [s]) for s in graph.sources}
    boxes |= {r.name: (r.kind, _lines(r, plan, layout)) for r in regions}
    boxes |= {f"sink {s}": ("sink", [s]) for s in graph.sinks}
    edges = _edges(graph, regions)
    depth = _depths(list(boxes), edges)
    places: dict[str, tuple[int, int, int]] = {}
    fill: dict[int, int] = {}
    for name, (_, lines) in boxes.items():
        high = _LINE * len(lines) + 2 * _PAD
        top = fill.get(depth[name], _GAP // 2)
        places[name] = (depth[name] * (_WIDE + _GAP) + _GAP // 2, top, high)
        fill[depth[name]] = top + high + _GAP // 2
    width = (max(depth.values()) + 1) * (_WIDE + _GAP)
    parts = [_arrow(places[a], places[b]) for a, b in edges]
    parts += [_box(*places[name], kind, lines) for name, (kind, lines) in boxes.items()]
    head = '<defs><marker id="a" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto"><path d="M0,0 L8,4 L0,8 z"/></marker></defs>'
    size = f'width="{width}" height="{max(fill.values())}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="12">{head}{"".join(parts)}</svg>\n'


def _lines(region: Region, plan: Plan, layout: Layout) -> list[str]:
    keys = f" by {', '.join(region.keys)}" if region.keys else ""
    title = f"{region.kind}{keys}"
    replicas = plan.regions[region.name].replicas
    if region.scales or replicas > 1:
        title += f" x{replicas}"
    own = [p for p in layout.pipelines if p.region == region.name]
    return [
        title,
        *(f"{' > '.join(p.operators)}" + (f"  (batch k-{p.segment})" if p.segment else "") for p in own),
    ]


def _edges(graph: Graph, regions: Regions) -> list[tuple[str, str]]:
    def place(name: str) -> str:
        return name if name in graph.sources else regions.of(name).name

    found = [(place(f), place(n)) for n in graph.nodes for f in graph.feeders(n)]
    found += [(place(s.stream.node), f"sink {s.name}") for s in graph.sinks.values()]
    return [e for e in dict.fromkeys(found) if e[0] != e[1]]


def _depths(names: list[str], edges: list[tuple[str, str]]) -> dict[str, int]:
    depth = dict.fromkeys(names, 0)
    for _ in names:
        for a, b in edges:
            depth[b] = max(depth[b], depth[a] + 1)
    return depth


def _box(left: int, top: int, high: int, kind: str, lines: list[str]) -> str:
    rect = f'<rect x="{left}" y="{top}" width="{_WIDE}" height="{high}" rx="6" fill="{_COLOURS[kind]}" stroke="#555"/>'
    texts = [
        f'<text x="{left + _PAD}" y="{top + _PAD + _LINE * (i + 1) - 7}" font-weight="{400 if i else 700}">{escape(line)}</text>'
        for i, line in enumerate(lines)
    ]
    return rect + "".join(texts)


def _arrow(start: tuple[int, int, int], end: tuple[int, int, int]) -> str:
    y1, y2 = start[1] + start[2] // 2, end[1] + end[2] // 2
    return f'<line x1="{start[0] + _WIDE}" y1="{y1}" x2="{end[0]}" y2="{y2}" stroke="#555" marker-end="url(#a)"/>'
