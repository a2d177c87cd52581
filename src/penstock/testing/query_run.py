"""A preference query run without Spark: the real runtime, routing, state files, commits and recovery, fed by hand."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa

from penstock.core.controller import Controller
from penstock.core.journal import Journal
from penstock.spark.query.preference_query import PreferenceQuery
from penstock.spark.query.program import QueryOutputs, QueryProgram
from penstock.spark.query.query_plant import QueryPlant
from penstock.spark.query.run import QueryRun
from penstock.spark.runtime.checkpoint import Checkpoint
from penstock.spark.runtime.engine import ResidentEngine
from penstock.spark.runtime.engine_choice import EngineChoice
from penstock.spark.runtime.folders import OutputFolder
from penstock.spark.runtime.gathering import Gathering
from penstock.testing.frames import InProcessFrame, InProcessSession


class InProcessQueryRun(QueryRun):
    """A query run that is fed by hand: ``run.feed(table)`` is one micro-batch."""

    @property
    def next_batch(self) -> int:
        """The number of the batch that is fed next."""
        return 0 if self._latest is None else self._latest.batch + 1

    def feed(self, rows: pa.Table, partitions: int = 2) -> None:
        """Process one micro-batch, in so many partitions."""
        cuts = [rows.num_rows * i // partitions for i in range(partitions + 1)]
        parts = [rows.slice(a, b - a).combine_chunks().to_batches() for a, b in pairwise(cuts)]
        self._run(InProcessFrame(parts), self.next_batch)  # type: ignore[arg-type]

    @property
    def state(self) -> dict[str, Any]:
        """The committed state, as plain values."""
        return {} if self._latest is None else dict(self._latest.state)

    def use(self, engine: ResidentEngine) -> None:
        """Carry out the stages of the next batches by resident workers."""
        self._resident = engine
        self._choice = EngineChoice("resident", 64, "given by hand")

    def finish(self) -> None:
        """End the run: what the last batch left to the next one is done and committed."""
        self._end()
        if self._error is not None:
            raise self._error


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
