"""The run's own loop over a Python data source: batch after batch, without a Structured Streaming query.

The end of each batch stands in its manifest, so a run that starts again begins exactly there. A batch that was not
committed is planned anew and may get other rows, which is no matter where nothing of it was ever seen; where a function
may have seen it (see :mod:`penstock.spark.runtime.planned_end`), and where a batch was committed and is run again because
its version was damaged, it gets the rows it had.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import inf

from penstock.spark.runtime.batch_size import BatchSize
from penstock.spark.runtime.engine import BatchRows
from penstock.spark.runtime.manifest import Manifest
from penstock.spark.runtime.python_source import Offset, PythonSource, Span
from penstock.spark.runtime.source_away import SourceAwayError

#: Seconds between two looks at a source that has nothing new, where there is no trigger.
IDLE = 0.02

#: Seconds between two tries of a batch whose source does not answer.
AWAY = 1.0

#: Process the rows of a batch; tells how many there were, where that is known.
Process = Callable[[BatchRows, int, Span], float | None]

#: Where a batch ends, by its number and where it would end if it were planned now.
Keep = Callable[[int, Offset], Offset]


@dataclass(frozen=True)
class Begin:
    """Where a loop begins: with which batch, at which offset, and where that batch ends, if it was there before."""

    batch: int
    offset: Offset
    end: Offset | None = None

    @classmethod
    def of(cls, latest: Manifest | None, dropped: Manifest | None, first: Callable[[], Offset]) -> "Begin":
        """After the last committed version; ``first`` is asked where a new stream begins.

        >>> Begin.of(Manifest(7, {}, offset={"row": 70}), Manifest(8, {}, offset={"row": 90}), dict)
        Begin(batch=8, offset={'row': 70}, end={'row': 90})
        """
        batch = 0 if latest is None else latest.batch + 1
        again = dropped if dropped is not None and dropped.batch == batch else Manifest(batch, {})
        before = again.start if latest is None else latest.offset
        end = None if again.offset is None else dict(again.offset)
        return cls(batch, first() if before is None else dict(before), end)


class OwnLoop:
    """Batches of a source, one at a time, every ``period`` seconds (or at once where there is none)."""

    def __init__(
        self,
        source: PythonSource,
        process: Process,
        begin: Begin,
        period: float,
        available_now: bool,
        warn: Callable[[str], None] = lambda text: None,
        keep: Keep = lambda batch, end: end,
    ) -> None:
        self._source, self._process = source, process
        self._offset, self._batch, self._end = begin.offset, begin.batch, begin.end
        self._period = period if period == period else 0.0
        self._available_now = available_now
        self._size = BatchSize.of(self._period)
        self._warn, self._keep = warn, keep
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
            end = self._end or self._source.latest(self._offset, self._size.rows)
            if end == self._offset:
                if self._available_now:
                    return
                due = max(due + self._period, time.monotonic() + (IDLE if not self._period else 0.0))
                self._stop.wait(max(0.0, due - time.monotonic()))
                continue
            if self._end is None:
                end = self._keep(self._batch, end)
            if not self._tried(end):
                self._stop.wait(AWAY)
                continue
            self._source.commit(end)
            self._offset, self._batch, self._end = end, self._batch + 1, None
            if self._available_now or self._held_back:
                due = time.monotonic()
                continue
            # A batch that took too long is followed by the next at once; missed starts are not made up for.
            due = max(due + self._period, time.monotonic())
            self._stop.wait(max(0.0, due - time.monotonic()))

    @property
    def _held_back(self) -> bool:
        """Whether rows wait that the batch before could have had, but for its size."""
        return self._source.counts and self._size.rows < inf

    def _tried(self, end: Offset) -> bool:
        """Run the batch up to ``end``; False where its source went away, and the batch with it."""
        began = time.monotonic()
        try:
            readings = self._source.readings(self._offset, end)
            left = partial(self._source.backlog, end)
            limited = self._source.limited or self._held_back
            rows = BatchRows(readings=readings, schema=self._source.spark_schema, left=left, limited=limited)
            taken = self._process(rows, self._batch, Span(self._offset, end))
        except SourceAwayError as error:
            self._warn(f"{error} The batch is tried again.")
            return False
        self._size = self._size.after(taken or 0.0, time.monotonic() - began)
        return True
