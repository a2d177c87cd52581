"""The source ``penstock-traffic``: a generated stream.

An offset is a row of a slot of the stream plus the small mark from which that slot can be generated again (see
:mod:`penstock.traffic.stream`). The driver walks through arrival times only, to know how many rows there are; a task
gets the mark of its first row and generates its rows from there, attributes and all. Nothing is generated twice
for long: not from the beginning in each batch, and not from the beginning after a restart.
"""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.types import DoubleType, LongType, StructField, StructType, TimestampType

from penstock.core.errors import PenstockError
from penstock.spark.sources.pacing import Pacing, rows_allowed, shares
from penstock.spark.sources.timed_reader import Offset, TimedStreamReader
from penstock.spark.versions import ReadLimit
from penstock.traffic.process import Mark
from penstock.traffic.spec import StreamSpec
from penstock.traffic.stream import SLOT_ROWS, Slot, TupleStream, Walk

_START: Offset = {"slot": 0, "row": 0, "rows": 0, "mark": "null", "epoch": -1}


class TrafficSource(DataSource):
    """``spark.readStream.format("penstock-traffic").option("model", "map2").option("rate", 10000)...``."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "penstock-traffic"

    def _parsed(self) -> tuple[Pacing, TupleStream]:
        pacing, rest = Pacing.parse(self.options)
        return pacing, StreamSpec.parse(rest).build()

    def schema(self) -> StructType:
        """Arrival, event time, key if asked for, attributes."""
        _, stream = self._parsed()
        fields = [StructField("arrival", DoubleType()), StructField("event_time", TimestampType())]
        if stream.keys:
            fields.append(StructField("key", LongType()))
        dims = stream.attributes.dims if stream.attributes else 0
        return StructType(fields + [StructField(f"a{i}", DoubleType()) for i in range(dims)])

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """For ``readStream``."""
        return TrafficStreamReader(*self._parsed())

    def reader(self, schema: StructType) -> DataSourceReader:
        """For ``read``: the whole stream at once."""
        return _TrafficReader(*self._parsed())


@dataclass(frozen=True)
class TrafficPartition(InputPartition):
    """So many rows, from this row of this slot on."""

    slot: int
    row: int
    rows: int
    mark: Mark | None
    epoch: int


class TrafficStreamReader(TimedStreamReader):
    """Offsets and partitions of a generated stream."""

    START = _START
    COUNTED = "rows"

    def __init__(self, pacing: Pacing, stream: TupleStream, clock: Callable[[], float] = time.time) -> None:
        super().__init__(pacing, clock)
        self._stream, self._slots = stream, _Slots(stream)
        self._last = _START

    def latestOffset(self, start: Offset | None = None, limit: ReadLimit | None = None) -> Offset:
        """As far as time has come, and as the limit allows."""
        start = self.START if start is None else start  # older Sparks do not say
        epoch, horizon = self._settle(start)
        self._last = self._advance(start, horizon, rows_allowed(limit), epoch)
        return self._last

    def _advance(self, start: Offset, horizon: float, left: float, epoch: int) -> Offset:
        if horizon == left == inf and self._stream.seconds is None:
            raise PenstockError(
                "A stream without end that is delivered as fast as possible has no last row; give it 'seconds' or a 'rowsPerBatch'."
            )
        slot, row, rows = start["slot"], start["row"], 0
        self._slots.seek(slot, json.loads(start["mark"]))
        while left > 0 and self._slots.exists(slot):
            here = self._slots.arrived(slot, horizon)
            taken = int(min(here - row, left))
            rows, row, left = rows + taken, row + taken, left - taken
            if row < self._slots.size(slot) or (slot + 1) * self._stream.slot_seconds > horizon:
                break
            slot, row = slot + 1, 0
        if rows == 0:
            return start
        mark = json.dumps(self._slots.mark(slot))
        return {"slot": slot, "row": row, "rows": start["rows"] + rows, "mark": mark, "epoch": epoch}

    def reportLatestOffset(self) -> Offset | None:
        """How far the stream has come by now, whatever the limit: the difference to the end of a batch is the backlog."""
        if not self._pacing.realtime or self._epoch is None:
            return None
        horizon = self._pacing.horizon(self._epoch, self._clock())
        return self._advance(self._last, horizon, inf, self._epoch)

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """Contiguous stretches of the batch, in order of arrival."""
        self._slots.seek(start["slot"], json.loads(start["mark"]))
        slot, row, parts = start["slot"], start["row"], []
        for rows in shares(end["rows"] - start["rows"], self._pacing.partitions):
            while row == self._slots.size(slot):
                slot, row = slot + 1, 0
            parts.append(TrafficPartition(slot, row, rows, self._slots.mark(slot), end["epoch"]))
            slot, row = self._skip(slot, row, rows)
        return parts

    def _skip(self, slot: int, row: int, rows: int) -> tuple[int, int]:
        while rows > self._slots.size(slot) - row:
            rows -= self._slots.size(slot) - row
            slot, row = slot + 1, 0
        return slot, row + rows

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Generate the rows of a partition."""
        assert isinstance(partition, TrafficPartition)
        return _rows(self._pacing, self._stream, partition)

    def commit(self, end: Offset) -> None:
        """Forget what will not be asked for again."""
        self._slots.forget(end["slot"])

    def __getstate__(self) -> dict[str, Any]:
        # Tasks need what to generate, not how far the driver has come.
        return {"pacing": self._pacing, "stream": self._stream}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]


class _TrafficReader(DataSourceReader):
    def __init__(self, pacing: Pacing, stream: TupleStream) -> None:
        if stream.seconds is None:
            raise PenstockError(
                "A stream without end cannot be read at once; give it 'seconds', or use readStream."
            )
        self._pacing, self._stream = pacing, stream

    def partitions(self) -> Sequence[InputPartition]:
        reader = TrafficStreamReader(self._pacing, self._stream)
        return list(
            reader.partitions(_START, reader._advance(_START, inf, inf, self._pacing.start(time.time())))
        )

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, TrafficPartition):  # Spark's own placeholder for a stream without rows
            return iter(())
        return _rows(self._pacing, self._stream, partition)


class _Slots:
    """Sizes and marks of the slots around the current offset, each generated once in a run."""

    def __init__(self, stream: TupleStream) -> None:
        self._stream, self._walk = stream, Walk(stream)
        self._known: dict[int, tuple[Mark, int]] = {}
        self._latest: Slot | None = None

    def seek(self, slot: int, mark: Mark | None) -> None:
        """Make sure that ``slot`` can be reached; after a restart, by its mark."""
        if slot not in self._known and slot != self._walk.number:
            self._walk, self._known, self._latest = Walk(self._stream, slot, mark), {}, None

    def exists(self, slot: int) -> bool:
        return self._stream.slots is None or slot < self._stream.slots

    def _reach(self, slot: int) -> None:
        while self._walk.number <= slot and self.exists(self._walk.number):
            mark, self._latest = self._walk.mark(), self._walk.next()
            if self._latest is not None:
                self._known[self._latest.number] = (mark, len(self._latest))

    def size(self, slot: int) -> int:
        """Number of rows."""
        self._reach(slot)
        return self._known[slot][1]

    def arrived(self, slot: int, horizon: float) -> int:
        """Number of rows that arrive before the horizon."""
        if (slot + 1) * self._stream.slot_seconds <= horizon:
            return self.size(slot)
        self._reach(slot)
        if self._latest is None or self._latest.number != slot:
            self._latest = Walk(self._stream, slot, self._known[slot][0]).next()
        assert self._latest is not None
        return int(np.searchsorted(self._latest.arrival, horizon, side="left"))

    def mark(self, slot: int) -> Mark:
        """What it takes to generate the slot; after the last slot, that of the end."""
        if not self.exists(slot):
            return self._walk.mark()
        self._reach(slot)
        return self._known[slot][0]

    def forget(self, before: int) -> None:
        """Drop what lies before a slot."""
        for slot in [number for number in self._known if number < before]:
            del self._known[slot]


def _rows(pacing: Pacing, stream: TupleStream, part: TrafficPartition) -> Iterator[pa.RecordBatch]:
    walk, row, left = Walk(stream, part.slot, part.mark), part.row, part.rows
    while left > 0:
        slot = walk.next()
        assert slot is not None
        for start in range(row, len(slot), SLOT_ROWS):
            stop = min(start + SLOT_ROWS, len(slot), start + left)
            if stop > start:
                yield _batch(pacing, stream, slot, start, stop, part.epoch)
                left -= stop - start
        row = 0


def _batch(
    pacing: Pacing, stream: TupleStream, slot: Slot, start: int, stop: int, epoch: int
) -> pa.RecordBatch:
    columns = {
        "arrival": pa.array(slot.arrival[start:stop] / pacing.speed),
        "event_time": pacing.event_times(slot.event_time[start:stop], epoch),
    }
    payload = stream.payload(slot, start, stop)
    return pa.RecordBatch.from_pydict(columns | {name: pa.array(values) for name, values in payload.items()})
