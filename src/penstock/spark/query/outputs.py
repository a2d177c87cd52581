"""Where the rows of a query go: its answers, late rows, bad rows."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from penstock.spark.query.reports import TallyReport
from penstock.spark.runtime.folders import OutputFolder
from penstock.spark.runtime.locations import location, remove
from penstock.spark.runtime.manifest import Publication
from penstock.spark.runtime.outbox import Outbox
from penstock.spark.runtime.program import Batch
from penstock.spark.runtime.sinks import SinkFunction, read_back


@dataclass(frozen=True)
class QueryOutputs:
    """Where rows go: the answers (to a function, where there is one), late rows, bad rows."""

    results: OutputFolder
    dead: OutputFolder
    late: OutputFolder | None = None
    function: SinkFunction | None = None
    #: Those of the folders whose rows go on to a topic or a table.
    outboxes: tuple[Outbox, ...] = ()

    @property
    def by_role(self) -> dict[str, OutputFolder]:
        """All folders by what they are to the run."""
        return {folder.role: folder for folder in (self.results, self.dead, self.late) if folder}

    def give_out(self, batch: Batch, files: Sequence[str], schema: pa.Schema, word: str) -> list[Publication]:
        """Answers become visible with the batch's commit, or are handed to the function at once."""
        if self.function is not None:
            if files:
                self.function(read_back(batch.spark, files, schema), batch.id)
            remove(map(location, files))
            return []
        return [
            self.results.publication(file, f"part-{batch.id:09d}-{word}{number:04d}.parquet")
            for number, file in enumerate(files)
        ]

    def set_aside(self, tallies: Sequence[TallyReport]) -> list[Publication]:
        """Late and bad rows become visible with the batch's commit."""
        asides = [(self.dead, t.dead_file) for t in tallies]
        if self.late is not None:
            asides += [(self.late, t.late_file) for t in tallies]
        return [folder.publication(file, f"part-{Path(file).name}") for folder, file in asides if file]
