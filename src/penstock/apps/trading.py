"""Algorithmic trading (MPC 5.1): count windows of quotes by symbol, regression, candlesticks.

For each symbol the last 1000 quotes are kept; after every 25 new ones they are averaged by millisecond and a
polynomial is fitted by Levenberg-Marquardt, which gives the price expected next. A second operator makes candlesticks
of ten windows each.
"""

from collections.abc import Iterable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
from numpy.typing import NDArray

from penstock.apps.flow_app import OPTIONS as COMMON
from penstock.apps.flow_app import Collected, checked, ends, pieces, recorded, run_app, whole
from penstock.apps.own_data import is_topic, table_of, topic_rows
from penstock.apps.summary import Option, Summary
from penstock.core.errors import unknown
from penstock.dataflow.firing import need_all
from penstock.dataflow.graph import Graph, Stream
from penstock.dataflow.operators import Operator, operator
from penstock.dataflow.rows import Rows
from penstock.dataflow.schemas import schema_of
from penstock.traffic.spec import StreamSpec

HELP = (
    "windows of 1000 quotes by 25 for each symbol: aggregation at 1 ms, polynomial regression, candlesticks"
)
OPTIONS: Mapping[str, Option] = {
    **COMMON,
    "ts": Option("ts", "the column of the time in milliseconds, where there is an --input"),
    "symbol": Option("symbol", "the column of the symbol, where there is an --input"),
    "price": Option("price", "the column of the price, where there is an --input"),
    "symbols": Option("50", "symbols of the synthetic source"),
    "window": Option("1000", "quotes of a window"),
    "degree": Option("2", "degree of the polynomial"),
    "load": Option(
        "steady",
        "steady, or walk: the rate takes a random walk around --rate and symbols are of very different frequency",
    ),
}

SLIDE = 25
WINDOWS_A_CANDLE = 10
QUOTE = {"ts": "int64", "symbol": str, "price": float}
ESTIMATE = {"symbol": str, "ts": "int64", "price": float, "expected": float, "points": "int64"}


@operator(keys="symbol", grain="key", need=need_all(**{"in": SLIDE}), inputs={"in": QUOTE}, output=ESTIMATE)
class AlgoTrader(Operator):
    """Estimates the next price from the last quotes of a symbol, after every 25 of them."""

    def __init__(self, window: int = 1000, degree: int = 2) -> None:
        self.window, self.degree = window, degree

    def invoke(self, rows: list[dict[str, Any]], state: dict[str, Any], output: Any) -> None:
        """Add 25 quotes to the window; estimate once it is full."""
        times = np.append(state.get("times", np.empty(0, dtype=np.int64)), [r["ts"] for r in rows])[
            -self.window :
        ]
        prices = np.append(state.get("prices", np.empty(0)), [r["price"] for r in rows])[-self.window :]
        state["times"], state["prices"] = times, prices
        if len(times) == self.window:
            points, expected = estimate(times, prices, self.degree)
            last = rows[-1]
            output.emit(
                {
                    "symbol": last["symbol"],
                    "ts": last["ts"],
                    "price": last["price"],
                    "expected": expected,
                    "points": points,
                }
            )


@operator(
    keys="symbol",
    grain="key",
    need=need_all(**{"in": WINDOWS_A_CANDLE}),
    inputs={"in": ESTIMATE},
    output={
        "symbol": str,
        "ts": "int64",
        "open": float,
        "high": float,
        "low": float,
        "close": float,
        "error": float,
    },
)
def candlesticks(rows: list[dict[str, Any]], state: dict[str, Any], output: Any) -> None:
    """First, highest, lowest and last expected price of ten windows, and how far the expectations were off."""
    expected = [r["expected"] for r in rows]
    error = float(np.mean([abs(a["expected"] - b["price"]) for a, b in pairwise(rows)]))
    bar = {"open": expected[0], "high": max(expected), "low": min(expected), "close": expected[-1]}
    output.emit({"symbol": rows[-1]["symbol"], "ts": rows[-1]["ts"], **bar, "error": error})


def estimate(times: NDArray[np.int64], prices: NDArray[np.float64], degree: int) -> tuple[int, float]:
    """Average the prices of each millisecond, fit a polynomial, and read it one millisecond after the last."""
    from scipy.optimize import least_squares

    moments, of = np.unique(times, return_inverse=True)
    averages = np.bincount(of, weights=prices) / np.bincount(of)
    span = max(float(moments[-1] - moments[0]), 1.0)
    x = (moments - moments[0]) / span
    base = float(averages[0])
    powers = np.vander(x, degree + 1)
    if len(moments) <= degree:
        return len(moments), float(averages[-1])

    def errors(c: NDArray[np.float64]) -> NDArray[np.float64]:
        return powers @ c - (averages - base)

    def slopes(_: NDArray[np.float64]) -> NDArray[np.float64]:
        return powers

    fit = least_squares(errors, np.zeros(degree + 1), jac=slopes, method="lm")
    return len(moments), base + float(np.polyval(fit.x, 1.0 + 1.0 / span))


def build(quotes: Stream, window: int = 1000, degree: int = 2) -> Stream:
    """The flow from quotes to candlesticks."""
    return quotes.through(AlgoTrader(window, degree), name="algotrader").through(candlesticks)


def oracle(quotes: Iterable[Mapping[str, Any]], window: int = 1000, degree: int = 2) -> list[dict[str, Any]]:
    """The same answer by a loop."""
    kept: dict[str, list[Mapping[str, Any]]] = {}
    estimates: dict[str, list[dict[str, Any]]] = {}
    bars = []
    for quote in quotes:
        mine = kept.setdefault(quote["symbol"], [])
        mine.append(quote)
        if len(mine) % SLIDE or len(mine) < window:
            continue
        last = mine[-window:]
        points, expected = estimate(
            np.array([q["ts"] for q in last]), np.array([q["price"] for q in last]), degree
        )
        waiting = estimates.setdefault(quote["symbol"], [])
        waiting.append({**quote, "expected": expected, "points": points})
        if len(waiting) == WINDOWS_A_CANDLE:
            out = _Emitted()
            candlesticks.function(waiting, {}, out)
            bars += out.rows
            estimates[quote["symbol"]] = []
    return bars


class _Emitted:
    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []

    def emit(self, row: dict[str, Any]) -> None:
        self.rows.append(row)


def quotes_of(values: NDArray[np.int64], symbols: int) -> dict[str, Any]:
    """Quotes out of numbers: a slow wave with noise for each symbol, ten quotes a millisecond."""
    with np.errstate(over="ignore"):
        x = values.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        x = x ^ (x >> np.uint64(31))
    symbol = (x % np.uint64(symbols)).astype(np.int64)
    noise = ((x >> np.uint64(24)) % np.uint64(1001)).astype(float) / 5000.0
    ts = values // 10
    price = 50.0 + symbol + 2.0 * np.sin(ts / 5000.0 + symbol) + noise
    names = pa.array([f"S{n:03d}" for n in range(symbols)])
    return {"ts": ts, "symbol": names.take(pa.array(symbol)), "price": price}


def market(symbols: int) -> Any:
    """The operator that makes quotes of numbers."""

    @operator(inputs={"in": {"value": "int64"}}, output=QUOTE)
    def make_quotes(rows: Rows, output: Any) -> None:
        output.emit(quotes_of(rows["value"], symbols))

    return make_quotes


def walk_options(rate: int, symbols: int) -> dict[str, str]:
    """The paper's synthetic load as options of a generated stream: a random walk of the rate, fixed uneven frequencies."""
    return {
        "model": "random-walk",
        "rate": str(rate),
        "keys": str(symbols),
        "zipf": "1",
        "dims": "1",
        "seed": "5",
    }


def walk_quotes(
    arrival: NDArray[np.float64], key: NDArray[np.int64], noise: NDArray[np.float64]
) -> dict[str, Any]:
    """Quotes out of the rows of such a stream: the same waves as those of :func:`quotes_of`."""
    ts = (arrival * 1e3).astype(np.int64)
    price = 50.0 + key + 2.0 * np.sin(ts / 5000.0 + key) + noise / 5.0
    names = pa.array([f"S{n:03d}" for n in range(int(key.max(initial=0)) + 1)])
    return {"ts": ts, "symbol": names.take(pa.array(key)), "price": price}


@operator(output=QUOTE)
def make_walk_quotes(rows: Rows, output: Any) -> None:
    """Makes quotes of the rows of a generated stream."""
    output.emit(walk_quotes(rows["arrival"], rows["key"], rows["a0"]))


def walked(rows: int, options: Mapping[str, str]) -> pa.Table:
    """The first quotes of such a stream."""
    parts, count = [], 0
    for batch in StreamSpec.parse(options).build().batches():
        parts.append(batch)
        count += batch.num_rows
        if count >= rows:
            break
    table = pa.Table.from_batches(parts).slice(0, rows)
    columns = (table[n].to_numpy() for n in ("arrival", "key", "a0"))
    return pa.table(walk_quotes(*columns))


def real(limit: int = 0) -> pa.Table:
    """Recorded quotes of one day; a row updates one side, its price is that side's."""
    read = pacsv.ConvertOptions(column_types={"symbol": pa.string()})
    table = pacsv.read_csv(recorded("us_equity_quotes_20131010.csv.gz"), convert_options=read)
    table = table.slice(0, limit) if limit else table
    bid, ask = table["bid"].to_numpy(), table["ask"].to_numpy()
    return pa.table(
        {"ts": table["ts_ms"], "symbol": table["symbol"], "price": np.where(bid > 0, bid, ask) / 1e4}
    )


def given_quotes(options: Mapping[str, str]) -> pa.Table:
    """The quotes that a user names, or the recorded ones."""
    if not options["input"]:
        return real(whole(options, "rows", 0))
    return table_of(options["input"], {n: options[n] for n in QUOTE}, schema_of(QUOTE))


def main(seconds: float, options: Mapping[str, str]) -> Summary:
    """Run the application."""
    kept = Collected()
    symbols, window, degree = (whole(options, n) for n in ("symbols", "window", "degree"))
    if options["load"] not in ("steady", "walk"):
        raise unknown("load", options["load"], ["steady", "walk"])
    walk = walk_options(whole(options, "rate"), symbols) if options["load"] == "walk" else {}
    data = [given_quotes(options)] if ends(options) else []

    def flow(spark: Any, scratch: Path) -> Graph:
        from penstock.spark.flow.flow import Flow
        from penstock.spark.sources.demo_sources import numbers, played

        made = Flow("trading")
        if is_topic(options["input"]):
            columns = {n: options[n] for n in QUOTE}
            quotes = made.source("quotes", topic_rows(spark, options["input"], columns, schema_of(QUOTE)))
        elif ends(options):
            quotes = made.source("quotes", played(spark, pieces(data[0], 20_000), scratch / "quotes"))
        elif walk:
            stream = spark.readStream.format("penstock-traffic").options(**walk).load()
            quotes = made.source("rows", stream).through(make_walk_quotes)
        else:
            quotes = made.source("numbers", numbers(spark, whole(options, "rate")), time="value").through(
                market(symbols)
            )
        build(quotes, window, degree).sink("candles", kept)
        return made

    ended = run_app(flow, seconds, options, lambda: data[0].num_rows)
    rows = [] if kept.table is None else kept.table.to_pylist()

    def equal() -> bool:
        if data:
            table = data[0].slice(0, ended.rows)
        elif walk:
            table = walked(ended.rows, walk)
        else:
            table = pa.table(quotes_of(np.arange(ended.rows), symbols))
        return by_symbol(rows) == by_symbol(oracle(table.to_pylist(), window, degree))

    right, verdict = checked(options, "a plain loop with the same fit", equal, ended.rows_before)
    last = {r["symbol"]: r for r in rows}
    shown = [
        (s, *(round(r[c], 4) for c in ("open", "high", "low", "close", "error")))
        for s, r in sorted(last.items())[:10]
    ]
    return Summary(
        "trading",
        {**ended.figures, "candles": len(rows), "checked": right},
        ("symbol", "open", "high", "low", "close", "mean error"),
        shown,
        [
            verdict,
            "The last candle of each symbol; prices are those expected one millisecond ahead.",
            *ended.notes,
        ],
    )


def by_symbol(rows: Iterable[Mapping[str, Any]]) -> dict[str, list[tuple[Any, ...]]]:
    """Candles in order, by symbol."""
    found: dict[str, list[tuple[Any, ...]]] = {}
    for r in rows:
        bar = tuple(round(r[c], 9) for c in ("open", "high", "low", "close", "error"))
        found.setdefault(r["symbol"], []).append((r["ts"], *bar))
    return found
