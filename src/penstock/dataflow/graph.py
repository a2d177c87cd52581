"""The data flow graph: sources, operators, sinks and the streams between them.

A graph is put together by hand and frozen before it runs; nothing in it says how parallel it is to be.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, Unpack

import pyarrow as pa

from penstock.core.errors import PenstockError, unknown
from penstock.core.names import check_name
from penstock.dataflow.keys import with_common_keys
from penstock.dataflow.operators import (
    HIDDEN,
    Operator,
    Properties,
    Spec,
)
from penstock.dataflow.schemas import SchemaLike, fits, schema_of

#: A sink on the driver: called with (rows as a DataFrame, batch id), perhaps again with the same rows after a crash.
SinkFunction = Callable[[Any, int], object]

#: Where a sink's rows go: a function, or a topic or table that only the Spark layer knows.
SinkTarget = SinkFunction | object


@dataclass(frozen=True)
class Stream:
    """What comes out of one port of a source or an operator."""

    graph: "Graph" = field(repr=False, compare=False)
    node: str
    port: str

    def through(
        self,
        operator: Operator,
        *others: "Stream",
        name: str | None = None,
        **given: Unpack[Properties],
    ) -> "Stream":
        """Send this stream (and others, to the further input ports in order) through an operator.

        ``name`` is the operator's name in the flow; all else completes the operator, as in ``@penstock.operator``.
        """
        return self.graph.apply(operator, self, *others, name=name, **given)

    def port_named(self, port: str) -> "Stream":
        """Another output port of the same operator."""
        return self.graph.node(self.node).stream(port)

    def sink(self, name: str, to: SinkTarget | None = None) -> "Stream":
        """Make this stream an output of the flow; gives the stream back.

        A function is called with (DataFrame, batch id) on the driver after each commit; a topic or a table
        (``penstock.spark.KafkaTopic``, ``penstock.spark.DeltaTable``) gets each row once; otherwise the rows are files.
        """
        self.graph.sink(name, self, to)
        return self


@dataclass
class Node:
    """An operator in its place."""

    graph: "Graph" = field(repr=False)
    name: str
    operator: Operator
    #: Input port -> the streams that feed it.
    inputs: dict[str, list[Stream]] = field(default_factory=dict)

    @property
    def spec(self) -> Spec:
        """The operator's declared properties."""
        return self.operator.spec

    def stream(self, port: str | None = None) -> Stream:
        """One of the node's outputs; the first one without a name."""
        ports = self.spec.outputs
        if not ports:
            raise PenstockError(f"The operator '{self.name}' has no output port; end the flow there.")
        if port is not None and port not in ports:
            raise unknown(f"output port of operator '{self.name}'", port, ports)
        return Stream(self.graph, self.name, port or next(iter(ports)))


@dataclass(frozen=True)
class Source:
    """Where rows enter: a name, a schema, and (for the Spark runtime) a streaming DataFrame."""

    name: str
    schema: pa.Schema
    frame: Any = field(default=None, repr=False, compare=False)
    #: The column by whose order rows of several sources are merged within a micro-batch.
    time: str | None = None


@dataclass(frozen=True)
class Sink:
    """A named output of the flow."""

    name: str
    stream: Stream
    to: SinkTarget | None = field(default=None, repr=False, compare=False)


class Graph:
    """A flow without a runtime: what the Spark runtime, the reference run and ``explain`` share.

    >>> from penstock.dataflow.operators import operator
    >>> @operator(keys="word", state={"n": int}, output={"word": str, "n": int})
    ... def count(rows, state, output): ...
    >>> graph = Graph("words")
    >>> _ = graph.source("words", {"word": str}).through(count).sink("counts")
    >>> graph.check(); graph.order()
    ['count']
    """

    def __init__(self, name: str) -> None:
        self.name = check_name(name, "flow")
        self.sources: dict[str, Source] = {}
        self.nodes: dict[str, Node] = {}
        self.sinks: dict[str, Sink] = {}

    def source(self, name: str, schema: SchemaLike, frame: Any = None, time: str | None = None) -> Stream:
        """Declare a source by the columns it gives."""
        made = Source(self._free(name), schema_of(schema), frame, time)
        for column in made.schema.names:
            if column.startswith(HIDDEN):
                raise PenstockError(f"The column '{column}' of source '{name}' begins with '__'; rename it.")
        if time is not None and time not in made.schema.names:
            raise unknown(f"time column of source '{name}'", time, made.schema.names)
        self.sources[name] = made
        return Stream(self, name, "out")

    def add(self, operator: Operator, name: str | None = None, **given: Unpack[Properties]) -> Node:
        """Place an operator without connecting it yet."""
        if not isinstance(operator, Operator):
            raise PenstockError(
                f"{operator!r} is not an operator; decorate it with @penstock.operator(...) or derive it from penstock.Operator."
            )
        label = self._free(name or self._numbered(operator.label))
        try:
            placed = operator.composed(**given)
        except PenstockError as error:
            raise PenstockError(f"Operator '{label}': {error}") from None
        node = Node(self, label, placed, {port: [] for port in placed.spec.inputs})
        self.nodes[label] = node
        return node

    def connect(self, stream: Stream, node: Node | str, port: str | None = None) -> None:
        """Feed a stream to an input port (the first one unless named); several streams to one port are merged."""
        target = self.node(node if isinstance(node, str) else node.name)
        ports = target.spec.inputs
        if port is not None and port not in ports:
            raise unknown(f"input port of operator '{target.name}'", port, ports)
        if stream.graph is not self:
            raise PenstockError(
                f"A stream of another flow was given to operator '{target.name}'; build both in one flow."
            )
        target.inputs[port or next(iter(ports))].append(stream)

    def apply(
        self, operator: Operator, *streams: Stream, name: str | None = None, **given: Unpack[Properties]
    ) -> Stream:
        """Place an operator and feed its input ports in order; gives its first output."""
        node = self.add(operator, name, **given)
        ports = list(node.spec.inputs)
        if len(streams) != len(ports):
            del self.nodes[node.name]
            raise PenstockError(
                f"Operator '{node.name}' has {len(ports)} input ports ({', '.join(ports)}) but got {len(streams)} streams."
            )
        for stream, port in zip(streams, ports, strict=True):
            self.connect(stream, node, port)
        return node.stream() if node.spec.outputs else Stream(self, node.name, "")

    def sink(self, name: str, stream: Stream, to: SinkTarget | None = None) -> None:
        """Name an output of the flow; its rows go to a folder of that name, or to ``to(frame, batch_id)`` on the driver."""
        if name in self.sinks:
            raise PenstockError(f"Two sinks are called '{name}'; give each its own name.")
        self.sinks[name] = Sink(check_name(name, "sink"), stream, to)

    def node(self, name: str) -> Node:
        """The operator of that name."""
        if name not in self.nodes:
            raise unknown("operator", name, self.nodes)
        return self.nodes[name]

    def order(self) -> list[str]:
        """Operators so that each comes after those that feed it; raises on a cycle."""
        done: list[str] = []
        waiting = list(self.nodes)
        while waiting:
            ready = [n for n in waiting if all(s in done or s in self.sources for s in self.feeders(n))]
            if not ready:
                raise PenstockError(
                    f"The operators {_path(self, waiting)} feed each other in a cycle; a flow must not."
                )
            done += ready
            waiting = [n for n in waiting if n not in ready]
        return done

    def feeders(self, name: str) -> list[str]:
        """Sources and operators that feed an operator."""
        return [s.node for streams in self.nodes[name].inputs.values() for s in streams]

    def readers(self, name: str) -> list[tuple[str, str, str]]:
        """Who takes what a source or operator gives: (its output port, operator, that one's input port)."""
        return [
            (stream.port, node.name, port)
            for node in self.nodes.values()
            for port, streams in node.inputs.items()
            for stream in streams
            if stream.node == name
        ]

    def sinks_of(self, name: str) -> list[Sink]:
        """Sinks that take rows from a source or operator."""
        return [sink for sink in self.sinks.values() if sink.stream.node == name]

    def check(self) -> None:
        """Raise the first thing that is wrong: something unconnected, a cycle, schemas that do not meet."""
        if not self.sources or not self.nodes:
            raise PenstockError(f"The flow '{self.name}' needs at least one source and one operator.")
        for node in self.nodes.values():
            for port, streams in node.inputs.items():
                if not streams:
                    raise PenstockError(
                        f"The input port '{port}' of operator '{node.name}' is fed by nothing; connect a stream."
                    )
        self.schemas()

    def schemas(self) -> dict[tuple[str, str], pa.Schema]:
        """The schema of every output port of every source and operator, checked against what takes it."""
        known = {(s.name, "out"): s.schema for s in self.sources.values()}
        for name in self.order():
            inputs = self._input_schemas(self.nodes[name], known)
            for port, schema in self.nodes[name].spec.outputs.items():
                known[name, port] = _output_schema(name, port, schema, inputs)
        return known

    def input_schemas(self, name: str) -> dict[str, pa.Schema]:
        """The schema at each input port of an operator."""
        return self._input_schemas(self.nodes[name], self.schemas())

    def _input_schemas(self, node: Node, known: Mapping[tuple[str, str], pa.Schema]) -> dict[str, pa.Schema]:
        found = {
            port: _merged(node, port, [known[s.node, s.port] for s in streams])
            for port, streams in node.inputs.items()
        }
        for port, schema in found.items():
            wanted = node.spec.inputs[port]
            problem = None if wanted is None else fits(schema, wanted)
            if problem:
                raise PenstockError(
                    f"Operator '{node.name}' cannot take what comes to its port '{port}': {problem}."
                )
            _check_keys(node, port, schema)
        return with_common_keys(node.name, node.spec.keys, found)

    def _free(self, name: str) -> str:
        if name in self.sources or name in self.nodes:
            raise PenstockError(
                f"Two sources or operators of the flow '{self.name}' are called '{name}'; name each once."
            )
        return check_name(name, "source or operator")

    def _numbered(self, label: str) -> str:
        taken = {*self.sources, *self.nodes}
        return next(n for n in (label, *(f"{label}{i}" for i in range(2, 10_000))) if n not in taken)


def _merged(node: Node, port: str, schemas: Sequence[pa.Schema]) -> pa.Schema:
    def same(left: pa.Schema, right: pa.Schema) -> pa.Schema:
        if not left.equals(right):
            raise PenstockError(
                f"Two streams with different columns feed the port '{port}' of operator '{node.name}' "
                f"({', '.join(left.names)} and {', '.join(right.names)}); give them the same schema."
            )
        return left

    return reduce(same, schemas)


def _check_keys(node: Node, port: str, schema: pa.Schema) -> None:
    needed = [(k, "key column") for k in node.spec.keys]
    needed += [(node.spec.event_time, "time column")] if node.spec.event_time else []
    for column, what in needed:
        if column not in schema.names:
            raise PenstockError(
                f"Operator '{node.name}' needs the {what} '{column}', which its port '{port}' does not have; it has {', '.join(schema.names)}."
            )
        if pa.types.is_nested(schema.field(column).type):
            raise PenstockError(
                f"The {what} '{column}' of operator '{node.name}' is {schema.field(column).type}; it must be a plain value."
            )


def _output_schema(name: str, port: str, given: Any, inputs: Mapping[str, pa.Schema]) -> pa.Schema:
    if given is None:
        return next(iter(inputs.values()))
    if not callable(given):
        return given
    try:
        return schema_of(given(inputs))
    except Exception as error:  # noqa: BLE001 - a schema function is user code
        raise PenstockError(
            f"The schema of port '{port}' of operator '{name}' cannot be made: {error}."
        ) from None


def _path(graph: Graph, names: Sequence[str]) -> str:
    """One cycle among the operators, in words."""
    seen = [names[0]]
    while True:
        before = next(f for f in graph.feeders(seen[-1]) if f in names)
        if before in seen:
            return " -> ".join(reversed([*seen[seen.index(before) :], before]))
        seen.append(before)
