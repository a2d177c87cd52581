"""What the readers of both streaming sources share: when time 0 lies, and how far the stream has come by now."""

import time
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

from pyspark.sql.datasource import DataSourceStreamReader

from penstock.spark.sources.pacing import Pacing
from penstock.spark.versions import ReadLimit, SupportsTriggerAvailableNow

Offset = dict[str, Any]


class TimedStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A reader whose offsets carry the ``epoch``, time 0 of the stream; -1 before the first batch has settled it."""

    START: ClassVar[Offset]
    #: Which part of an offset counts rows.
    COUNTED: ClassVar[str]

    def __init__(self, pacing: Pacing, clock: Callable[[], float] = time.time) -> None:
        self._pacing, self._clock = pacing, clock
        self._now: float | None = None
        self._epoch: int | None = None

    def initialOffset(self) -> Offset:
        """The beginning; time 0 is settled when the first batch is."""
        return self.START

    def getDefaultReadLimit(self) -> ReadLimit:
        """Back-pressure: ``rowsPerBatch``."""
        return self._pacing.limit()

    def prepareForTriggerAvailableNow(self) -> None:
        """What has arrived by now is what there is."""
        self._now = self._clock()

    def backlog(self, end: Offset) -> int | None:
        """Rows that have arrived by now and lie beyond ``end``; None where time does not bring the rows."""
        latest = self.reportLatestOffset()
        return None if latest is None else max(0, latest[self.COUNTED] - end[self.COUNTED])

    @abstractmethod
    def reportLatestOffset(self) -> Offset | None:
        """How far the stream has come by now, whatever the limit."""

    def _settle(self, start: Offset) -> tuple[int, float]:
        """Time 0 of the stream for a batch from this offset on, and the time that the stream has come to."""
        now = self._clock() if self._now is None else self._now
        if self._epoch is None or start["epoch"] >= 0:
            self._epoch = self._pacing.start(now) if start["epoch"] < 0 else start["epoch"]
        return self._epoch, self._pacing.horizon(self._epoch, now)
