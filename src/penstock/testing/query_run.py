"""A preference query run without Spark: the real runtime, routing, state files, commits and recovery, fed by hand."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa

from penstock.core.controller import Controller
from penstock.core.journal import Journal
from penstock.spark.query.outputs import QueryOutputs
from penstock.spark.query.preference_query import PreferenceQuery
from penstock.spark.query.program import QueryProgram
from penstock.spark.query.query_plant import QueryPlant
from penstock.spark.query.run import QueryRun
from penstock.spark.runtime.checkpoint import Checkpoint
from penstock.spark.runtime.folders import OutputFolder
from penstock.spark.runtime.gathering import Gathering
from penstock.testing.by_hand import FedByHand
from penstock.testing.frames import InProcessFrame, InProcessSession


class InProcessQueryRun(QueryRun, FedByHand[QueryProgram]):
    """A query run that is fed by hand: ``run.feed(table)`` is one micro-batch."""

    def feed(self, rows: pa.Table, partitions: int = 2) -> None:
        """Process one micro-batch, in so many partitions."""
        cuts = [rows.num_rows * i // partitions for i in range(partitions + 1)]
        parts = [rows.slice(a, b - a).combine_chunks().to_batches() for a, b in pairwise(cuts)]
        self._run(InProcessFrame(parts), self.next_batch)  # type: ignore[arg-type]

    @property
    def state(self) -> dict[str, Any]:
        """The committed state, as plain values."""
        return {} if self._latest is None else dict(self._latest.state)


def start_query_in_process(
    query: PreferenceQuery, schema: pa.Schema, folder: str | Path, *, gather: str | None = None
) -> InProcessQueryRun:
    """Start a query without Spark, with checkpoint and outputs under ``folder``."""
    base = Path(folder)
    outputs = QueryOutputs(
        OutputFolder.made(base / "out", "output"),
        OutputFolder.made(base / "dead", "dead-letter"),
        OutputFolder.made(base / "late", "late"),
    )
    program = QueryProgram(query, schema, outputs)
    held = Checkpoint(base / "checkpoint", program.identity, Gathering.of(gather))
    journal = Journal()
    controller: Controller[Any] = Controller(QueryPlant(program), None, journal=journal, period=0.0)
    return InProcessQueryRun(program, held, InProcessSession(), journal, controller)  # type: ignore[arg-type]
