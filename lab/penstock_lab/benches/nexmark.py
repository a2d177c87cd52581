"""``penstock bench nexmark``: five queries of Nexmark, as flows beside Spark's own operators, and under policies.

Parts: throughput of each query, live on Spark; every policy in the simulator, under four loads; three policies live on Spark, three runs each.
"""

import tempfile
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.core.errors import unknown
from penstock_lab.benches.nexmark_live import live
from penstock_lab.benches.nexmark_policies import policies
from penstock_lab.nexmark import QUERIES
from penstock_lab.nexmark.events import generate
from penstock_lab.results import ResultsPage, Table, announce

#: Parts that can be run alone; the page keeps those that were run before.
PARTS = (*QUERIES, "policies", "live")


def run(quick: bool, folder: Path, part: str | None = None, minutes: float | None = None) -> ResultsPage:
    """Throughput, policies in the simulator, policies live; ``minutes`` after which no further live run is begun."""
    if part is not None and part not in PARTS:
        raise unknown("part", part, PARTS)
    given = (" --quick" if quick else "") + (f" --part {part}" if part else "")
    report = ResultsPage("Nexmark", "penstock bench nexmark" + given)
    batches, size = (4, 10_000) if quick else (12, 100_000)
    queries = ("q1", "q11") if quick else tuple(QUERIES)
    if part is None or part in QUERIES:
        throughput(report, (part,) if part else queries, batches, size)
    if part in (None, "policies"):
        policies(report, queries, quick)
    if part == "live" or (part is None and not quick):
        live(report, folder, minutes)
    return report


def throughput(report: ResultsPage, queries: tuple[str, ...], batches: int, size: int) -> None:
    """Rows a second of flow and query."""
    from penstock.spark.session import session
    from penstock_lab.benches.flow_runs import FlowBench

    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as scratch:
        # Two cores, four slots: resident workers keep two of them, and Spark's own tasks have the others.
        options = {"spark.default.parallelism": "2", "spark.sql.shuffle.partitions": "2"}
        spark = session("local[4]", app="penstock bench nexmark", config=options)
        bench = FlowBench(spark, Path(scratch))
        events = generate(batches * size, rate=size / 2.0, seed=1)
        cuts = {name: _cut(getattr(events, name), batches) for name in ("bids", "persons", "auctions")}
        rows = []
        for query in queries:
            announce(query)
            rows.append(_both(bench, query, cuts))
        spark.stop()
    report.tables.append(
        Table(
            "Throughput on two cores",
            ("query", "asks for", "flow, rows/s", "Structured Streaming, rows/s", "times"),
            rows,
            f"{batches} batches of {size:,} events, of which the second half is timed, one run each; RocksDB for Spark's state; output of Spark to nowhere, of the flow to files.",
        )
    )  # fmt: skip


def _both(bench: Any, query: str, cuts: dict[str, list[pa.Table]]) -> list[Any]:
    from penstock.spark.flow.flow import Flow
    from penstock_lab.baselines import ROCKS
    from penstock_lab.nexmark.flows import FLOWS
    from penstock_lab.nexmark.spark import QUERIES as WRITTEN
    from penstock_lab.nexmark.spark import start

    make, sources = FLOWS[query]
    ours = bench.flow(make(Flow(query), *(bench.files(f"{query} flow {s}", cuts[s]) for s in sources)))
    bench.spark.conf.set("spark.sql.streaming.stateStore.providerClass", ROCKS)
    written, _ = WRITTEN[query]
    frame = written(*(bench.files(f"{query} spark {s}", cuts[s]) for s in sources))
    theirs = bench.query(start(frame, bench.folder()))
    return [query, QUERIES[query], ours["rate"], theirs["rate"], ours["rate"] / theirs["rate"]]


def _cut(table: pa.Table, parts: int) -> list[pa.Table]:
    """As many tables as there are batches, by rows."""
    edges = np.linspace(0, table.num_rows, parts + 1).astype(int)
    return [table.slice(a, b - a) for a, b in pairwise(edges)]
