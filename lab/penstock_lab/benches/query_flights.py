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

import penstock as ps
from penstock.disorder.strategy import Disorder
from penstock.testing.query_run import start_query_in_process
from penstock_lab.data import data_folder
from penstock_lab.judging import at_least, both, cut_by, judged, within
from penstock_lab.results import ResultsPage, Table

FILE = "nycflights13_ooo.csv.gz"
DROPS = (0.001, 0.01, 0.02, 0.05)

#: Rows of a small batch: about five hours of flights, less than a window.
SMALL = 200
SLACKS: dict[str, Disorder] = {
    "K-slack": ps.KSlack(),
    "drop 1 %": ps.AdaptiveSlack(drop=0.01),
    "recall 99 %": ps.AdaptiveSlack(recall=0.99),
    "recall 95 %": ps.AdaptiveSlack(recall=0.95),
    "recall 90 %": ps.AdaptiveSlack(recall=0.90),
}


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
        small = [
            (name, *small_batches(slack, folder, Path(scratch) / name)) for name, slack in SLACKS.items()
        ]
    _tell_small(report, small)
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
        cut_by(gain, 10.0),
    )


def small_batches(slack: Disorder, stream: Path, work: Path) -> tuple[float, float, float, float]:
    """Flights in small batches, run without Spark: mean wait (s), rows lost, recall of the answers, recall as measured.

    Wait and recall are those of the second half of the year; the recall is against windows over all rows.
    """
    rows = pq.read_table(stream).sort_by("row")
    query = ps.PreferenceQuery(
        ps.skyline_of(*(ps.minimize(f"a{i}") for i in range(3))),
        time="event_time",
        window="6 hours",
        slide="1 hour",
        disorder=slack,
        behind="30 days",
        pane_workers=1,
        window_workers=1,
    )
    run = start_query_in_process(query, rows.schema, work)
    waits = []
    for start in range(0, rows.num_rows, SMALL):
        run.feed(rows.slice(start, SMALL), 1)
        waits.append(run.progress["event_lag"])
    true, given = (_by_window(t) for t in (query.evaluate(rows), pq.read_table(work / "out")))
    ends = sorted(given)[len(given) // 2 :]
    there = sum(len(true[e] & given[e]) for e in ends) / sum(len(true[e]) for e in ends)
    wait = float(np.nanmean(waits[len(waits) // 2 :]))
    return wait, run.progress["dropped_share"], there, run.progress["recall"]


def _by_window(answers: pa.Table) -> dict[Any, set[int]]:
    found: dict[Any, set[int]] = {}
    for end, row in zip(answers["window_end"].to_pylist(), answers["row"].to_pylist(), strict=True):
        found.setdefault(end, set()).add(row)
    return found


def _tell_small(report: ResultsPage, small: list[tuple[str, float, float, float, float]]) -> None:
    report.tables.append(
        Table(
            f"Flights in batches of {SMALL} rows (five hours), without Spark: what answers lose against waiting",
            ("slack", "windows wait (min)", "rows lost", "answers' rows there", "as the query measured it"),
            [
                (
                    name,
                    wait / 60,
                    f"{lost:.2%}",
                    f"{there:.2%}",
                    "" if measured != measured else f"{measured:.2%}",
                )
                for name, wait, lost, there, measured in small
            ],
            "Second half of the year for wait and answers; answers against those over all rows.",
        )
    )
    by_name = {name: rest for name, *rest in small}
    report.claim(
        "a drop target of 1 % is met in small batches",
        "about 1 %",
        f"{by_name['drop 1 %'][1]:.2%}",
        within(0.007, 0.013, by_name["drop 1 %"][1], form=".1%"),
    )
    for share in (0.99, 0.95, 0.90):
        wait, _, there, _ = by_name[f"recall {share:.0%}".replace("%", " %")]
        report.claim(
            f"a recall of {share:.0%} is met and shortens the waiting",
            f"{share:.0%} of the answers' rows, less waiting than K-slack",
            f"{there:.2%}, {wait / 60:.0f} min against {by_name['K-slack'][0] / 60:.0f} min",
            both(
                at_least(there, share - (1 - share) / 4, ".4f"),
                judged(wait < by_name["K-slack"][0], "below K-slack"),
            ),
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
