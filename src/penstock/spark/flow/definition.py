"""A flow as the runtime needs it: checked, cut into regions, with wirings kept by plan."""

from typing import Any

import pyarrow as pa

from penstock.dataflow.evolution import channels_of, shapes_of
from penstock.dataflow.graph import Graph
from penstock.dataflow.layout import make_layout
from penstock.dataflow.plan import Plan
from penstock.dataflow.regions import find_regions
from penstock.dataflow.wiring import Wiring, make_wiring


class Definition:
    """A checked flow."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.regions = find_regions(graph)
        self.sources: tuple[tuple[str, pa.Schema, str | None], ...] = tuple(
            (s.name, s.schema, s.time) for s in graph.sources.values()
        )
        self.timed = any(s.time for s in graph.sources.values())
        #: Keys that files may forget when they are merged; where expiry is a call, only the call forgets them.
        self.ttl = {
            n: node.spec.ttl.seconds
            for n, node in graph.nodes.items()
            if node.spec.ttl and node.spec.on_expiry is None
        }
        schemas = graph.schemas()
        self.sink_schemas = {s.name: schemas[s.stream.node, s.stream.port] for s in graph.sinks.values()}
        self.shapes = shapes_of(graph, self.regions)
        self.channels = channels_of(graph, self.regions)
        self._wirings: list[tuple[Plan, Wiring]] = []

    def wiring(self, plan: Plan) -> Wiring:
        """The wiring under a plan; the last few are kept."""
        for known, wiring in self._wirings:
            if known == plan:
                return wiring
        made = make_wiring(self.graph, self.regions, make_layout(self.graph, self.regions, plan))
        self._wirings = [(plan, made), *self._wirings[:7]]
        return made

    def identity(self, groups: int) -> dict[str, Any]:
        """What makes state of this flow unusable for another."""
        return {"kind": "flow", "name": self.graph.name, "key groups": groups}
