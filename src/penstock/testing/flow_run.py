"""A flow run without Spark: the real runtime, routing, state files, commits and recovery, fed by hand."""

from collections.abc import Mapping
from math import inf, nan
from pathlib import Path
from typing import Any

import pyarrow as pa

from penstock.core.controller import Controller
from penstock.core.journal import Journal
from penstock.core.policy import AnyPolicy
from penstock.dataflow.graph import Graph
from penstock.dataflow.plan import Plan
from penstock.dataflow.schemas import schema_of
from penstock.spark.flow.definition import Definition
from penstock.spark.flow.flow_plant import FlowPlant
from penstock.spark.flow.program import FlowProgram
from penstock.spark.flow.run import FlowRun
from penstock.spark.flow.task_output import FlowOutputs
from penstock.spark.runtime.checkpoint import Checkpoint
from penstock.spark.runtime.gathering import Gathering
from penstock.spark.runtime.outbox import Destination
from penstock.spark.runtime.output_places import OutputPlaces
from penstock.spark.runtime.worker_room import Room
from penstock.testing.by_hand import FedByHand
from penstock.testing.frames import InProcessFrame, InProcessSession


def frame_of(graph: Graph, batch: Mapping[str, pa.Table], partitions: int = 2) -> InProcessFrame:
    """A micro-batch as the union of a flow's sources has it: each source in several partitions."""
    several = len(graph.sources) > 1
    parts = []
    for at, (name, source) in enumerate(graph.sources.items()):
        table = batch.get(name, source.schema.empty_table()).cast(schema_of(source.schema)).combine_chunks()
        size = -(-table.num_rows // partitions) or 1
        for begin in range(0, table.num_rows, size):
            rows = table.slice(begin, size).combine_chunks()
            parts.append(_packed(graph, at, rows) if several else rows.to_batches())
    return InProcessFrame(parts or [[]])


def _packed(graph: Graph, at: int, rows: pa.Table) -> list[pa.RecordBatch]:
    columns: dict[str, Any] = {"source": pa.array([at] * rows.num_rows, pa.int32())}
    for i, source in enumerate(graph.sources.values()):
        for n, column in enumerate(source.schema):
            columns[f"c{i}_{n}"] = rows.column(n) if i == at else pa.nulls(rows.num_rows, column.type)
    whole = pa.table(columns).combine_chunks()
    return list(whole.to_batches())


class InProcessRun(FlowRun, FedByHand[FlowProgram]):
    """A flow run that is fed by hand: ``run.feed({"lines": table})`` is one micro-batch."""

    def feed(self, batch: Mapping[str, pa.Table], partitions: int = 2) -> None:
        """Process one micro-batch; does nothing for one that is committed already, as Spark's replay would."""
        number = self._next
        self._next = number + 1
        self._run(frame_of(self._program.definition.graph, batch, partitions), number)  # type: ignore[arg-type]

    _next = 0

    def abandon(self) -> None:
        """Let go of everything as a killed process would."""
        self._ended.set()
        self._checkpoint.close()


def start_in_process(
    graph: Graph,
    folder: str | Path,
    *,
    groups: int = 16,
    plan: Plan | None = None,
    journal: Journal | None = None,
    policy: AnyPolicy | None = None,
    slots: float = inf,
    trigger: float = nan,
    gather: str | None = None,
    dead_letters: Destination | None = None,
) -> InProcessRun:
    """Start a flow without Spark, with checkpoint and outputs under ``folder``; sinks may go to topics and tables.

    Its controller is not started: step it by hand, or start it. ``trigger``: seconds that there are for a batch.
    """
    definition = Definition(graph)
    base = Path(folder)
    held = Checkpoint(base / "checkpoint", definition.identity(groups), Gathering.of(gather))
    places = OutputPlaces(held.folder, base / "out")
    sinks = {}
    for name, sink in graph.sinks.items():
        place = sink.to if isinstance(sink.to, Destination) else base / "out" / name
        sinks[name] = places.made(place, f"sink {name}")
    outputs = FlowOutputs(sinks, places.dead_letters(dead_letters or base / "dead"))
    held.outboxes = tuple(places.outboxes)
    for name in graph.nodes:
        Path(outputs.dead.path, name).mkdir(parents=True, exist_ok=True)
    first = plan or Plan.first(definition.regions, groups)
    program = FlowProgram(definition, first, outputs, str(held.state_folder))
    if policy is not None:
        program.weigh_keys()
    kept = journal or Journal()
    plant = FlowPlant(program, Room(lambda: slots), trigger)
    program.listen(plant.put)
    controller = Controller(plant, policy, journal=kept, period=0.0)
    try:
        return InProcessRun(program, held, InProcessSession(), kept, controller)  # type: ignore[arg-type]
    except BaseException:
        held.close()
        raise
