"""Sliding windows of aggregates: WindowQuery against Spark's own windowed aggregation.

All sides read the same files, one a micro-batch, on two cores, and are timed by Spark's own account of each batch, without the
first ones. *Native* is ``groupBy(window(...), key)`` with Spark's count, sum and max. *Python* is what a user
writes for a function that Spark does not have: collect the values of each window, then numpy over Arrow; ours is the same function
as an aggregate of a user's own.
"""

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

import penstock as ps
from penstock.aggregates import Aggregate, count, max_of, sum_of
from penstock.spark import session
from penstock_lab.judging import at_least, every
from penstock_lab.part_pages import parts_to_run
from penstock_lab.results import ResultsPage, Table, announce

#: Batches that only warm up.
WARM_UP = 2
FILES = 5
SCHEMA = "t timestamp, k long, v long"


class GeometricMean(Aggregate):
    """The function that Spark does not have: the geometric mean of one plus the values."""

    partials = {"logs": pa.float64()}  # noqa: RUF012 - as a user writes it

    def lift(self, values: Any) -> dict[str, Any]:
        """Logarithms."""
        return {"logs": np.log1p(values.astype(float))}

    def combine(self, left: Any, right: Any) -> dict[str, Any]:
        """Their sums."""
        return {"logs": left["logs"] + right["logs"]}

    def lower(self, partials: Any, rows: Any) -> Any:
        """The mean."""
        return np.exp(partials["logs"] / np.maximum(rows, 1))


@dataclass(frozen=True)
class Case:
    """Panes a window, groups, rows a batch."""

    panes: int
    groups: int
    rows: int

    @property
    def span(self) -> int:
        """Panes, of a second each, that a batch holds."""
        return max(4, self.panes // 4)

    @property
    def window(self) -> str:
        """The window's length."""
        return f"{self.panes} seconds"


#: Rows a batch; by panes a window fewer where there is a rival in Python, which needs up to half a minute for them.
ROWS = 150_000
ROWS_IN_PYTHON = ((2, 150_000), (2, 1_000_000), (20, 150_000), (100, 30_000))


def run(quick: bool, folder: Path, part: str | None = None) -> ResultsPage:
    """All cases, or one part of them."""
    chosen = parts_to_run(part, PARTS, quick, QUICK_PARTS)
    given = (" --quick" if quick else "") + (f" --part {part}" if part else "")
    report = ResultsPage("Sliding windows of aggregates", "penstock bench windows" + given, quick=quick)
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as scratch:
        # Two cores, four slots: resident workers keep two of them, and Spark's own tasks have the others.
        options = {"spark.default.parallelism": "2", "spark.sql.shuffle.partitions": "2"}
        spark = session("local[4]", app="penstock bench windows", config=options)
        bench = _Bench(spark, Path(scratch))
        bench.measure(Case(2, 10, 2000), _plain, _native)  # everything is compiled once
        for name in chosen:
            PARTS[name](report, bench, quick)
        spark.stop()
    return report


def _few_groups(report: ResultsPage, bench: "_Bench", quick: bool) -> None:
    cases = [Case(20, 1000, 20_000)] if quick else [Case(p, g, ROWS) for p in (2, 20, 100) for g in (1, 1000)]
    _against(report, bench, "native functions", cases, _plain, _native, _judge_native)


def _many_groups(report: ResultsPage, bench: "_Bench", _quick: bool) -> None:
    """Few rows a batch: Spark's state has a row for each window and group."""
    cases = [Case(20, 100_000, ROWS // 5)]
    _against(report, bench, "native functions, many groups", cases, _plain, _native, _judge_native)


def _against_python(report: ResultsPage, bench: "_Bench", _quick: bool) -> None:
    cases = [Case(p, 1000, rows) for p, rows in ROWS_IN_PYTHON]
    _against(report, bench, "a Python function", cases, _own, _python, _judge_python)


@dataclass
class _Bench:
    spark: Any
    scratch: Path
    runs: int = 0

    def measure(self, case: Case, ours: Callable[..., Any], theirs: Callable[..., Any]) -> dict[str, Any]:
        """Both sides on the same files: rows a second, and whether the results are equal."""
        source = self._files(case)
        done = {}
        for name, side in (("ours", ours), ("theirs", theirs)):
            work = self.scratch / f"run{self.runs}"
            self.runs += 1
            frame = self.spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(source))
            query = side(case, frame, work)
            done[name] = {"rate": _rate(query, case), "windows": _windows(work / "out")}
            shutil.rmtree(work / "ck", ignore_errors=True)
        shutil.rmtree(source)
        return done

    def _files(self, case: Case) -> Path:
        source = self.scratch / f"in{self.runs}"
        source.mkdir()
        rng, began = np.random.default_rng(case.panes + case.groups), int(time.time()) - 1000
        for number in range(FILES):
            times = (
                np.sort(rng.integers(0, case.span * 1_000_000, case.rows)) + number * case.span * 1_000_000
            )
            table = pa.table(
                {
                    "t": pa.array(times, pa.int64()).cast(pa.timestamp("us", "UTC")),
                    "k": rng.integers(0, case.groups, case.rows),
                    "v": rng.integers(0, 1000, case.rows),
                }
            )
            path = source / f"{number:03d}.parquet"
            pq.write_table(table, path)
            os.utime(path, (began + number, began + number))  # Spark takes files in the order of their times
        return source


def _rate(query: Any, case: Case) -> float:
    """Rows a second by Spark's own account, without the first batches and those without rows."""
    batches = [p for p in query.recentProgress if p["numInputRows"] > 0][WARM_UP:]
    seconds = sum(p["durationMs"]["triggerExecution"] for p in batches) / 1000
    return float(len(batches) * case.rows / seconds)


@dataclass(frozen=True)
class _Windows:
    """What a side gave out: a number for each window and group, rising, and the figures of each."""

    keys: NDArray[np.int64]
    figures: NDArray[np.float64]


def _windows(folder: Path) -> _Windows:
    tables = [pq.read_table(f) for f in folder.glob("*.parquet")]
    if not tables:
        return _Windows(np.zeros(0, dtype=np.int64), np.zeros((0, 1)))
    whole = pa.concat_tables(tables)
    starts = whole.column("window_start").cast(pa.timestamp("us"), safe=False).cast(pa.int64()).to_numpy()
    keys = (starts // 1_000_000 << 24) + whole.column("k").to_numpy()
    names = [n for n in whole.column_names if n not in ("window_start", "window_end", "k")]
    figures = np.column_stack([whole.column(n).to_numpy().astype(float) for n in names])
    order = np.argsort(keys)
    return _Windows(keys[order], figures[order])


def _plain(case: Case, frame: Any, work: Path) -> Any:
    return _window_query({"n": count(), "total": sum_of("v"), "high": max_of("v")}, case, frame, work)


def _own(case: Case, frame: Any, work: Path) -> Any:
    return _window_query({"typical": GeometricMean("v")}, case, frame, work)


def _window_query(aggregates: Any, case: Case, frame: Any, work: Path) -> Any:
    query = ps.WindowQuery(
        aggregates, time="t", window=case.window, slide="1 second", by="k", disorder=ps.FixedDelay("1 microsecond"),
        pane_workers=2, window_workers=2,
    )  # fmt: skip
    started = query.start(frame, output=work / "out", checkpoint=work / "ck", available_now=True)
    started.await_termination()
    return started.query


def _grouped(case: Case, frame: Any, figures: str) -> Any:
    """Spark's own sliding windows; a row goes into every window that has it."""
    frame.withWatermark("t", "1 microsecond").createOrReplaceTempView("bench_rows")
    return frame.sparkSession.sql(
        f"SELECT window.start AS window_start, k, {figures} FROM bench_rows "
        f"GROUP BY window(t, '{case.window}', '1 second'), k"
    )


def _native(case: Case, frame: Any, work: Path) -> Any:
    return _written(_grouped(case, frame, "count(*) AS n, sum(v) AS total, max(v) AS high"), work)


def _python(case: Case, frame: Any, work: Path) -> Any:
    def typical(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            means = [
                float(np.exp(np.log1p(values.values.to_numpy()).mean())) for values in batch.column("values")
            ]
            yield pa.RecordBatch.from_arrays(
                [batch.column("window_start"), batch.column("k"), pa.array(means, pa.float64())],
                names=["window_start", "k", "typical"],
            )

    lists = _grouped(case, frame, "collect_list(v) AS values")
    return _written(lists.mapInArrow(typical, "window_start timestamp, k long, typical double"), work)


def _written(frame: Any, work: Path) -> Any:
    writer = (
        frame.writeStream.format("parquet")
        .outputMode("append")
        .option("checkpointLocation", str(work / "ck"))
    )
    query = writer.trigger(availableNow=True).start(str(work / "out"))
    query.awaitTermination()
    return query


Judge = Callable[[ResultsPage, dict[Case, float]], None]


def _against(
    report: ResultsPage, bench: _Bench, name: str, cases: list[Case], ours: Any, theirs: Any, judge: Judge
) -> None:
    rows, ratios, equal = [], dict[Case, float](), 0
    for case in cases:
        announce(f"{name}: {case.panes} panes a window, {case.groups:,} groups")
        done = bench.measure(case, ours, theirs)
        same, shared = _same(done["ours"]["windows"], done["theirs"]["windows"])
        equal += same
        ratios[case] = done["ours"]["rate"] / done["theirs"]["rate"]
        announce(f"{done['ours']['rate']:,.0f} against {done['theirs']['rate']:,.0f} rows a second")
        rows.append(
            (
                case.panes,
                case.groups,
                case.rows,
                done["ours"]["rate"],
                done["theirs"]["rate"],
                ratios[case],
                shared,
            )
        )
    report.tables.append(
        Table(
            f"Against {name}: rows a second",
            ("panes a window", "groups", "rows a batch", "WindowQuery", "Spark", "ratio", "results compared"),
            rows,
            f"A pane a second, batches of {cases[0].span} panes and more; rows a second by Spark's own account of each batch; two cores.",
        )
    )
    report.claim(
        f"Results equal those of {name}",
        "in every case",
        f"{equal} of {len(cases)}",
        every(equal, len(cases)),
    )
    judge(report, ratios)


def _same(left: _Windows, right: _Windows) -> tuple[bool, int]:
    """Whether the windows that both gave out are equal; at the end of a stream one side may have a few more."""
    shared, a, b = np.intersect1d(left.keys, right.keys, return_indices=True)
    unique = len(np.unique(left.keys)) == len(left.keys)
    enough = len(shared) >= 0.7 * max(len(left.keys), len(right.keys), 1)
    return bool(unique and enough and np.allclose(left.figures[a], right.figures[b])), len(shared)


def _groups(ratios: dict[Case, float]) -> str:
    most = max(c.groups for c in ratios)
    return f"{most:,} groups" + ("" if len({c.groups for c in ratios}) == 1 else " and fewer")


def _judge_native(report: ResultsPage, ratios: dict[Case, float]) -> None:
    least = min(r for c, r in ratios.items() if c.panes >= 20)
    report.claim(
        f"Ahead of native functions from 20 panes a window on, {_groups(ratios)}",
        "at least 1",
        f"{least:.2f}",
        at_least(least, 1),
        full=True,
    )


def _judge_python(report: ResultsPage, ratios: dict[Case, float]) -> None:
    least = min(r for c, r in ratios.items() if c.panes >= 20)
    text = "Against a Python function from 20 panes a window on"
    report.claim(text, "at least 10 times", f"{least:.1f}", at_least(least, 10))
    for case, ratio in ratios.items():
        if case.panes < 20:
            text = f"Against a Python function with {case.panes} panes a window, {case.rows:,} rows a batch"
            report.claim(text, "at least 10 times", f"{ratio:.1f}", at_least(ratio, 10))


PARTS = {"native": _few_groups, "groups": _many_groups, "python": _against_python}
#: Parts that fit into a minute.
QUICK_PARTS = ("native",)
