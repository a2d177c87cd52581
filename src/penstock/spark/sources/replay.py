"""The source ``penstock-replay``: a recorded trace again, in real time or as fast as possible."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import DataType, DoubleType, StringType, StructField, StructType, TimestampType

from penstock.core.errors import PenstockError, unknown
from penstock.spark.sources.pacing import Pacing, rows_allowed, shares
from penstock.spark.sources.timed_reader import Offset, TimedStreamReader
from penstock.spark.versions import ReadLimit, arrow_type
from penstock.traffic.trace import Trace, read_trace

_START: Offset = {"row": 0, "epoch": -1}
_BATCH = 16_384


@dataclass(frozen=True)
class Recording:
    """A trace file and how to read it."""

    path: str
    column: str = "arrival"
    unit: str = "s"
    event_column: str | None = None
    loop: bool = False

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> "Recording":
        """Read the options of the source."""
        names = {
            "path": "path",
            "column": "column",
            "unit": "unit",
            "eventcolumn": "event_column",
            "loop": "loop",
        }
        values: dict[str, Any] = {}
        for option, text in options.items():
            if option.lower() not in names:
                raise unknown("option", option, ["path", "column", "unit", "eventColumn", "loop"])
            values[names[option.lower()]] = text
        if "path" not in values:
            raise PenstockError("The source penstock-replay needs a trace file; give it with load(path).")
        values["path"] = values["path"].removeprefix("file:")
        if values.get("loop", "false").lower() not in ("true", "false"):
            raise PenstockError(f"Option 'loop' must be true or false, not '{values['loop']}'.")
        return cls(**values | {"loop": values.get("loop", "false").lower() == "true"})

    @property
    def trace(self) -> Trace:
        """The trace, read once in each process."""
        file = Path(self.path)
        changed = file.stat().st_mtime_ns if file.is_file() else 0
        return _load(self.path, self.column, self.unit, self.event_column, changed)

    @property
    def lap(self) -> float:
        """Seconds of one round of a loop: to the last arrival and one mean gap."""
        trace = self.trace
        return float(trace.arrival[-1]) * (1.0 + 1.0 / max(len(trace) - 1, 1))


@lru_cache(maxsize=4)
def _load(path: str, column: str, unit: str, event_column: str | None, changed: int) -> Trace:
    return read_trace(path, column, unit, event_column)


class ReplaySource(DataSource):
    """``spark.readStream.format("penstock-replay").option("speed", 10).load("trace.parquet")``."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "penstock-replay"

    def _parsed(self) -> tuple[Pacing, Recording]:
        pacing, rest = Pacing.parse(self.options)
        return pacing, Recording.parse(rest)

    def schema(self) -> StructType:
        """Arrival, event time, and the other columns of the file."""
        _, recording = self._parsed()
        payload = recording.trace.payload
        fields = [StructField("arrival", DoubleType()), StructField("event_time", TimestampType())]
        columns = [] if payload is None else list(payload.schema)
        return StructType(fields + [StructField(column.name, _spark_type(column.type)) for column in columns])

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """For ``readStream``."""
        return ReplayStreamReader(*self._parsed(), schema)

    def reader(self, schema: StructType) -> DataSourceReader:
        """For ``read``: the whole trace at once."""
        return _ReplayReader(*self._parsed(), schema)


@dataclass(frozen=True)
class ReplayPartition(InputPartition):
    """Rows ``start`` to ``stop`` of the replay; in a loop they count on from round to round."""

    start: int
    stop: int
    epoch: int


class ReplayStreamReader(TimedStreamReader):
    """Offsets and partitions of a replay."""

    START = _START
    COUNTED = "row"

    def __init__(
        self,
        pacing: Pacing,
        recording: Recording,
        schema: StructType,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(pacing, clock)
        self._recording, self._schema = recording, schema

    def latestOffset(self, start: Offset | None = None, limit: ReadLimit | None = None) -> Offset:
        """As far as time has come, and as the limit allows."""
        start = self.START if start is None else start  # older Sparks do not say
        epoch, horizon = self._settle(start)
        row = min(self._arrived(horizon), start["row"] + rows_allowed(limit))
        if row == inf:
            raise PenstockError(
                "A loop that is delivered as fast as possible has no last row; give it a 'rowsPerBatch'."
            )
        return start if row <= start["row"] else {"row": int(row), "epoch": epoch}

    def _arrived(self, horizon: float) -> float:
        arrival, loop = self._recording.trace.arrival, self._recording.loop
        if horizon == inf:
            return inf if loop else arrival.size
        laps = int(max(horizon, 0.0) // self._recording.lap) if loop else 0
        inside = horizon - laps * self._recording.lap if loop else horizon
        return laps * arrival.size + int(np.searchsorted(arrival, inside, side="left"))

    def reportLatestOffset(self) -> Offset | None:
        """How far the trace has come by now, whatever the limit: the difference to the end of a batch is the backlog."""
        if not self._pacing.realtime or self._epoch is None:
            return None
        arrived = self._arrived(self._pacing.horizon(self._epoch, self._clock()))
        return {"row": int(arrived), "epoch": self._epoch}

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """Contiguous stretches of the batch, in order of arrival."""
        row, parts = start["row"], []
        for rows in shares(end["row"] - start["row"], self._pacing.partitions):
            parts.append(ReplayPartition(row, row + rows, end["epoch"]))
            row += rows
        return parts

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a partition."""
        assert isinstance(partition, ReplayPartition)
        return _rows(self._pacing, self._recording, self._schema, partition)


class _ReplayReader(DataSourceReader):
    def __init__(self, pacing: Pacing, recording: Recording, schema: StructType) -> None:
        if recording.loop:
            raise PenstockError("A loop cannot be read at once; use readStream, or leave out 'loop'.")
        self._pacing, self._recording, self._schema = pacing, recording, schema

    def partitions(self) -> Sequence[InputPartition]:
        stream = ReplayStreamReader(self._pacing, self._recording, self._schema)
        end = {"row": len(self._recording.trace), "epoch": self._pacing.start(time.time())}
        return list(stream.partitions(_START, end))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, ReplayPartition)
        return _rows(self._pacing, self._recording, self._schema, partition)


def _rows(
    pacing: Pacing, recording: Recording, schema: StructType, part: ReplayPartition
) -> Iterator[pa.RecordBatch]:
    trace, row = recording.trace, part.start
    types = {field.name: arrow_type(field.dataType, "UTC") for field in schema.fields}
    while row < part.stop:
        lap, first = divmod(row, len(trace)) if recording.loop else (0, row)
        count = min(part.stop - row, len(trace) - first, _BATCH)
        yield _batch(pacing, recording, types, first, count, lap, part.epoch)
        row += count


def _batch(
    pacing: Pacing,
    recording: Recording,
    types: dict[str, pa.DataType],
    first: int,
    count: int,
    lap: int,
    epoch: int,
) -> pa.RecordBatch:
    trace, shift = recording.trace, lap * recording.lap if lap else 0.0
    arrival = trace.arrival[first : first + count] + shift
    event = arrival if trace.event_time is None else trace.event_time[first : first + count] + shift
    columns = {
        "arrival": pa.array(arrival / pacing.speed),
        "event_time": pacing.event_times(event, epoch),
    }
    if trace.payload is not None:
        rows = trace.payload.slice(first, count).combine_chunks()
        for name, values in zip(rows.column_names, rows.columns, strict=True):
            columns[name] = values.cast(types[name]).combine_chunks()
    return pa.RecordBatch.from_pydict(columns)


def _spark_type(column: pa.DataType) -> DataType:
    if pa.types.is_dictionary(column) or pa.types.is_time(column) or pa.types.is_null(column):
        return StringType()
    if pa.types.is_timestamp(column):
        return TimestampType()
    return from_arrow_type(column)
