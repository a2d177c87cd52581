"""Rows that leave a flow: one Parquet file a sink and task, waiting in a staging folder until the batch is committed."""

import os
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from penstock.dataflow.calls import DeadRows
from penstock.dataflow.rows import Chunk, joined
from penstock.spark.flow.task_report import TaskOutputs, WrittenFile
from penstock.spark.runtime.durable import write_parquet
from penstock.spark.runtime.folders import OutputFolder
from penstock.spark.runtime.paths import STAGING

#: Where in a checkpoint rows wait for the sinks that are functions.
HANDED = "handed"


@dataclass(frozen=True)
class FlowOutputs:
    """Where rows go: by sink, and what was put aside, which has a folder inside for each operator."""

    sinks: Mapping[str, OutputFolder]
    dead: OutputFolder
    #: Sinks that are functions: their rows wait in the checkpoint.
    functions: frozenset[str] = frozenset()

    @property
    def by_role(self) -> dict[str, OutputFolder]:
        """All folders by what they are to the run, but that of the functions, which is the checkpoint's own."""
        own = [folder for name, folder in self.sinks.items() if name not in self.functions]
        return {folder.role: folder for folder in (*own, self.dead)}


class Writer:
    """Gathers the rows of one task's sinks."""

    def __init__(self, outputs: FlowOutputs, prefix: str, batch: int, origin: int) -> None:
        self._outputs, self._prefix, self._batch, self._origin = outputs, prefix, batch, origin
        self._rows: dict[str, list[Chunk]] = {}

    def take(self, sink: str, chunk: Chunk) -> None:
        """Keep rows for a sink."""
        self._rows.setdefault(sink, []).append(chunk)

    def close(self, dead: Sequence[DeadRows]) -> TaskOutputs:
        """Write everything; what was written where."""
        sinks: dict[str, int] = {}
        files: list[WrittenFile] = []
        for sink, chunks in self._rows.items():
            table = joined([Chunk(c.table, c.positions) for c in chunks]).table
            sinks[sink] = table.num_rows
            files.append(self._write(table, self._outputs.sinks[sink], sink=sink))
        by_operator: dict[str, list[pa.Table]] = {}
        for rows in dead:
            reasons = pa.array([rows.reason] * rows.rows.num_rows)
            by_operator.setdefault(rows.operator, []).append(rows.rows.append_column("reason", reasons))
        for operator, tables in by_operator.items():
            whole = pa.concat_tables(tables, promote_options="default")
            files.append(self._write(whole, self._outputs.dead, operator))
        counts = {operator: sum(t.num_rows for t in tables) for operator, tables in by_operator.items()}
        return TaskOutputs(sinks, tuple(files), counts)

    def _write(self, table: pa.Table, folder: OutputFolder, inside: str = "", sink: str = "") -> WrittenFile:
        """Write a file; it goes by the batch at hand, then by the one its rows came with, which may be older."""
        word = uuid.uuid4().hex[:8]
        staged = f"{self._prefix}-{self._origin:012d}-{word}.parquet"
        write_parquet(table, os.path.join(folder.staging, staged))
        name = f"{self._prefix[:12]}-{self._batch:012d}-{self._origin:012d}-{word}.parquet"
        role = "" if sink in self._outputs.functions else folder.role
        return WrittenFile(role, os.path.join(STAGING, staged), os.path.join(inside, name), sink)
