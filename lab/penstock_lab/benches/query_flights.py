"""A truly out-of-order stream: flights in order of departure, with the scheduled departure as event time."""

import gzip
import os
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from penstock_lab.data import data_folder
from penstock_lab.judging import at_least
from penstock_lab.results import ResultsPage, Table

FILE = "nycflights13_ooo.csv.gz"
DROPS = (0.001, 0.01, 0.02, 0.05)


def add(report: ResultsPage, session: Callable[[Sequence[dict[str, Any]]], list[dict[str, Any]]]) -> None:
    """The effect of the drop target on waiting and on lost rows; skipped where the data is not there."""
    source = data_folder() / FILE
    if not source.exists():
        report.tables.append(
            Table("Flights", ("note",), [(f"{FILE} is not there; set PENSTOCK_DATA to its folder",)])
        )
        return
    with tempfile.TemporaryDirectory(prefix="penstock-flights-") as scratch:
        folder = Path(scratch) / "stream"
        rows = write_flights(source, folder)
        common = {
            "kind": "ours",
            "folder": str(folder),
            "dims": 3,
            "window": "6 hours",
            "slide": "1 hour",
            "files_per_batch": 1,
        }
        runs = [common | {"work": f"{scratch}/kslack"}]
        runs += [common | {"work": f"{scratch}/drop{d}", "drop": d} for d in DROPS]
        done = session(runs)
    names = ["K-slack", *(f"drop target {d:.1%}" for d in DROPS)]
    table = [
        (name, d["event_lag"] / 60, d["slack"] / 60, f"{d['dropped_share']:.2%}")
        for name, d in zip(names, done, strict=True)
    ]
    report.tables.append(
        Table(
            f"Drop target against waiting (PPQ Fig. 17): {rows:,} flights of 2013, windows of 6 h by 1 h",
            ("slack", "windows wait (min)", "longest delay seen (min)", "rows lost"),
            table,
            "PPQ: a drop target of 1 % cuts the latency by an order of magnitude.",
        )
    )
    waits = {d: r["event_lag"] for d, r in zip((None, *DROPS), done, strict=True)}
    gain = waits[None] / max(waits[0.01], 1e-9)
    report.claim(
        "a drop target of 1 % cuts the waiting for late flights",
        "about tenfold (PPQ)",
        f"{gain:.1f} times",
        at_least(gain, 7.5, ".1f"),
    )


def write_flights(source: Path, folder: Path, per_file: int = 16_000) -> int:
    """Flights as a stream: delays and air time are to be small, distances large (negated, so that small is better)."""
    with gzip.open(source) as file:
        table = pa.csv.read_csv(file)
    table = table.filter(pa.compute.is_valid(table["air_time"]))
    minutes = table["sched_dep_min"].to_numpy().astype(np.int64)
    rows = pa.table(
        {
            "event_time": pa.array(minutes * 60_000_000 + 1_356_998_400_000_000, pa.timestamp("us", "UTC")),
            "a0": table["dep_delay"].cast(pa.float64()),
            "a1": table["air_time"].cast(pa.float64()),
            "a2": pa.array(-table["distance"].to_numpy().astype(float)),
            "row": pa.array(np.arange(table.num_rows)),
        }
    )
    folder.mkdir(parents=True)
    for number, start in enumerate(range(0, rows.num_rows, per_file)):
        path = folder / f"{number:05d}.parquet"
        pq.write_table(rows.slice(start, per_file), path)
        os.utime(path, (number + 1, number + 1))
    return int(rows.num_rows)
