"""A flow with its layout worked out: who hands tuples to whom, in the same task, by message, or to a sink.

The wiring is made by the driver for each plan and sent to the tasks.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.dataflow.graph import Graph
from penstock.dataflow.kept_keys import kept_keys
from penstock.dataflow.layout import Layout
from penstock.dataflow.operators import Context, Operator, Spec
from penstock.dataflow.regions import Regions


@dataclass(frozen=True)
class Task:
    """An operator in its place, ready to be called."""

    operator: Operator
    context: Context
    #: Keys of the region: the groups, and with them the top bits of all hashes, go by these.
    region_keys: tuple[str, ...] = ()
    #: Output port -> the keys that its rows must carry on unchanged.
    kept: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    #: Whether the flow merges its sources by time, so that positions are two numbers.
    timed: bool = False

    @property
    def spec(self) -> Spec:
        """The operator's declared properties."""
        return self.operator.spec


@dataclass(frozen=True)
class Local:
    """The next operator runs in the same task."""

    operator: str
    port: str


@dataclass(frozen=True)
class Send:
    """The next operator runs in another task: route by the keys of its region, or deal out evenly where it has none."""

    pipeline: int
    operator: str
    port: str


@dataclass(frozen=True)
class Write:
    """The rows leave the flow."""

    sink: str


Target = Local | Send | Write


@dataclass(frozen=True)
class Wiring:
    """Operators ready to be called, and where the rows of each output port go."""

    tasks: Mapping[str, Task]
    targets: Mapping[tuple[str, str], tuple[Target, ...]]
    layout: Layout


def make_wiring(graph: Graph, regions: Regions, layout: Layout) -> Wiring:
    """Work out every hand-over of a flow."""
    schemas = graph.schemas()
    tasks = make_tasks(graph, regions)
    targets: dict[tuple[str, str], tuple[Target, ...]] = {}
    for name, port in schemas:
        found: list[Target] = [
            _target(layout, name, reader, to) for out, reader, to in graph.readers(name) if out == port
        ]
        found += [Write(sink.name) for sink in graph.sinks_of(name) if sink.stream.port == port]
        targets[name, port] = tuple(found)
    return Wiring(tasks, targets, layout)


def make_tasks(graph: Graph, regions: Regions) -> dict[str, Task]:
    """All operators of a flow, ready to be called."""
    schemas, kept = graph.schemas(), kept_keys(graph, regions)
    timed = any(source.time for source in graph.sources.values())
    made = {}
    for name, node in graph.nodes.items():
        outputs = {port: schemas[name, port] for port in node.spec.outputs}
        context = Context(name, graph.input_schemas(name), outputs, node.spec.keys)
        made[name] = Task(node.operator, context, regions.of(name).keys, kept[name], timed)
    return made


def _target(layout: Layout, name: str, reader: str, port: str) -> Target:
    there = layout.of(reader)
    same_task = any(name in p.operators and reader in p.operators for p in layout.pipelines)
    return Local(reader, port) if same_task or there.fused else Send(there.number, reader, port)
