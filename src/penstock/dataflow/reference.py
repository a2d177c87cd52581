"""The flow in one process, one operator after another: what every other way of running it must equal."""

import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.core.belief import Belief, judge, learned
from penstock.dataflow.graph import Graph
from penstock.dataflow.invoke import Before, Result, entering, invoke
from penstock.dataflow.layers import merge
from penstock.dataflow.regions import find_regions
from penstock.dataflow.rows import Chunk, event_times, joined
from penstock.dataflow.wiring import make_tasks


class Reference:
    """Runs micro-batches through a flow, with its state in memory.

    >>> from penstock.dataflow.operators import operator
    >>> from penstock.dataflow.running_figures import running_count
    >>> @operator(keys="word", state={"n": int}, output={"word": str, "n": int})
    ... def count(rows, state, output):
    ...     output.emit({"word": rows.column("word"), "n": running_count(rows.slots, state["n"])})
    >>> graph = Graph("words")
    >>> _ = graph.source("words", {"word": str}).through(count).sink("counts")
    >>> reference = Reference(graph)
    >>> _ = reference.run({"words": pa.table({"word": ["a", "b"]})})
    >>> reference.run({"words": pa.table({"word": ["a"]})})["counts"].to_pylist()
    [{'word': 'a', 'n': 2}]
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.tasks = make_tasks(graph, find_regions(graph))
        self.layers: dict[str, list[pa.Table]] = {}
        self.clocks: dict[str, int] = {}
        self.beliefs: dict[str, Belief] = {}
        self.dead: list[tuple[str, str]] = []
        for task in self.tasks.values():
            task.operator.initialize(task.context)

    def run(self, batch: Mapping[str, pa.Table], now: float = 0.0) -> dict[str, pa.Table]:
        """One micro-batch: rows by source in, rows by sink out; ``now`` is the time of timers by processing time."""
        given: dict[tuple[str, str], Chunk] = {}
        first = 0
        for name, source in self.graph.sources.items():
            table = batch.get(name, source.schema.empty_table()).cast(source.schema)
            numbers = np.arange(first, first + table.num_rows)
            first += table.num_rows
            given[name, "out"] = Chunk(table, _positions(self.graph, source.time, table, numbers))
        for name in self.graph.order():
            self._operator(name, given, int(now * 1e6))
        out = {}
        for sink in self.graph.sinks.values():
            chunk = given.get((sink.stream.node, sink.stream.port))
            if chunk is not None and chunk.rows:
                out[sink.name] = chunk.table
        return out

    def run_all(self, batches: Iterable[Mapping[str, pa.Table]]) -> dict[str, pa.Table]:
        """All micro-batches; the rows of each sink together."""
        outputs: dict[str, list[pa.Table]] = {}
        for batch in batches:
            for sink, table in self.run(batch).items():
                outputs.setdefault(sink, []).append(table)
        return {sink: pa.concat_tables(tables) for sink, tables in outputs.items()}

    def _operator(self, name: str, given: dict[tuple[str, str], Chunk], now: int) -> None:
        node = self.graph.nodes[name]
        arrived = {}
        for port, streams in node.inputs.items():
            chunks = [given[s.node, s.port] for s in streams if (s.node, s.port) in given]
            if chunks and any(c.rows for c in chunks):
                whole = joined([Chunk(c.table, c.positions) for c in chunks])
                arrived[port] = entering(self.tasks[name], port, whole)
        if not arrived and not node.spec.watches:
            return
        result = self._invoked(name, arrived, now)
        self.dead += [(d.operator, d.reason) for d in result.dead for _ in range(d.rows.num_rows)]
        if result.layer is not None:
            self.layers[name] = [merge([*self.layers.get(name, []), result.layer])]
        for port, chunk in result.outputs.items():
            given[name, port] = chunk

    def _invoked(self, name: str, arrived: Mapping[str, Chunk], now: int) -> Result:
        """Call an operator; once more where the batch itself shows that other event times are to be believed."""
        clock, belief = self.clocks.get(name), self.beliefs.get(name, Belief())
        limits, wall = self.graph.nodes[name].spec.limits, int(time.time() * 1e6)
        latest = belief.latest(clock, wall, limits)
        before = Before(self.layers.get(name, ()), clock, now, latest)
        result = invoke(self.tasks[name], arrived, before)
        judged = judge(result.told, result.timed, belief, latest, wall, limits)
        if judged.overturns(latest, result.told):
            result = invoke(self.tasks[name], arrived, replace(before, latest=judged.bound))
        if result.clock is not None:
            self.clocks[name] = max(result.clock, self.clocks.get(name, result.clock))
        self.beliefs[name] = learned(belief, judged, clock, self.clocks.get(name), wall, limits.ahead)
        return result


def _positions(graph: Graph, column: str | None, table: pa.Table, numbers: NDArray[Any]) -> NDArray[Any]:
    if not any(s.time for s in graph.sources.values()):
        return numbers
    times = event_times(table.column(column)) if column else np.zeros(len(numbers), dtype=np.int64)
    return np.column_stack([times, numbers])
