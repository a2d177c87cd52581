"""A frame that runs the tasks of a flow in this process: how flows are tested by the thousand without a cluster.

It has just the methods of a DataFrame that the runtime uses. Tasks run one after another, each partition on its own,
so everything but Spark itself is the real thing: routing, state files, commits, recovery.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from penstock.dataflow.graph import Graph
from penstock.dataflow.plan import Plan
from penstock.dataflow.schemas import schema_of
from penstock.spark.flow.definition import Definition
from penstock.spark.flow.lifecycle import without_spark
from penstock.spark.flow.program import FlowProgram
from penstock.spark.flow.run import FlowRun
from penstock.spark.flow.writing import Folders
from penstock.spark.runtime.checkpoint import Checkpoint

Function = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


class Options:
    """Stands for a session's options, which nothing here depends on."""

    def set(self, key: str, value: str) -> None:
        """Take an option."""


class Session:
    """Stands for a Spark session."""

    conf = Options()

    def range(self, start: int, end: int, _step: int, partitions: int) -> "Frame":
        """Numbers, one partition each."""
        numbers = [pa.record_batch({"id": [i]}) for i in range(start, end)]
        return Frame([[n] for n in numbers][:partitions])


class Frame:
    """Stands for a DataFrame: record batches by partition."""

    isStreaming = True

    def __init__(self, partitions: Sequence[Sequence[pa.RecordBatch]]) -> None:
        self.partitions = [list(p) for p in partitions]

    @property
    def sparkSession(self) -> Session:
        """The session."""
        return Session()

    def mapInArrow(self, function: Function, _schema: Any) -> "Frame":
        """Run the function on each partition."""
        done = []
        for number, batches in enumerate(self.partitions):
            without_spark.partition = number
            done.append(list(function(iter(batches))))
        return Frame(done)

    def repartitionById(self, count: int, column: str) -> "Frame":
        """Send each row to the partition whose number it carries."""
        moved: list[list[pa.RecordBatch]] = [[] for _ in range(count)]
        for batch in (b for part in self.partitions for b in part):
            for row, worker in enumerate(batch.column(column).to_pylist()):
                moved[worker % count].append(batch.slice(row, 1))
        return Frame(moved)

    def select(self, *columns: str) -> "Frame":
        """Some columns."""
        return Frame([[b.select(list(columns)) for b in part] for part in self.partitions])

    def collect(self) -> list[tuple[Any, ...]]:
        """All rows."""
        batches = [b for part in self.partitions for b in part]
        return [row for b in batches for row in zip(*(c.to_pylist() for c in b.columns), strict=True)]


def frame_of(graph: Graph, batch: Mapping[str, pa.Table], partitions: int = 2) -> Frame:
    """A micro-batch as the union of a flow's sources has it: each source in several partitions."""
    several = len(graph.sources) > 1
    parts = []
    for at, (name, source) in enumerate(graph.sources.items()):
        table = batch.get(name, source.schema.empty_table()).cast(schema_of(source.schema)).combine_chunks()
        size = -(-table.num_rows // partitions) or 1
        for begin in range(0, table.num_rows, size):
            rows = table.slice(begin, size).combine_chunks()
            parts.append(_packed(graph, at, rows) if several else rows.to_batches())
    return Frame(parts or [[]])


def _packed(graph: Graph, at: int, rows: pa.Table) -> list[pa.RecordBatch]:
    columns: dict[str, Any] = {"source": pa.array([at] * rows.num_rows, pa.int32())}
    for i, source in enumerate(graph.sources.values()):
        for n, column in enumerate(source.schema):
            columns[f"c{i}_{n}"] = rows.column(n) if i == at else pa.nulls(rows.num_rows, column.type)
    whole = pa.table(columns).combine_chunks()
    return list(whole.to_batches())


class InProcessRun(FlowRun):
    """A flow run that is fed by hand: ``run.feed({"lines": table})`` is one micro-batch."""

    def feed(self, batch: Mapping[str, pa.Table], partitions: int = 2) -> None:
        """Process one micro-batch; does nothing for one that is committed already, as Spark's replay would."""
        number = self._next
        self._next = number + 1
        self._run(frame_of(self._flow.definition.graph, batch, partitions), number)  # type: ignore[arg-type]

    _next = 0

    def finish(self) -> None:
        """End the run: what is deferred is done and committed."""
        self._end()

    def abandon(self) -> None:
        """Let go of everything as a killed process would."""
        self._ended.set()
        self._checkpoint.close()


def start_in_process(
    graph: Graph, folder: str | Path, *, groups: int = 16, plan: Plan | None = None, journal: Any = None
) -> InProcessRun:
    """Start a flow without Spark, with checkpoint and outputs under ``folder``."""
    from penstock.core.journal import Journal

    definition = Definition(graph)
    base = Path(folder)
    held = Checkpoint(base / "checkpoint", definition.identity(groups))
    sinks = {}
    for name in graph.sinks:
        (base / "out" / name / "_staging").mkdir(parents=True, exist_ok=True)
        sinks[name] = (str(base / "out" / name / "_staging"), str(base / "out" / name))
    for name in (*graph.nodes, "_staging"):
        (base / "dead" / name).mkdir(parents=True, exist_ok=True)
    folders = Folders(sinks, (str(base / "dead" / "_staging"), str(base / "dead")))
    program = FlowProgram(
        definition, plan or Plan.first(definition.regions, groups), folders, str(held.state_folder)
    )
    return InProcessRun(program, held, Session(), journal or Journal())  # type: ignore[arg-type]
