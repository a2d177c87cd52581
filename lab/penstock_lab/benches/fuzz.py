"""``penstock bench fuzz``: rows of every kind of nonsense through queries and flows; each is used, late or dead.

Nulls, NaN, infinities, times from 1 to 9999, texts of a megabyte, a million groups. A million rows by default, ten with
``--minutes 30`` or more, in one process; ``--part spark`` sends a part of them through Spark.
"""

import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import penstock as ps
from penstock.core.errors import unknown
from penstock.dataflow.graph import Graph, Stream
from penstock.dataflow.running_figures import running_count
from penstock.spark import session
from penstock.testing.flow_run import start_in_process
from penstock.testing.query_run import start_query_in_process
from penstock_lab.results import ResultsPage, Table, announce

BEGIN, SECOND = 1_360_000_000_000_000, 1_000_000
WINDOW, DELAY = 10 * SECOND, 500_000
GROUPS = 1_000_000
PARTS = ("in-process", "spark")

SCHEMA = pa.schema(
    [
        ("t", pa.timestamp("us", "UTC")),
        ("seconds", pa.float64()),
        ("price", pa.float64()),
        ("rating", pa.int64()),
        ("group", pa.int64()),
        ("text", pa.string()),
        ("row", pa.int64()),
    ]
)


@dataclass(frozen=True)
class Fuzz:
    """A stream of nonsense: batches that follow from a seed."""

    seed: int
    rows: int

    def batch(self, number: int) -> pa.Table:
        """One micro-batch: nine tenths of its rows are well, in one way; each of the others is wrong in some way, or late."""
        rng = np.random.default_rng((self.seed, number))
        n = self.rows
        times = BEGIN + number * SECOND + np.sort(rng.integers(0, SECOND, n)) - rng.integers(0, DELAY // 2, n)
        if number:
            behind = rng.random(n) < 0.01
            times[behind] -= rng.integers(3 * SECOND, 20 * SECOND, int(behind.sum()))
        wild = rng.random(n) < 0.03
        if number == 0:
            wild[:50] = wild[n // 2 : n // 2 + 50] = False  # a wrong time before all others is as good as any
        times[wild] = rng.choice(
            [-62_135_596_800_000_000, -1, 0, 1, 7_260_000_000_000_000, 253_402_300_799_000_000, 2**62],
            int(wild.sum()),
        )
        seconds = times / 1e6
        odd = rng.random(n) < 0.01
        seconds[odd] = rng.choice([np.nan, np.inf, -np.inf, 1e300, -1e300], int(odd.sum()))
        price = rng.integers(1, 1000, n).astype(float)
        odd = rng.random(n) < 0.02
        price[odd] = rng.choice([np.nan, np.inf, -np.inf, -0.0, 1e308, 5e-324], int(odd.sum()))
        rating = rng.integers(1, 1000, n)
        odd = rng.random(n) < 0.01
        rating[odd] = rng.choice([2**63 - 1, -(2**63), 2**53 + 1, 0], int(odd.sum()))
        text = np.full(n, "", dtype=object)
        text[rng.integers(0, n, 3)] = ["x" * 1_000_000, chr(0) + chr(0xFFFF), "é" * 1000]
        columns = [
            _with_nulls(pa.array(times).cast(SCHEMA.field("t").type), rng),
            _with_nulls(pa.array(seconds), rng),
            _with_nulls(pa.array(price), rng),
            _with_nulls(pa.array(rating), rng),
            _with_nulls(pa.array(rng.integers(0, GROUPS, n)), rng),
            _with_nulls(pa.array(text.tolist(), pa.string()), rng),
            pa.array(np.arange(number * n, (number + 1) * n)),
        ]
        return pa.table(columns, schema=SCHEMA)


def _with_nulls(column: pa.Array, rng: np.random.Generator) -> pa.Array:
    return pc.if_else(pa.array(rng.random(len(column)) < 0.005), pa.scalar(None, column.type), column)


def query() -> ps.PreferenceQuery:
    """Two attributes, windows that do not overlap."""
    return ps.PreferenceQuery(
        ps.skyline_of(ps.minimize("price"), ps.maximize("rating")),
        time="t",
        window="10 seconds",
        disorder=ps.FixedDelay("500 milliseconds"),
        pane_workers=2,
        window_workers=2,
    )


@ps.operator(
    keys="group", state={"n": int}, output={"group": int, "n": int, "row": int}, ttl=("seconds", 5.0)
)
def count(rows: Any, state: Any, output: Any) -> None:
    """Number the tuples of each group."""
    output.emit({"group": rows["group"], "n": running_count(rows.slots, state["n"]), "row": rows["row"]})


def build(rows: Stream) -> None:
    """A count with a time to live."""
    rows.through(count, name="count").sink("counts")


def usable(table: pa.Table) -> Any:
    """Which rows a query can use, by what the pages say: looked at one row at a time, with no code of the runtime's."""
    good = []
    for t, price, rating in zip(
        table["t"].cast(pa.int64()).to_pylist(),
        table["price"].to_pylist(),
        table["rating"].to_pylist(),
        strict=True,
    ):
        well = t is not None and price is not None and rating is not None
        good.append(well and price == price and abs(rating) <= 2**53 and 0 <= t < 253_402_300_800_000_000)
    return np.array(good)


def expected_windows(tables: Iterable[pa.Table], until: int) -> tuple[dict[int, set[int]], int]:
    """Windows over the rows that count (usable, within the time of the stream, not late), and how many are late."""
    windows: dict[int, list[tuple[float, int, int]]] = {}
    newest, late = 0, 0
    for table in tables:
        times = table["t"].cast(pa.int64()).fill_null(-1).to_numpy()
        near = (times > BEGIN - 3600 * SECOND) & (times < BEGIN + 3_600_000 * SECOND)
        counted = usable(table) & near
        behind = counted & (times < newest - DELAY)
        late += int(behind.sum())
        newest = max(newest, int(times[counted].max()))
        chosen = table.filter(pa.array(counted & ~behind)).select(["t", "price", "rating", "row"])
        for t, price, rating, row in zip(
            chosen["t"].cast(pa.int64()).to_pylist(),
            *(chosen[c].to_pylist() for c in ("price", "rating", "row")),
            strict=True,
        ):
            if (t // WINDOW + 1) * WINDOW <= until:
                windows.setdefault(t // WINDOW * WINDOW, []).append((price, -rating, row))
    return {start: _best(rows) for start, rows in windows.items()}, late


def _best(rows: list[tuple[float, int, int]]) -> set[int]:
    """The rows that no other one beats: by rising price, a row must have a better rating than all that are cheaper."""
    kept: set[int] = set()
    least = np.inf
    for _, some in groupby(sorted(rows), key=lambda row: row[0]):
        same = list(some)
        if same[0][1] < least:
            least = same[0][1]
            kept |= {row[2] for row in same if row[1] == least}
    return kept


def run(quick: bool, folder: Path, part: str | None = None, minutes: float = 3.0) -> ResultsPage:
    """Send rows through, in one process or through Spark, and account for each."""
    if part is not None and part not in PARTS:
        raise unknown("part of the fuzz", part, PARTS)
    rows, batches = (5_000, 12) if quick else (100_000, 10 if minutes < 30 else 100)
    words = [
        "penstock bench fuzz",
        *([f"--part {part}"] if part else []),
        *(["--minutes 30"] if minutes >= 30 else []),
    ]
    page = ResultsPage("Fuzz: every row is used, late or dead", " ".join(words))
    chosen = [part] if part else [PARTS[0]] if quick else list(PARTS)
    table = []
    for name in chosen:
        for what in ("query", "flow"):
            announce(f"{name}, {what}: {rows * batches:,} rows")
            started = time.perf_counter()
            with tempfile.TemporaryDirectory(prefix="penstock-fuzz-") as scratch:
                counts, problems = _run(name, what, Fuzz(7, rows), batches, Path(scratch))
            seconds = time.perf_counter() - started
            table.append(
                (name, what, rows * batches, counts["used"], counts["late"], counts["dead"], seconds)
            )
            page.claim(
                f"{name}, {what}: every row is used, late or dead, and what is given out is the oracle's",
                "no difference",
                "; ".join(problems) or "no difference",
                not problems,
            )
    page.tables.append(Table("Rows", ("where", "through", "rows", "used", "late", "dead", "seconds"), table))
    return page


def _run(name: str, what: str, fuzz: Fuzz, batches: int, base: Path) -> tuple[Counter[str], list[str]]:
    give = _in_process if name == "in-process" else _on_spark
    counts = give(what, fuzz, batches, base)
    problems = []
    if counts["rows"] != fuzz.rows * batches:
        problems.append(f"{fuzz.rows * batches - counts['rows']} rows were not counted")
    dead = _dead(base / "dead")
    if dead != counts["dead"]:
        problems.append(f"{counts['dead']} dead letters counted, {dead} written")
    if what == "query":
        problems += _windows(fuzz, batches, base, counts)
    else:
        problems += _counts(fuzz, batches, base, counts)
    return counts, problems


def _windows(fuzz: Fuzz, batches: int, base: Path, counts: Counter[str]) -> list[str]:
    expected, behind = expected_windows((fuzz.batch(b) for b in range(batches)), counts["until"])
    found: dict[int, set[int]] = {}
    for file in (base / "out").glob("*.parquet"):
        table = pq.read_table(file, columns=["window_start", "row"])
        for start, row in zip(
            table["window_start"].cast(pa.int64()).to_pylist(), table["row"].to_pylist(), strict=True
        ):
            found.setdefault(start, set()).add(row)
    wrong = [start for start in expected.keys() | found.keys() if expected.get(start) != found.get(start)]
    problems = [f"{len(wrong)} of {len(expected)} windows differ"] if wrong else []
    late = _dead(base / "late")
    if not late == counts["late"] == behind:
        problems.append(f"{behind} rows are late, {counts['late']} were counted, {late} written")
    return problems


def _counts(fuzz: Fuzz, batches: int, base: Path, counts: Counter[str]) -> list[str]:
    """Each row in the output or in the dead letters, once, and there for a reason."""
    total = fuzz.rows * batches
    seen, dead = (_rows(folder, total) for folder in (base / "out" / "counts", base / "dead"))
    counts["used"] = int((seen > 0).sum())
    problems = []
    if (seen + dead != 1).any():
        problems.append(f"{int((seen + dead == 0).sum())} rows lost, {int((seen + dead > 1).sum())} repeated")
    wrong = 0
    for number in range(batches):
        table = fuzz.batch(number)
        for group, seconds, row in zip(
            *(table[c].to_pylist() for c in ("group", "seconds", "row")), strict=True
        ):
            well = group is not None and seconds is not None and abs(seconds) < 253_402_300_800.0
            wrong += (well and seconds < BEGIN / 1e6 + 1e6) != bool(seen[row])
    return problems + ([f"{wrong} rows were used that cannot be, or the other way round"] if wrong else [])


def _rows(folder: Path, total: int) -> Any:
    """How often each row stands in the files of a folder."""
    found = np.zeros(total, dtype=np.int64)
    for file in folder.rglob("*.parquet"):
        if "_staging" not in file.parts:
            found += np.bincount(pq.read_table(file, columns=["row"])["row"].to_numpy(), minlength=total)
    return found


def _dead(folder: Path) -> int:
    return sum(pq.read_metadata(f).num_rows for f in folder.rglob("*.parquet") if "_staging" not in f.parts)


def _in_process(what: str, fuzz: Fuzz, batches: int, base: Path) -> Counter[str]:
    if what == "query":
        asked = start_query_in_process(query(), SCHEMA, base)
        for number in range(batches):
            asked.feed(fuzz.batch(number))
        state = asked.state
        asked.finish()
        return _query_counts(state)
    graph = Graph("fuzz")
    build(graph.source("rows", SCHEMA))
    flowing = start_in_process(graph, base)
    flowing.rescale(replicas={"count": 2})
    for number in range(batches):
        flowing.feed({"rows": fuzz.batch(number)})
    totals = flowing.totals
    flowing.finish()
    return Counter(rows=totals.rows, dead=totals.dead, late=0)


def _on_spark(what: str, fuzz: Fuzz, batches: int, base: Path) -> Counter[str]:
    (base / "in").mkdir()
    for number in range(batches):
        pq.write_table(fuzz.batch(number), base / "in" / f"{number:04d}.parquet")
    spark = session("local[2]", app="penstock bench fuzz", config={"spark.sql.shuffle.partitions": "2"})
    stream = spark.readStream.schema(spark.read.parquet(str(base / "in")).schema)
    frame = stream.option("maxFilesPerTrigger", 1).parquet(str(base / "in"))
    given: dict[str, Any] = {"checkpoint": base / "ck", "output": base / "out", "dead_letters": base / "dead"}
    try:
        if what == "query":
            asked = query().start(frame, late=base / "late", available_now=True, **given)
            asked.await_termination()
            state = asked._latest.state if asked._latest else {}
            return _query_counts(dict(state))
        flow = ps.Flow("fuzz")
        build(flow.source("rows", frame))
        flowing = flow.start(spark, available_now=True, replicas={"count": 2}, **given)
        flowing.await_termination()
        return Counter(rows=flowing.totals.rows, dead=flowing.totals.dead, late=0)
    finally:
        spark.stop()


def _query_counts(state: dict[str, Any]) -> Counter[str]:
    totals, disorder = state["totals"], state["disorder"]
    used = totals["rows"] - totals["late"] - totals["bad"]
    return Counter(
        rows=totals["rows"], late=totals["late"], dead=totals["bad"], used=used, until=disorder["punctuation"]
    )
