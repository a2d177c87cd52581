"""A running preference query: what ``PreferenceQuery.start`` gives back."""

from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql import SparkSession

from penstock.core.controller import Controller
from penstock.core.errors import PenstockError
from penstock.core.journal import Journal
from penstock.spark.query.program import QueryProgram
from penstock.spark.runtime.checkpoint import Checkpoint
from penstock.spark.runtime.microbatch import MicroBatchRun


class QueryRun(MicroBatchRun):
    """A running preference query."""

    def __init__(
        self,
        program: QueryProgram,
        checkpoint: Checkpoint,
        spark: SparkSession,
        journal: Journal,
        controller: Controller[Any],
        owns_journal: bool = True,
    ) -> None:
        super().__init__(program, checkpoint, spark, journal, controller, owns_journal)
        self._query_program = program

    def rescale(self, panes: int | None = None, windows: int | None = None) -> None:
        """Other numbers of workers, from the next micro-batch on; nothing is lost, repeated or reordered."""
        now = self._query_program.workers
        wanted = (panes or now[0], windows or now[1])
        if min(wanted) < 1 or panes == 0 or windows == 0:
            raise PenstockError(f"A stage needs at least one worker, not panes={panes}, windows={windows}.")
        self._query_program.target = wanted

    def listen(self, listener: Callable[[Mapping[str, Any]], None]) -> None:
        """Tell ``listener`` the figures of each micro-batch once it is committed."""
        self._query_program.listeners.add(lambda figures: listener(figures.progress()))
