"""What ``penstock bench chaos`` runs and kills: queries and flows over streams that a number makes, and their oracles."""

import random
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import penstock as ps
from penstock.dataflow.graph import Graph, Stream
from penstock.dataflow.running_figures import running_count
from penstock.spark.query.window_stage import STRATEGIES

#: When the streams begin: somewhere in 2013, so that no clock agrees with them.
BEGIN, SECOND = 1_360_000_000_000_000, 1_000_000
WINDOW, SLIDE = SECOND, 200_000
#: Rows come up to so late, and so long is waited for them.
LATEST, DELAY = 300_000, "500 milliseconds"

QUERY_SCHEMA = pa.schema(
    [
        ("event_time", pa.timestamp("us", "UTC")),
        ("price", pa.float64()),
        ("rating", pa.int64()),
        ("offer", pa.int64()),
    ]
)
FLOW_SCHEMA = pa.schema([("k", pa.int64()), ("g", pa.int64())])


@dataclass(frozen=True)
class Case:
    """One run: a query with one of the strategies, or a flow; all else follows from its seed."""

    kind: str
    engine: str
    seed: int
    batches: int = 12
    rows: int = 60
    strategy: str = "SHARED"
    in_order: bool = False
    gather: bool = False

    @property
    def label(self) -> str:
        """What it is, in words."""
        what = f"query, {self.strategy}" if self.kind == "query" else "flow"
        return f"{what}, {self.engine}"

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)

    def batch(self, number: int) -> pa.Table:
        """The rows of one micro-batch."""
        rng = np.random.default_rng((self.seed, number))
        if self.kind == "flow":
            keys = rng.integers(0, 20, self.rows)
            return pa.table([pa.array(keys), pa.array(keys % 3)], schema=FLOW_SCHEMA)
        inside = np.sort(rng.integers(0, SECOND, self.rows))
        times = BEGIN + number * SECOND + inside - rng.integers(0, LATEST, self.rows)
        columns = [
            pa.array(times).cast(QUERY_SCHEMA.field(0).type),
            pa.array(rng.integers(1, 40, self.rows).astype(float)),
            pa.array(rng.integers(1, 40, self.rows)),
            pa.array(np.arange(number * self.rows, (number + 1) * self.rows)),
        ]
        return pa.table(columns, schema=QUERY_SCHEMA)

    def query(self) -> ps.PreferenceQuery:
        """The query of the case."""
        delay = ps.FixedDelay(DELAY)
        return ps.PreferenceQuery(
            ps.skyline_of(ps.minimize("price"), ps.maximize("rating")),
            time="event_time",
            window="1 second",
            slide="200 milliseconds",
            disorder=ps.InOrder(delay) if self.in_order else delay,
            splitting=random.Random(self.seed).choice(["AS_PID", "AS", "PB_RR", "TB_RR"]),
            window_strategy=self.strategy,
            pane_workers=2,
            window_workers=2,
        )

    def graph(self) -> Graph:
        """The flow of the case, without Spark."""
        made = Graph("chaos")
        build(made.source("rows", {"k": int, "g": int}))
        return made

    def problems(self, folder: Path) -> list[str]:
        """What is wrong with the output in a folder: rows lost, repeated or of another value; nothing, where all is well."""
        return _flow_problems(self, folder) if self.kind == "flow" else _query_problems(self, folder)


@ps.operator(keys="k", state={"n": int}, output={"k": int, "g": int, "n": int})
def count(rows: Any, state: Any, output: Any) -> None:
    """Number the tuples of each key."""
    output.emit({"k": rows["k"], "g": rows["g"], "n": running_count(rows.slots, state["n"])})


@ps.operator(keys="g", state={"m": int}, output={"g": int, "m": int})
def total(rows: Any, state: Any, output: Any) -> None:
    """Number the tuples of each group of keys."""
    output.emit({"g": rows["g"], "m": running_count(rows.slots, state["m"])})


def build(rows: Stream) -> None:
    """Two operators with keys of their own, one after the other, and a sink for each."""
    counted = rows.through(count, name="count").sink("counts")
    counted.through(total, name="total").sink("totals")


def cases(count: int, engines: tuple[str, ...], seed: int = 0) -> list[Case]:
    """So many cases, over all strategies, engines, and flows."""
    draw = random.Random(seed)
    made = []
    for number in range(count):
        kind = "flow" if number % 3 == 2 else "query"
        strategy = STRATEGIES[number % len(STRATEGIES)] if kind == "query" else ""
        made.append(
            Case(
                kind,
                engines[number % len(engines)],
                seed=1000 * seed + number,
                strategy=strategy,
                in_order=kind == "query" and draw.random() < 0.2,
                gather=draw.random() < 0.5,
            )
        )
    return made


def _query_problems(case: Case, folder: Path) -> list[str]:
    found: dict[int, list[int]] = {}
    files = sorted((folder / "out").glob("*.parquet"))
    for file in files:
        table = pq.read_table(file)
        for start, offer in zip(
            table["window_start"].cast(pa.int64()).to_pylist(), table["offer"].to_pylist(), strict=True
        ):
            found.setdefault(start, []).append(offer)
    table = pa.concat_tables([case.batch(b) for b in range(case.batches)])
    times = table["event_time"].cast(pa.int64()).to_numpy()
    until = int(times.max()) - 500_000
    expected = {
        start: _skyline(table, np.flatnonzero((times >= start) & (times < start + WINDOW)))
        for start in range((int(times.min()) - WINDOW) // SLIDE * SLIDE, until - WINDOW + 1, SLIDE)
    }
    expected = {start: rows for start, rows in expected.items() if rows}
    return _compared({s: sorted(o) for s, o in found.items()}, expected)


def _skyline(table: pa.Table, rows: Any) -> list[int]:
    """The rows that no other one beats, by definition."""
    prices, ratings = table["price"].to_numpy()[rows], table["rating"].to_numpy()[rows]
    offers = table["offer"].to_numpy()[rows]
    kept = []
    for price, rating, offer in zip(prices, ratings, offers, strict=True):
        better = (prices <= price) & (ratings >= rating) & ((prices < price) | (ratings > rating))
        if not better.any():
            kept.append(int(offer))
    return sorted(kept)


def _flow_problems(case: Case, folder: Path) -> list[str]:
    rows = pa.concat_tables([case.batch(b) for b in range(case.batches)])
    problems: list[str] = []
    for sink, key, value in (("counts", "k", "n"), ("totals", "g", "m")):
        seen = Counter[tuple[int, int]]()
        for file in sorted((folder / "out" / sink).glob("*.parquet")):
            table = pq.read_table(file)
            seen.update(zip(table[key].to_pylist(), table[value].to_pylist(), strict=True))
        wanted = Counter(rows[key].to_pylist())
        expected = {(k, n): 1 for k, total in wanted.items() for n in range(1, total + 1)}
        problems += _compared(dict(seen), expected)
    return problems


def _compared(found: dict[Any, Any], expected: dict[Any, Any]) -> list[str]:
    lost, more = sorted(expected.keys() - found.keys()), sorted(found.keys() - expected.keys())
    other = [key for key in expected.keys() & found.keys() if expected[key] != found[key]]
    named = (("lost", lost), ("too many", more), ("different", other))
    return [f"{len(some)} {word}, such as {some[0]}" for word, some in named if some]
