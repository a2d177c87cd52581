"""``penstock bench nexmark``: five queries of Nexmark, as flows beside Spark's own operators, and under policies.

Parts: throughput of each query, live on Spark; every policy in the simulator, under four loads; three policies live on Spark, three runs each.
"""

import tempfile
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from penstock_lab.benches.nexmark_live import live
from penstock_lab.benches.nexmark_policies import policies
from penstock_lab.cell_runs import Cell, CellRuns, Figures, kept_runs, missing
from penstock_lab.nexmark import QUERIES
from penstock_lab.nexmark.events import generate
from penstock_lab.part_pages import parts_to_run
from penstock_lab.results import ResultsPage, Table

#: Parts that can be run alone; the page keeps those that were run before.
PARTS = ("throughput", "policies", "live")


def run(quick: bool, folder: Path, part: str | None = None, minutes: float | None = None) -> ResultsPage:
    """Throughput, policies in the simulator, policies live; ``minutes`` after which no further run on Spark is begun."""
    parts = parts_to_run(part, PARTS, quick, ("throughput", "policies"))
    given = (" --quick" if quick else "") + (f" --part {part}" if part else "")
    report = ResultsPage("Nexmark", "penstock bench nexmark" + given, quick=quick)
    batches, size = (4, 10_000) if quick else (12, 100_000)
    queries = ("q1", "q11") if quick else tuple(QUERIES)
    with kept_runs(folder / "nexmark", quick, minutes) as kept:
        if "throughput" in parts:
            throughput(report, kept, queries, batches, size)
        if "policies" in parts:
            policies(report, queries, quick)
        if "live" in parts:
            live(report, kept)
    return report


def throughput(
    report: ResultsPage, kept: CellRuns, queries: tuple[str, ...], batches: int, size: int
) -> None:
    """Rows a second of flow and query."""
    cells = [Cell("throughput", query, way) for query in queries for way in WAYS]
    if missing(kept, cells):
        _measure(kept, cells, batches, size)
    rows = []
    for ours, theirs in zip(cells[::2], cells[1::2], strict=True):
        rates = [kept.spread(cell, "rate") for cell in (ours, theirs)]
        rows.append([ours.load, QUERIES[ours.load], *map(str, rates), rates[0].mean / rates[1].mean])
    report.tables.append(
        Table(
            "Throughput on two cores",
            ("query", "asks for", "flow, rows/s", "Structured Streaming, rows/s", "times"),
            rows,
            f"{batches} batches of {size:,} events, of which the second half is timed, in turn; mean ± standard deviation of the runs; "
            f"RocksDB for Spark's state; output of Spark to nowhere, of the flow to files. {kept.speed(cells)}",
        )
    )  # fmt: skip


def _measure(kept: CellRuns, cells: Sequence[Cell], batches: int, size: int) -> None:
    """Run both ways in turn in one session."""
    from penstock.spark.session import session
    from penstock_lab.benches.flow_runs import FlowBench

    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as scratch:
        # Two cores, four slots: resident workers keep two of them, and Spark's own tasks have the others.
        options = {"spark.default.parallelism": "2", "spark.sql.shuffle.partitions": "2"}
        spark = session("local[4]", app="penstock bench nexmark", config=options)
        bench = FlowBench(spark, Path(scratch))
        events = generate(batches * size, rate=size / 2.0, seed=1)
        cuts = {name: _cut(getattr(events, name), batches) for name in ("bids", "persons", "auctions")}
        kept.fill(cells, lambda cell, number: WAYS[cell.way](bench, cell.load, cuts, number))
        spark.stop()


def _flow(bench: Any, query: str, cuts: dict[str, list[pa.Table]], number: int) -> Figures:
    from penstock.spark.flow.flow import Flow
    from penstock_lab.nexmark.flows import FLOWS

    make, sources = FLOWS[query]
    streams = (bench.files(f"{query} flow {s} {number}", cuts[s]) for s in sources)
    return {"rate": bench.flow(make(Flow(query), *streams))["rate"]}


def _structured_streaming(bench: Any, query: str, cuts: dict[str, list[pa.Table]], number: int) -> Figures:
    from penstock_lab.baselines import ROCKS
    from penstock_lab.nexmark.spark import QUERIES as WRITTEN
    from penstock_lab.nexmark.spark import start

    bench.spark.conf.set("spark.sql.streaming.stateStore.providerClass", ROCKS)
    make, sources = WRITTEN[query]
    frame = make(*(bench.files(f"{query} spark {s} {number}", cuts[s]) for s in sources))
    return {"rate": bench.query(start(frame, bench.folder()))["rate"]}


#: Ways that are compared, Penstock's first.
WAYS = {"flow": _flow, "Structured Streaming": _structured_streaming}


def _cut(table: pa.Table, parts: int) -> list[pa.Table]:
    """As many tables as there are batches, by rows."""
    edges = np.linspace(0, table.num_rows, parts + 1).astype(int)
    return [table.slice(a, b - a) for a, b in pairwise(edges)]
