"""Flows against the same jobs written by hand in Structured Streaming, and against themselves laid out otherwise.

Everything runs in one Spark session on two cores and on the same files, two a micro-batch. Both sides are timed by
Spark's own account of each micro-batch, without the first ones, in which everything is compiled and loaded. Spark's
Python state has two forms, by frames and by rows; the faster one is the opponent.
"""

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.apps import finance, wordcount
from penstock.spark import session
from penstock_lab.benches.flow_grains import compare_grains
from penstock_lab.benches.flow_layouts import compare_layouts
from penstock_lab.benches.flow_operators import totals
from penstock_lab.benches.flow_organic import compare_organic
from penstock_lab.benches.flow_runs import SYMBOLS, FlowBench, chain, finance_flow, goal, word_flow
from penstock_lab.part_pages import parts_to_run
from penstock_lab.results import ResultsPage, Table


def run(quick: bool, folder: Path, part: str | None = None) -> ResultsPage:
    """All comparisons, or one."""
    chosen = parts_to_run(part, PARTS, quick, QUICK_PARTS)
    given = (" --quick" if quick else "") + (f" --part {part}" if part else "")
    report = ResultsPage("Flows", "penstock bench flow" + given, quick=quick)
    if "grains" in chosen:
        compare_grains(report, quick)
    if chosen == ["grains"]:  # needs no Spark
        return report
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as scratch:
        # Two cores, four slots: resident workers keep two of them, and Spark's own tasks have the others.
        options = {"spark.default.parallelism": "2", "spark.sql.shuffle.partitions": "2"}
        spark = session("local[4]", app="penstock bench flow", config=options)
        bench = FlowBench(spark, Path(scratch))
        for name, compare in PARTS.items():
            if compare is not None and name in chosen:
                compare(bench, report, quick)
        spark.stop()
    return report


class _Rows:
    """The rows of a table, and the best rate of each side."""

    def __init__(self) -> None:
        self.rows: list[tuple[Any, ...]] = []
        self.best: dict[tuple[str, int], float] = {}

    def add(self, side: str, job: str, keys: int, size: int, done: Mapping[str, Any]) -> None:
        """Note a run."""
        self.rows.append((job, keys, size, done["rate"], done["seconds"]))
        self.best[side, keys] = max(done["rate"], self.best.get((side, keys), 0.0))

    def ratio(self, keys: int, opponent: str) -> float:
        """Ours over theirs."""
        return self.best["penstock", keys] / self.best[opponent, keys]


def _python(
    bench: FlowBench, found: _Rows, job: str, stream: Callable[[], Any], keys: int, size: int, both: bool
) -> None:
    """Run the job with Spark's Python state: in both forms, or in the one that was faster before (by rows, if none was run)."""
    from penstock_lab.baselines import transform_with_state

    forms = [False, True]
    if not both:
        seen = {by_row: found.best.get((f"python {by_row}", _smallest(found)), 0.0) for by_row in forms}
        forms = [max(reversed(forms), key=lambda by_row: seen[by_row])]
    for by_row in forms:
        done = bench.query(transform_with_state(stream(), job, bench.folder(), by_row))
        name = f"transformWithState{'' if by_row else 'InPandas'}, Python"
        found.add("python", name, keys, size, done)
        found.best[f"python {by_row}", keys] = done["rate"]


def _smallest(found: _Rows) -> int:
    return min(keys for _, keys in found.best)


def _keyed(bench: FlowBench, report: ResultsPage, quick: bool) -> None:
    """A running count and sum by key."""
    from penstock_lab.baselines import native

    found = _Rows()
    # Keys, rows a batch, batches for Spark's Python state.
    cases = [(5_000, 20_000, 2)] if quick else [(5_000, 50_000, 3), (100_000, 200_000, 1)]
    batches = 6 if quick else 24
    for keys, size, python in cases:
        rng = np.random.default_rng(keys)
        tables = [
            pa.table({"key": rng.integers(0, keys, size), "value": rng.random(size)}) for _ in range(batches)
        ]
        stream = bench.files(f"keyed-{keys}", tables)
        for replicas in (1, 2):
            done = bench.flow(chain("totals", stream, totals), replicas={"totals": replicas})
            found.add("penstock", f"Penstock, {_replicas(replicas)}", keys, size, done)
        done = bench.query(native(stream, ["key"], ["count(*) AS n", "sum(value) AS s"], bench.folder()))
        found.add("native", "native aggregation, RocksDB", keys, size, done)
        few = bench.files(f"keyed-{keys}-few", tables[:python])
        _python(bench, found, "totals", lambda few=few: few, keys, size, keys == 5_000 and not quick)  # type: ignore[misc]
    report.tables.append(
        Table(
            "Running count and sum by key",
            ("job", "keys", "rows a batch", "rows/s", "s a batch"),
            found.rows,
            "Spark's Python state is slow with many keys, in frames minutes a batch: it gets three batches with "
            "5,000 keys, the last of which is timed, and one with 100,000, in the form that was faster with few "
            "and with a JVM and Python workers that are warm from that.",
        )
    )
    if quick:
        return
    goal(report, "Count and sum against Python state, 100,000 keys", 10, found.ratio(100_000, "python"))
    goal(report, "Count and sum against native with RocksDB, 100,000 keys", 3, found.ratio(100_000, "native"))


def _words(bench: FlowBench, report: ResultsPage, _quick: bool) -> None:
    """Word count, lines to counts: few words, and as many as English has."""
    from penstock_lab.baselines import native

    found = _Rows()
    size, batches = 20_000, 24
    few, many = len(wordcount.VOCABULARY), wordcount.ENGLISH
    for words in (few, many):
        lines = wordcount.text(size * batches, words)
        tables = [pa.table({"line": lines.slice(i * size, size)}) for i in range(batches)]
        stream = bench.files(f"lines-{words}", tables)
        for replicas in (1, 2):
            done = bench.flow(word_flow(stream), replicas={"count": replicas})
            found.add("penstock", f"Penstock, {_replicas(replicas)}", words, size, done)
        done = bench.query(native(_split(stream), ["word"], ["count(*) AS n"], bench.folder()))
        found.add("native", "native, RocksDB (one count a batch)", words, size, done)
        some = bench.files(f"lines-{words}-few", tables[: 3 if words == few else 2])
        _python(bench, found, "words", lambda some=some: _split(some), words, size, words == few)  # type: ignore[misc]
    note = (
        f"{wordcount.WORDS_A_LINE} words a line, the r-th most frequent word by 1 / r. Penstock gives out the count after every word, "
        "as Joker's does, and writes it to files; the others give out one count for each word and batch, to nowhere."
    )
    report.tables.append(
        Table("Word count", ("job", "words", "lines a batch", "lines/s", "s a batch"), found.rows, note)
    )
    goal(report, f"Word count against Python state, {many:,} words", 10, found.ratio(many, "python"))
    goal(report, f"Word count against Python state, {few:,} words only", 5, found.ratio(few, "python"))


def _split(stream: Any) -> Any:
    return stream.selectExpr("explode(split(lower(line), ' ')) AS word")


def _bargains(bench: FlowBench, report: ResultsPage, _quick: bool) -> None:
    """Finance: a join of two streams with state has no native form."""
    found = _Rows()
    size, batches = 100_000, 24
    trades, quotes = finance.synthetic_tables(size * batches, SYMBOLS)
    edges = np.arange(1, batches + 1) * size
    cut = {"trades": finance.by_time(trades, edges), "quotes": finance.by_time(quotes, edges)}
    streams = {name: bench.files(name, tables, parts=1) for name, tables in cut.items()}
    for replicas in (1, 2):
        done = bench.flow(finance_flow(streams), replicas={"add_up": replicas, "find_bargains": replicas})
        found.add("penstock", f"Penstock, {_replicas(replicas)} a region", SYMBOLS, size, done)
    merged = [_merged(t, q) for t, q in zip(cut["trades"], cut["quotes"], strict=True)]
    few = bench.files("events", merged[:3])
    _python(bench, found, "bargains", lambda: few, SYMBOLS, size, True)
    report.tables.append(
        Table("Finance", ("job", "symbols", "rows a batch", "rows/s", "s a batch"), found.rows)
    )
    goal(report, f"Finance against Python state, {SYMBOLS:,} symbols", 10, found.ratio(SYMBOLS, "python"))
    ratio = found.ratio(SYMBOLS, "python False")
    goal(report, f"Finance against Python state in frames, {SYMBOLS:,} symbols", 10, ratio)


def _merged(trades: pa.Table, quotes: pa.Table) -> pa.Table:
    columns = ("ts", "symbol", "price", "size")
    left = trades.select(list(columns)).append_column("trade", pa.array(np.ones(trades.num_rows, dtype=bool)))
    right = quotes.rename_columns(list(columns)).append_column(
        "trade", pa.array(np.zeros(quotes.num_rows, dtype=bool))
    )
    return pa.concat_tables([left, right]).sort_by("ts")


def _replicas(count: int) -> str:
    return f"{count} replica{'s' * (count > 1)}"


PARTS: Mapping[str, Callable[[FlowBench, ResultsPage, bool], None] | None] = {
    "grains": None,
    "keyed": _keyed,
    "words": _words,
    "bargains": _bargains,
    "layouts": compare_layouts,
    "organic": compare_organic,
}
#: Parts that fit into a minute.
QUICK_PARTS = ("keyed", "grains")
