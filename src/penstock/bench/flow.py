"""Flows against the same jobs written by hand in Structured Streaming, and against themselves laid out otherwise.

Everything runs in one Spark session on two cores and on the same files, a file a micro-batch. Both sides are timed by
Spark's own account of each micro-batch, without the first ones, in which everything is compiled and loaded.
"""

import tempfile
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.apps import finance, wordcount
from penstock.bench.flow_operators import ask, ask_alone, burn, burn_alone, finish, keep, spread_out, totals
from penstock.bench.report import Report, Table
from penstock.policies import Organic
from penstock.spark import session

WARM_UP = 2


class Bench:
    """The runs of one benchmark: a session, a scratch folder, and how a run is timed."""

    def __init__(self, spark: Any, scratch: Path) -> None:
        self.spark, self.scratch, self._runs = spark, scratch, 0

    def files(self, name: str, tables: list[pa.Table]) -> Any:
        """A stream that plays tables, one a batch."""
        from penstock.spark.flow.feeds import played

        return played(self.spark, tables, self.scratch / name)

    def folder(self) -> str:
        """A new folder for a checkpoint."""
        self._runs += 1
        made = self.scratch / f"run-{self._runs}"
        made.mkdir()
        return str(made)

    def flow(self, flow: Any, change: Mapping[str, Any] | None = None, **given: Any) -> dict[str, Any]:
        """Rows a second of a flow."""
        folder = self.folder()
        run = flow.start(
            self.spark, checkpoint=folder + "/checkpoint", output=folder + "/out", available_now=True, **given
        )
        if change:
            run.reconfigure(**change)
        run.await_termination()
        return timed(run.query) | {"plan": run.plan}

    def query(self, query: Any) -> dict[str, float]:
        """Rows a second of a query of Spark's own."""
        query.awaitTermination()
        return timed(query)


def timed(query: Any) -> dict[str, Any]:
    """Rows a second and seconds a batch, by Spark's account, after the warm-up."""
    batches = [p for p in query.recentProgress if p["numInputRows"] > 0]
    steady = batches[min(WARM_UP, len(batches) - 1) :]
    seconds = [p["durationMs"]["triggerExecution"] / 1000 for p in steady]
    rows = sum(p["numInputRows"] for p in steady)
    return {"rate": rows / sum(seconds), "seconds": float(np.median(seconds)), "batches": len(steady)}


def run(quick: bool, folder: Path) -> Report:
    """All comparisons."""
    report = Report("Flows", "penstock bench flow" + (" --quick" if quick else ""))
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as scratch:
        spark = session("local[2]", app="penstock bench flow")
        spark.conf.set("spark.sql.shuffle.partitions", "2")
        bench = Bench(spark, Path(scratch))
        _keyed(bench, report, quick)
        _words(bench, report, quick)
        _bargains(bench, report, quick)
        _layouts(bench, report, quick)
        _organic(bench, report, quick)
        spark.stop()
    return report


def _keyed(bench: Bench, report: Report, quick: bool) -> None:
    """A running count and sum by key."""
    from penstock.spark.flow.rivals import native, transform_with_state

    rows: list[tuple[str, int, int, float, float]] = []
    rates: dict[tuple[str, int], float] = {}

    def note(job: str, side: str, keys: int, size: int, done: Mapping[str, Any]) -> None:
        rows.append((job, keys, size, done["rate"], done["seconds"]))
        rates[side, keys] = max(done["rate"], rates.get((side, keys), 0.0))

    many = 20_000 if quick else 100_000
    cases = [(5_000, 50_000, 6, 3), (100_000, 200_000, 6 if quick else 10, 0 if quick else 1)]
    cases += [(many, 2 * many, 5, 2)] if quick else []
    for keys, size, batches, python in cases:
        rng = np.random.default_rng(keys)
        tables = [
            pa.table({"key": rng.integers(0, keys, size), "value": rng.random(size)}) for _ in range(batches)
        ]
        stream = bench.files(f"keyed-{keys}", tables)
        for replicas in (1, 2):
            done = bench.flow(_flow("totals", stream, totals), replicas={"totals": replicas})
            note(f"Penstock, {replicas} replica{'s' * (replicas > 1)}", "penstock", keys, size, done)
        done = bench.query(native(stream, ["key"], ["count(*) AS n", "sum(value) AS s"], bench.folder()))
        note("native aggregation, RocksDB", "native", keys, size, done)
        if python:
            few = bench.files(f"keyed-{keys}-few", tables[:python])
            note(
                "transformWithState in Python",
                "python",
                keys,
                size,
                bench.query(transform_with_state(few, "totals", bench.folder())),
            )
    words = (
        "One batch without a warm-up is timed for transformWithState where it takes minutes a batch."
        if not quick
        else ""
    )
    report.tables.append(
        Table(
            "Running count and sum by key",
            ("job", "keys", "rows a batch", "rows/s", "s a batch"),
            rows,
            words,
        )
    )
    _goal(
        report,
        f"Against transformWithState in Python, {many:,} keys",
        10,
        rates["penstock", many] / rates["python", many],
    )
    _goal(
        report,
        "Against native aggregation with RocksDB, 100,000 keys",
        1.5,
        rates["penstock", 100_000] / rates["native", 100_000],
    )


def _words(bench: Bench, report: Report, quick: bool) -> None:
    """Word count, lines to counts."""
    from penstock.spark.flow.rivals import native, transform_with_state

    size, batches = 20_000, 5 if quick else 8
    lines = wordcount.sentences(size * batches)
    tables = [pa.table({"line": lines[i * size : (i + 1) * size]}) for i in range(batches)]
    stream = bench.files("lines", tables)
    ours = bench.flow(_word_flow(stream), replicas={"count": 2})
    words = stream.selectExpr("explode(split(lower(line), ' ')) AS word")
    hand = bench.query(native(words, ["word"], ["count(*) AS n"], bench.folder()))
    few = bench.files("lines-few", tables[:2]).selectExpr("explode(split(lower(line), ' ')) AS word")
    python = bench.query(transform_with_state(few, "words", bench.folder()))
    rows = [
        ("Penstock", ours["rate"]),
        ("native, RocksDB (counts only once a batch)", hand["rate"]),
        ("transformWithState in Python", python["rate"]),
    ]
    report.tables.append(
        Table(
            "Word count",
            ("job", "lines/s"),
            rows,
            f"{wordcount.WORDS_A_LINE} words a line; Penstock writes the count after every word, as Joker's does.",
        )
    )
    _goal(report, "Word count against transformWithState in Python", 10, ours["rate"] / python["rate"])


def _bargains(bench: Bench, report: Report, quick: bool) -> None:
    """Finance: a join of two streams with state has no native form."""
    from penstock.spark.flow.flow import Flow
    from penstock.spark.flow.rivals import transform_with_state

    size, batches, symbols = 100_000, 5 if quick else 8, 2_000
    trades, quotes = (pa.Table.from_pylist(rows) for rows in finance.synthetic_rows(size * batches, symbols))
    edges = np.arange(1, batches + 1) * size
    cut = {"trades": finance.by_time(trades, edges), "quotes": finance.by_time(quotes, edges)}
    flow = Flow("finance")
    finance.build(*[flow.source(n, bench.files(n, tables), time="ts") for n, tables in cut.items()]).sink(
        "bargains"
    )
    ours = bench.flow(flow, replicas={"add_up": 2, "find_bargains": 2})
    merged = [_merged(t, q) for t, q in zip(cut["trades"], cut["quotes"], strict=True)]
    python = bench.query(transform_with_state(bench.files("events", merged[:3]), "bargains", bench.folder()))
    report.tables.append(
        Table(
            "Finance, 2,000 symbols",
            ("job", "rows/s"),
            [("Penstock", ours["rate"]), ("transformWithState in Python", python["rate"])],
        )
    )
    _goal(report, "Finance against transformWithState in Python", 10, ours["rate"] / python["rate"])


def _layouts(bench: Bench, report: Report, quick: bool) -> None:
    """The same flow laid out otherwise: fused or not, one or two replicas, overlapped or not, elastic or fixed."""
    size, batches = (30_000, 5) if quick else (40_000, 10)
    rng = np.random.default_rng(5)
    tables = [
        pa.table({"key": rng.integers(0, 1000, size), "value": rng.random(size)}) for _ in range(batches)
    ]
    stream = bench.files("layout", tables)
    rows: list[tuple[str, float, float]] = []

    def measure(name: str, flow: Any, **given: Any) -> float:
        done = bench.flow(flow, **given)
        rows.append((name, done["rate"], done["seconds"]))
        return float(done["rate"])

    fused = measure("three light operators fused", _flow("chain", stream, keep, keep, finish))
    apart = measure(
        "the same, each its own pipeline",
        _flow("chain", stream, keep, keep, finish),
        change={"pipelines": {"keep": (0, 1, 2)}},
    )
    one = measure("a heavy operator, 1 replica", _flow("heavy", stream, burn))
    two = measure("the same, 2 replicas", _flow("heavy", stream, burn), replicas={"burn": 2})
    inline, late = _overlap(bench, rows, 2 * size, batches)
    waiting = measure(
        "the same flow, waiting instead of computing",
        _flow("waiting", stream, ask, ask_alone),
        replicas={"ask": 2},
    )
    lapped = measure(
        "the same, overlapped",
        _flow("waiting", stream, ask, ask_alone),
        replicas={"ask": 2},
        change={"overlap": {"ask_alone": True}},
    )
    elastic, fixed = [], []
    for turn in range(1 if quick else 3):
        fixed.append(
            measure(
                f"two replicas, everything fixed, run {turn + 1}",
                _flow("fixed", stream, burn),
                replicas={"burn": 2},
                plain=True,
            )
        )
        elastic.append(
            measure(
                f"the same with policy, profile and journal, run {turn + 1}",
                _flow("elastic", stream, burn),
                replicas={"burn": 2},
                policy=Organic(max_replicas=2),
                period=1.0,
            )
        )
    report.tables.append(Table("Layouts of one flow", ("layout", "rows/s", "s a batch"), rows))
    report.claim("Fusing light operators pays", "> 1", f"{fused / apart:.2f} times", fused > apart)
    report.claim("Two replicas of a heavy operator", "> 1.3 times", f"{two / one:.2f} times", two > 1.3 * one)
    report.claim(
        "Overlap by a pipeline split on two cores",
        ">= 1.25 times (1.5 is ideal)",
        f"{late / inline:.2f} times",
        late >= 1.25 * inline,
    )
    report.claim(
        "Overlap where operators wait instead of compute",
        ">= 1.25 times",
        f"{lapped / waiting:.2f} times",
        lapped >= 1.25 * waiting,
    )
    share = 1 - max(elastic) / max(fixed)
    report.claim(
        "The elastic runtime against everything fixed",
        "at most 5 % slower",
        f"{100 * share:+.1f} %",
        share <= 0.05,
    )


def _overlap(
    bench: Bench, rows: list[tuple[str, float, float]], size: int, batches: int
) -> tuple[float, float]:
    """A parallel region before a stateful operator of the same total cost, one after the other and overlapped."""
    rng = np.random.default_rng(7)
    tables = [
        pa.table({"key": rng.integers(0, 1000, size), "value": rng.random(size)}) for _ in range(batches)
    ]
    stream = bench.files("overlap", tables)
    rates = []
    for name, overlap in (
        ("parallel region, then a stateful operator", False),
        ("the same, overlapped", True),
    ):
        flow = _flow("overlap", stream, spread_out, burn_alone)
        done = bench.flow(flow, replicas={"spread_out": 2}, change={"overlap": {"burn_alone": overlap}})
        rows.append((name, done["rate"], done["seconds"]))
        rates.append(float(done["rate"]))
    return rates[0], rates[1]


def _organic(bench: Bench, report: Report, quick: bool) -> None:
    """Organic from one replica each, against a small hand search on the same input."""
    batches = 14 if quick else 40
    rng = np.random.default_rng(6)
    tables = [
        pa.table({"key": rng.integers(0, 1000, 30_000), "value": rng.random(30_000)}) for _ in range(batches)
    ]
    lines = wordcount.sentences(20_000 * batches)
    texts = [pa.table({"line": lines[i * 20_000 : (i + 1) * 20_000]}) for i in range(batches)]
    jobs: list[tuple[str, list[pa.Table], Any, tuple[str, ...]]] = [
        ("a heavy operator", tables, lambda stream: _flow("heavy", stream, burn), ("burn",)),
        ("word count", texts, _word_flow, ("count",)),
    ]
    if not quick:
        numbers = [pa.table({"value": np.arange(i * 100_000, (i + 1) * 100_000)}) for i in range(batches)]
        jobs.append(("finance", numbers, _finance_flow, ("add_up", "find_bargains")))
    rows: list[tuple[str, str, float]] = []
    for name, played, make, regions in jobs:
        _organic_on(bench, report, rows, name, played, make, regions)
    note = f"Organic had {batches} batches, from one replica each; its end is scored by the hand search's rate for it."
    report.tables.append(
        Table("Organic against a hand search", ("flow", "configuration", "rows/s"), rows, note)
    )


def _organic_on(
    bench: Bench,
    report: Report,
    rows: list[tuple[str, str, float]],
    name: str,
    tables: list[pa.Table],
    make: Any,
    regions: tuple[str, ...],
) -> None:
    short = bench.files(f"short {name}", tables[:6])
    found: dict[tuple[int, ...], float] = {}
    for replicas in product((1, 2), repeat=len(regions)):
        found[replicas] = bench.flow(make(short), replicas=dict(zip(regions, replicas, strict=True)))["rate"]
    policy = Organic(warmup=1, samples=2, max_replicas=2, bottleneck=0.6)
    done = bench.flow(make(bench.files(f"long {name}", tables)), policy=policy, period=0.5)
    chosen = tuple(done["plan"].regions[r].replicas for r in regions)
    rows += [(name, f"{replicas} by hand", rate) for replicas, rate in found.items()]
    rows.append((name, f"{chosen} by Organic", found[chosen]))
    share = found[chosen] / max(found.values())
    report.claim(
        f"Organic on {name}, against the best by hand", ">= 0.95 of it", f"{share:.2f}", share >= 0.95
    )


def _word_flow(stream: Any) -> Any:
    from penstock.spark.flow.flow import Flow

    flow = Flow("wordcount")
    wordcount.build(flow.source("lines", stream)).sink("counts")
    return flow


def _finance_flow(stream: Any) -> Any:
    from penstock.spark.flow.flow import Flow

    flow = Flow("finance")
    source = flow.source("numbers", stream)
    finance.build(*[source.through(one) for one in finance.market(2_000)]).sink("bargains")
    return flow


def _flow(name: str, stream: Any, *operators: Any) -> Any:
    from penstock.spark.flow.flow import Flow

    made = Flow(name)
    at = made.source("rows", stream)
    for operator in operators:
        at = at.through(operator)
    at.sink("out")
    return made


def _merged(trades: pa.Table, quotes: pa.Table) -> pa.Table:
    columns = ("ts", "symbol", "price", "size")
    left = trades.select(list(columns)).append_column("trade", pa.array(np.ones(trades.num_rows, dtype=bool)))
    right = quotes.rename_columns(list(columns)).append_column(
        "trade", pa.array(np.zeros(quotes.num_rows, dtype=bool))
    )
    return pa.concat_tables([left, right]).sort_by("ts")


def _goal(report: Report, text: str, goal: float, ratio: float) -> None:
    report.claim(text, f">= {goal:g} times", f"{ratio:.2f} times", ratio >= goal)
