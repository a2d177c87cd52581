"""Traces: arrivals with whatever else came with them, in Parquet or CSV files, or in a folder of Parquet files."""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.dataset
import pyarrow.parquet as pq

from penstock.core.arrays import Floats, Ints
from penstock.core.errors import PenstockError, unknown
from penstock.traffic.replay import check_arrivals

UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
#: Seconds: where the first ``arrival`` is later than three years it counts from 1970, not from the start of a stream,
#: and where it is later than the year 5000 its unit is a smaller one.
_BY_THE_CLOCK, _NO_CLOCK = 1e8, 1e11
_ENDINGS = (".parquet", ".csv", ".csv.gz")


@dataclass(frozen=True, eq=False)
class Trace:
    """A recorded stream in order of arrival; times in seconds.

    >>> len(Trace(np.array([0.0, 0.5])))
    2
    """

    arrival: Floats
    event_time: Floats | None = None
    payload: pa.Table | None = None

    def __post_init__(self) -> None:
        check_arrivals(self.arrival, "The trace")
        if self.event_time is not None and self.event_time.size != self.arrival.size:
            raise PenstockError("A trace needs as many event times as arrivals.")
        if self.event_time is not None and not np.isfinite(self.event_time).all():
            row = int(np.flatnonzero(~np.isfinite(self.event_time))[0])
            raise PenstockError(
                f"The trace has no number as event time in row {row + 1}; remove or mend that row."
            )
        if self.payload is not None and len(self.payload) != self.arrival.size:
            raise PenstockError("A trace needs as many rows of payload as arrivals.")

    def __len__(self) -> int:
        return self.arrival.size

    def table(self) -> pa.Table:
        """One table: ``arrival``, ``event_time`` where there is one, and the payload."""
        columns = {"arrival": pa.array(self.arrival)}
        if self.event_time is not None:
            columns["event_time"] = pa.array(self.event_time)
        if self.payload is not None:
            columns |= dict(zip(self.payload.column_names, self.payload.columns, strict=True))
        return pa.table(columns)


def read_trace(
    path: str | Path,
    column: str = "arrival",
    unit: str = "s",
    event_column: str | None = None,
    payload: bool = True,
    event_times: bool = True,
) -> Trace:
    """Read a trace; ``arrival`` is in seconds from the start, any other column is counted from its first value.

    So is ``arrival`` where it tells the time of day: where it is a timestamp, or begins later than 1e8 seconds. Event times
    that are timestamps beside arrivals from the start have another origin: the smallest delay is taken for none.

    Parameters
    ----------
    path
        A ``.parquet``, ``.csv`` or ``.csv.gz`` file, or a folder of Parquet files, which are read in order of their names.
    column, unit
        The column of arrival times and its unit: s, ms, us or ns; a timestamp knows its own.
    event_column
        The column of event times, in the same unit; by default ``event_time`` where the file has one.
    payload
        Whether the other columns are read too.
    event_times
        Whether event times are read; where nobody needs them, a column of that name may hold anything.
    """
    if unit not in UNITS:
        raise unknown("unit", unit, UNITS)
    wanted = [column, event_column or "event_time"] if event_times else [column]
    table = _read(Path(path), None if payload else wanted)
    raw, unit_seconds = _values(table, column, unit, path)
    origin = _origin(table, column, unit, raw, path)
    name = event_column or ("event_time" if "event_time" in table.column_names else None)
    event_time = None
    if name is not None and event_times:
        events, event_unit = _values(table, name, unit, path)
        apart = pa.types.is_timestamp(table[name].type) and not origin  # moments beside seconds from a start
        if apart and events.size:
            arrival = np.asarray(raw * unit_seconds, dtype=np.float64)
            event_time = _beside(arrival, np.asarray((events - events[0]) * event_unit, dtype=np.float64))
        elif event_unit == unit_seconds:
            event_time = (events - origin) * event_unit
        else:
            event_time = events * event_unit - origin * unit_seconds
    try:
        rest = table.drop_columns([c for c in {column, name, "arrival"} if c in table.column_names])
        return Trace(
            (raw - origin) * unit_seconds, event_time, rest if payload and rest.num_columns else None
        )
    except PenstockError as error:
        raise PenstockError(str(error).replace("The trace", f"The trace '{path}'", 1)) from None


def _beside(arrival: Floats, events: Floats) -> Floats:
    """Event times on the clock of the arrivals, where nothing says when that began: the smallest delay counts as none."""
    delays = arrival - events
    known = delays[np.isfinite(delays)]
    return events + (float(known.min()) if known.size else 0.0)


def _origin(table: pa.Table, column: str, unit: str, raw: Ints | Floats, path: str | Path) -> Any:
    """What arrivals are counted from, in their own unit: the first of them, unless they count from the start already."""
    if not raw.size:
        return 0
    if pa.types.is_timestamp(table[column].type):
        return raw[0]
    first = float(raw[0]) * UNITS[unit]
    if _NO_CLOCK < first < inf:
        smaller = next((u for u in UNITS if raw[0] * UNITS[u] <= _NO_CLOCK), "ns")
        raise PenstockError(
            f"The column '{column}' of the trace '{path}' begins at {raw[0]} {unit}, which is no time; give --unit {smaller}."
        )
    return raw[0] if column != "arrival" or first > _BY_THE_CLOCK else 0


def _values(table: pa.Table, column: str, unit: str, path: str | Path) -> tuple[Ints | Floats, float]:
    """A column as it is, whole numbers as such so that no digit is lost, and its unit in seconds."""
    if column not in table.column_names:
        raise PenstockError(
            f"The trace '{path}' has no column '{column}'; it has {', '.join(table.column_names)}, so name one with --column and its --unit."
        )
    if table.column_names.count(column) > 1:
        raise PenstockError(f"The trace '{path}' has the column '{column}' twice; rename one of them.")
    values = table[column]
    if pa.types.is_timestamp(values.type):
        unit = values.type.unit
        values = values.cast(pa.int64())
    if pa.types.is_integer(values.type) and values.null_count == 0:
        return values.cast(pa.int64()).to_numpy(), UNITS[unit]
    # A column of nothing has no type in a CSV file.
    if not any(kind(values.type) for kind in (pa.types.is_floating, pa.types.is_integer, pa.types.is_null)):
        raise PenstockError(
            f"Column '{column}' of the trace '{path}' holds no numbers; name a numeric column."
        )
    return np.asarray(pc.cast(values, pa.float64(), safe=False).to_numpy(), dtype=np.float64), UNITS[unit]


def _read(path: Path, columns: list[str] | None) -> pa.Table:
    try:
        if path.is_dir():
            parts = pyarrow.dataset.dataset(_parts(path), format="parquet")
            wanted = None if columns is None else [c for c in columns if c in parts.schema.names]
            return parts.to_table(columns=wanted or None)
        if not path.is_file():
            raise PenstockError(f"There is no trace file '{path}'; check the path.")
        if path.name.endswith(".parquet"):
            names = pq.read_schema(path).names
            wanted = None if columns is None else [c for c in columns if c in names]
            return pq.read_table(path, columns=wanted or None)
        if path.name.endswith((".csv", ".csv.gz")):
            table = pyarrow.csv.read_csv(path)
            _ = table.column_names  # names that are no UTF-8 show here
            return table
    except (pa.ArrowException, OSError, EOFError, UnicodeDecodeError) as error:
        reason = (getattr(error, "strerror", None) or str(error)).splitlines()[0].rstrip(".")
        raise PenstockError(
            f"The trace '{path}' cannot be read ({reason}); is it damaged, of another kind, or not for you to read?"
        ) from None
    raise _strange_ending(path)


def _parts(folder: Path) -> list[str]:
    """The Parquet files of a folder in order of their names, without what writers hide or have not finished."""
    found = [str(p) for p in sorted(folder.glob("*.parquet")) if p.is_file() and p.name[0] not in "._"]
    if not found:
        raise PenstockError(
            f"The folder '{folder}' has no Parquet files; name one that has, or a trace file ({', '.join(_ENDINGS)})."
        )
    return found


def _strange_ending(path: Path) -> PenstockError:
    return PenstockError(f"'{path}' is no trace file by its name; a name ends in {', '.join(_ENDINGS)}.")


def write_trace(path: str | Path, trace: Trace | pa.Table | Iterable[pa.RecordBatch]) -> int:
    """Write a trace, whole or batch by batch, and return its number of rows.

    The file appears under its name when it is complete; on any failure nothing is left behind.
    """
    path = Path(path)
    if not path.name.endswith(_ENDINGS):
        raise _strange_ending(path)
    table = trace.table() if isinstance(trace, Trace) else trace
    batches = iter(table.to_batches() if isinstance(table, pa.Table) else table)
    try:
        first = next(batches)
    except StopIteration:
        raise PenstockError("An empty trace is not written; it needs at least one arrival.") from None
    rows = 0
    with _appearing(path) as temporary, _writer(temporary, path.name, first.schema) as writer:
        writer.write_batch(first)
        rows += first.num_rows
        for batch in batches:
            writer.write_batch(batch)
            rows += batch.num_rows
    return int(rows)


@contextmanager
def _appearing(path: Path) -> Iterator[Path]:
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        temporary.touch()  # fails with a plain reason where Arrow's is a paragraph
        yield temporary
        temporary.replace(path)
    except OSError as error:
        raise PenstockError(
            f"Cannot write the trace '{path}' ({error.strerror or error}); name another place."
        ) from None
    finally:
        with suppress(OSError):  # where nothing can be written, nothing is left behind
            temporary.unlink(missing_ok=True)


@contextmanager
def _writer(file: Path, name: str, schema: pa.Schema) -> Iterator[pq.ParquetWriter | pyarrow.csv.CSVWriter]:
    if name.endswith(".parquet"):
        with pq.ParquetWriter(file, schema, compression="zstd", compression_level=1) as writer:
            yield writer
    elif name.endswith(".gz"):
        with (
            pa.CompressedOutputStream(str(file), "gzip") as out,
            pyarrow.csv.CSVWriter(out, schema) as writer,
        ):
            yield writer
    else:
        with pyarrow.csv.CSVWriter(file, schema) as writer:
            yield writer
