"""Regions: the longest chains of operators that can be replicated as a whole (Joker 3.2).

- Each source is a region of its own.
- Operators of a region have at most one predecessor and one successor: branches and joins end regions.
- A data parallel region begins with a stateless or partitioned operator and holds only those two kinds, at least one
  of them partitioned. The keys of its first partitioned operator are the region's keys; keys of later ones must
  contain them, and the inputs of its stateless operators must have them.
- What is left is joined into regions of stateless and stateful operators. Beyond the paper, one that is stateless only may
  have replicas too: its tuples need no routing by key and are dealt out evenly.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import pyarrow as pa

from penstock.core.errors import unknown
from penstock.dataflow.graph import Graph

#: For each key column the types that it has on the ports of an operator.
KeyTypes = tuple[frozenset[pa.DataType], ...]


@dataclass(frozen=True)
class Region:
    """A chain of operators; ``kind`` is that of its most demanding operator."""

    name: str
    operators: tuple[str, ...]
    kind: str
    keys: tuple[str, ...] = ()

    @property
    def scales(self) -> bool:
        """Whether it can have several replicas that share its keys."""
        return self.kind == "partitioned"

    @property
    def replicable(self) -> bool:
        """Whether it can have several replicas at all: those of a stateless region take any tuple."""
        return self.kind != "stateful"


@dataclass(frozen=True)
class Regions:
    """All regions of a flow in topological order, and which region has which operator."""

    all: tuple[Region, ...]

    def __iter__(self):  # type: ignore[no-untyped-def]
        return iter(self.all)

    def named(self, name: str) -> Region:
        """The region of that name, or the one that holds the operator of that name."""
        for region in self.all:
            if name == region.name or name in region.operators:
                return region
        raise unknown("region", name, [r.name for r in self.all])

    def of(self, operator: str) -> Region:
        """The region of an operator."""
        return next(r for r in self.all if operator in r.operators)


def find_regions(graph: Graph) -> Regions:
    """The regions of a flow's operators (sources stand apart).

    >>> from penstock.dataflow.operators import operator
    >>> split = operator(output={"word": str})(lambda rows, output: None)
    >>> count = operator(keys="word", state={"n": int}, output={"word": str, "n": int})(lambda rows, state, output: None)
    >>> graph = Graph("words")
    >>> lines = graph.source("lines", {"line": str})
    >>> _ = lines.through(split, name="split").through(count, name="count").sink("counts")
    >>> [(r.operators, r.kind, r.keys) for r in find_regions(graph)]
    [(('split',), 'stateless', ()), (('count',), 'partitioned', ('word',))]
    """
    graph.check()
    schemas = graph.schemas()
    regions: list[Region] = []
    for name in graph.order():
        before = _predecessor(graph, name)
        at = next(
            (i for i, r in enumerate(regions) if before is not None and r.operators[-1] == before), None
        )
        if at is None:
            regions.append(_alone(graph, name))
        else:
            regions[at : at + 1], rest = _joined(graph, schemas, regions[at], name)
            regions += rest
    return Regions(_ordered(graph, regions))


def _predecessor(graph: Graph, name: str) -> str | None:
    """The one operator that feeds this one and feeds nothing else."""
    feeders = graph.feeders(name)
    if len(feeders) != 1 or feeders[0] in graph.sources:
        return None
    downstream = len(graph.readers(feeders[0])) + len(graph.sinks_of(feeders[0]))
    return feeders[0] if downstream == 1 else None


def _alone(graph: Graph, name: str) -> Region:
    spec = graph.nodes[name].spec
    return Region(name, (name,), spec.kind, spec.keys)


def _joined(
    graph: Graph, schemas: Mapping[tuple[str, str], pa.Schema], region: Region, name: str
) -> tuple[list[Region], list[Region]]:
    """The region with the operator added, or what becomes of both."""
    spec = graph.nodes[name].spec
    grown = replace(region, operators=(*region.operators, name))
    if region.kind == "partitioned":
        return (
            ([grown], []) if _compatible(graph, schemas, region, name) else ([region], [_alone(graph, name)])
        )
    if spec.kind != "partitioned":
        return [
            replace(grown, kind="stateful" if "stateful" in (region.kind, spec.kind) else "stateless")
        ], []
    cut = len(region.operators)
    types = key_types(graph, name, spec.keys)
    while cut > 0 and _carries(graph, schemas, region.operators[cut - 1], spec.keys, types):
        cut -= 1
    return _cut(graph, region, cut, name)


def _cut(graph: Graph, region: Region, cut: int, name: str) -> tuple[list[Region], list[Region]]:
    """Leave the operators before ``cut`` where they are; the others begin a data parallel region with ``name``."""
    spec = graph.nodes[name].spec
    tail = (*region.operators[cut:], name)
    parallel = Region(tail[0], tail, "partitioned", spec.keys)
    if cut == 0:
        return [parallel], []
    head = region.operators[:cut]
    kinds = {graph.nodes[n].spec.kind for n in head}
    return [replace(region, operators=head, kind="stateful" if "stateful" in kinds else "stateless")], [
        parallel
    ]


def _compatible(
    graph: Graph, schemas: Mapping[tuple[str, str], pa.Schema], region: Region, name: str
) -> bool:
    spec = graph.nodes[name].spec
    changed = {c for n in region.operators for c in graph.nodes[n].spec.changes}
    if changed & set(region.keys):
        return False
    types = key_types(graph, region.operators[0], region.keys)
    if spec.kind == "partitioned":
        return set(region.keys) <= set(spec.keys) and key_types(graph, name, region.keys) == types
    return spec.kind == "stateless" and _carries(graph, schemas, name, region.keys, types)


def _carries(
    graph: Graph,
    schemas: Mapping[tuple[str, str], pa.Schema],
    name: str,
    keys: tuple[str, ...],
    types: KeyTypes,
) -> bool:
    """Whether a stateless operator's input has the key columns, of these types, and hands them on unchanged."""
    node = graph.nodes[name]
    if node.spec.kind != "stateless" or set(node.spec.changes) & set(keys):
        return False
    inputs = [schemas[s.node, s.port] for streams in node.inputs.values() for s in streams]
    return all(set(keys) <= set(schema.names) for schema in inputs) and key_types(graph, name, keys) == types


def key_types(graph: Graph, name: str, keys: tuple[str, ...]) -> KeyTypes:
    """The types of key columns where they come to an operator: equal keys go together only where these are equal too."""
    schemas = graph.input_schemas(name).values()
    return tuple(frozenset(schema.field(k).type for schema in schemas) for k in keys)


def _ordered(graph: Graph, regions: list[Region]) -> tuple[Region, ...]:
    place = {name: at for at, name in enumerate(graph.order())}
    return tuple(sorted(regions, key=lambda r: place[r.operators[0]]))
