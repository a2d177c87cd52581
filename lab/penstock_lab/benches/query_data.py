"""Streams for the query benchmark: Parquet files, one for each second of arrival."""

import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from penstock.traffic.spec import StreamSpec

#: Time 0 of the streams: midnight of a day, so that windows of any length line up.
EPOCH_US = 1_767_225_600_000_000


def write_stream(
    folder: Path,
    rate: float,
    seconds: int,
    dims: int,
    *,
    delay: float = 0.2,
    dispersion: float = 100.0,
    seed: int = 1,
) -> int:
    """MAP(2) arrivals with independent attributes, uniformly delayed; gives the number of rows."""
    if folder.exists():
        return int(pq.ParquetDataset(folder).read(columns=["row"]).num_rows)
    folder.mkdir(parents=True)
    spec = StreamSpec(
        model="map2",
        rate=rate,
        dispersion=dispersion,
        dims=dims,
        delay_mean=delay,
        seed=seed,
        seconds=float(seconds),
    )
    table = spec.build().table()
    times = np.rint(table["event_time"].to_numpy() * 1e6).astype(np.int64) + EPOCH_US
    table = table.set_column(
        table.column_names.index("event_time"), "event_time", pa.array(times, pa.timestamp("us", "UTC"))
    )
    table = table.append_column("row", pa.array(np.arange(table.num_rows)))
    second = pc.cast(pc.floor(table["arrival"]), pa.int64())
    for number in range(int(pc.max(second).as_py()) + 1):
        path = folder / f"{number:05d}.parquet"
        pq.write_table(table.filter(pc.equal(second, number)), path)
        os.utime(path, (number + 1, number + 1))  # Spark takes files by their age
    return int(table.num_rows)


def window_rows(folder: Path) -> dict[int, list[int]]:
    """The answers of a run: start of the window -> the numbers of its rows, sorted."""
    table = pq.ParquetDataset(folder).read(columns=["window_start", "row"])
    # Spark writes timestamps in nanoseconds, Penstock in microseconds.
    starts = table["window_start"].cast(pa.timestamp("us", "UTC")).cast(pa.int64()).to_numpy()
    rows = table["row"].to_numpy()
    order = np.lexsort((rows, starts))
    distinct, first = np.unique(starts[order], return_index=True)
    pieces = np.split(rows[order], first[1:])
    return {int(start): piece.tolist() for start, piece in zip(distinct, pieces, strict=True)}
