"""A running query: what ``PreferenceQuery.start`` and ``WindowQuery.start`` give back."""

from collections.abc import Callable, Mapping
from typing import Any

from penstock.core.errors import PenstockError
from penstock.spark.query.program import QueryProgram
from penstock.spark.runtime.microbatch import MicroBatchRun


class QueryRun(MicroBatchRun[QueryProgram]):
    """A running query."""

    def rescale(self, panes: int | None = None, windows: int | None = None) -> None:
        """Other numbers of workers, from the next micro-batch on; nothing is lost, repeated or reordered."""
        now = self._program.workers
        wanted = (panes or now[0], windows or now[1])
        if min(wanted) < 1 or panes == 0 or windows == 0:
            raise PenstockError(f"A stage needs at least one worker, not panes={panes}, windows={windows}.")
        self._program.target = wanted

    def listen(self, listener: Callable[[Mapping[str, Any]], None]) -> None:
        """Tell ``listener`` the figures of each micro-batch once it is committed."""
        self._program.listeners.add(lambda figures: listener(figures.progress()))
