"""The run's own loop over a Python data source: batch after batch, without a Structured Streaming query.

The end of each batch stands in its manifest, so a run that starts again begins exactly there. A batch that was not
committed is planned anew and may get other rows, which is no matter: nothing of it was ever seen.
"""

import threading
import time
from collections.abc import Callable
from functools import partial

from penstock.spark.runtime.engine import BatchRows
from penstock.spark.runtime.python_source import Offset, PythonSource
from penstock.spark.runtime.source_away import SourceAwayError

#: Seconds between two looks at a source that has nothing new, where there is no trigger.
IDLE = 0.02

#: Seconds between two tries of a batch whose source does not answer.
AWAY = 1.0

#: Process the rows of a batch up to an offset.
Process = Callable[[BatchRows, int, Offset], None]


class OwnLoop:
    """Batches of a source, one at a time, every ``period`` seconds (or at once where there is none)."""

    def __init__(
        self,
        source: PythonSource,
        process: Process,
        start: Offset,
        batch: int,
        period: float,
        available_now: bool,
        warn: Callable[[str], None] = lambda text: None,
    ) -> None:
        self._source, self._process = source, process
        self._offset, self._batch = start, batch
        self._period = period if period == period else 0.0
        self._available_now = available_now
        self._warn = warn
        self._stop = threading.Event()
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="penstock-batches", daemon=True)

    def start(self) -> "OwnLoop":
        """Begin."""
        self._thread.start()
        return self

    @property
    def active(self) -> bool:
        """Whether batches are still made."""
        return self._thread.is_alive()

    def stop(self) -> None:
        """End after the current batch."""
        self._stop.set()
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def wait(self, seconds: float | None) -> bool:
        """Wait for the end; whether it has come."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            if self._available_now:
                self._source.prepare_available_now()
            self._batches()
        except BaseException as error:  # noqa: BLE001 - told to whoever waits for the run
            self.error = error

    def _batches(self) -> None:
        due = time.monotonic()
        while not self._stop.is_set():
            end = self._source.latest(self._offset)
            if end == self._offset:
                if self._available_now:
                    return
                due = max(due + self._period, time.monotonic() + (IDLE if not self._period else 0.0))
                self._stop.wait(max(0.0, due - time.monotonic()))
                continue
            if not self._tried(end):
                self._stop.wait(AWAY)
                continue
            self._source.commit(end)
            self._offset, self._batch = end, self._batch + 1
            if self._available_now:
                continue
            # A batch that took too long is followed by the next at once; missed starts are not made up for.
            due = max(due + self._period, time.monotonic())
            self._stop.wait(max(0.0, due - time.monotonic()))

    def _tried(self, end: Offset) -> bool:
        """Run the batch up to ``end``; False where its source went away, and the batch with it."""
        try:
            readings = self._source.readings(self._offset, end)
            left = partial(self._source.backlog, end)
            rows = BatchRows(readings=readings, schema=self._source.spark_schema, left=left)
            self._process(rows, self._batch, end)
        except SourceAwayError as error:
            self._warn(f"{error} The batch is tried again.")
            return False
        return True
