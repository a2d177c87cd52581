"""Bargains (Joker 5.4): the volume-weighted average price of trades joined with quotes.

For each symbol, vwap = sum(price x size) / sum(size) over all its trades so far. A quote that asks less than the
average is a bargain; its index is ask size x exp(vwap - ask).
"""

from collections.abc import Iterable, Mapping
from math import exp
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
from numpy.typing import NDArray

from penstock.apps.flow_app import OPTIONS as COMMON
from penstock.apps.flow_app import Collected, ends, recorded, run_app, whole
from penstock.apps.own_data import is_topic, table_of, topic_rows
from penstock.apps.summary import Option, Summary
from penstock.core.arrays import Floats, Ints
from penstock.core.errors import PenstockError
from penstock.core.jit import jit
from penstock.dataflow.graph import Graph, Stream
from penstock.dataflow.operators import operator
from penstock.dataflow.rows import Rows
from penstock.dataflow.running_figures import running_sum

HELP = "volume-weighted average price of trades, joined with quotes: which quotes are bargains"
_COLUMNS = {
    "ts": "of the time in milliseconds",
    "symbol": "of the symbol",
    "price": "of a trade's price",
    "size": "of a trade's size",
    "ask": "of a quote's asking price",
    "ask_size": "of a quote's size",
}
OPTIONS: Mapping[str, Option] = {
    **COMMON,
    "symbols": Option("100", "symbols of the synthetic source"),
    "quotes": Option("", "quotes, a file or a folder, where --input names the trades"),
    **{n: Option(n, f"the column {what}, where there is an --input") for n, what in _COLUMNS.items()},
}

TRADE = {"ts": "int64", "symbol": str, "price": float, "size": "int64"}
QUOTE = {"ts": "int64", "symbol": str, "ask": float, "ask_size": "int64"}
_TRADES_IN = 4  # one number in four becomes a trade


@operator(
    keys="symbol",
    inputs={"in": TRADE},
    state={"amount": float, "volume": "int64"},
    output={"ts": "int64", "symbol": str, "amount": float, "volume": "int64"},
)
def add_up(rows: Rows, state: Any, output: Any) -> None:
    """Amount and volume traded so far."""
    amount = running_sum(rows.slots, rows["price"] * rows["size"], state["amount"])
    volume = running_sum(rows.slots, rows["size"], state["volume"])
    output.emit(
        {"ts": rows.column("ts"), "symbol": rows.column("symbol"), "amount": amount, "volume": volume}
    )


@operator(output={"ts": "int64", "symbol": str, "vwap": float})
def average(rows: Rows, output: Any) -> None:
    """The volume-weighted average price."""
    vwap = rows["amount"] / np.maximum(rows["volume"], 1)
    output.emit({"ts": rows.column("ts"), "symbol": rows.column("symbol"), "vwap": vwap})


@operator(
    keys="symbol",
    inputs={"averages": {"symbol": str, "vwap": float}, "quotes": QUOTE},
    state={"vwap": (float, float("nan"))},
    output={"ts": "int64", "symbol": str, "ask": float, "vwap": float, "index": float},
)
def find_bargains(inputs: Mapping[str, Rows], state: Any, output: Any) -> None:
    """Quotes that ask less than the average price at their time."""
    averages, quotes = inputs["averages"], inputs["quotes"]
    both = np.concatenate([averages.positions, quotes.positions])
    order = np.lexsort((both[:, 1], both[:, 0])) if both.ndim == 2 else np.argsort(both, kind="stable")
    known = _known(order, averages.slots, averages["vwap"], quotes.slots, state["vwap"])
    at = np.flatnonzero(quotes["ask"] < known)
    ask, vwap = quotes["ask"][at], known[at]
    chosen = quotes.table.take(pa.array(at))
    index = quotes["ask_size"][at] * np.exp(np.minimum(vwap - ask, 700.0))
    columns = {"ts": chosen["ts"], "symbol": chosen["symbol"], "ask": ask, "vwap": vwap, "index": index}
    output.emit(columns, at=quotes.positions[at])


@jit
def _known(
    order: Ints,
    of_averages: Ints,
    vwap: Floats,
    of_quotes: Ints,
    latest: Floats,
) -> Floats:
    """The average price of its symbol that each quote meets; the latest averages are kept up to date."""
    out = np.empty(len(of_quotes))
    for at in order:
        if at < len(of_averages):
            latest[of_averages[at]] = vwap[at]
        else:
            quote = at - len(of_averages)
            out[quote] = latest[of_quotes[quote]]
    return out


def build(trades: Stream, quotes: Stream) -> Stream:
    """The flow from trades and quotes to bargains."""
    return trades.through(add_up).through(average).through(find_bargains, quotes)


def oracle(trades: Iterable[Mapping[str, Any]], quotes: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The same answer by a loop over both streams in order of time, trades first among equals."""
    amount: dict[str, float] = {}
    volume: dict[str, int] = {}
    found = []
    events = [(t["ts"], 0, n, t) for n, t in enumerate(trades)] + [
        (q["ts"], 1, n, q) for n, q in enumerate(quotes)
    ]
    for _, kind, _, row in sorted(events, key=lambda e: e[:3]):
        symbol = row["symbol"]
        if kind == 0:
            amount[symbol] = amount.get(symbol, 0.0) + row["price"] * row["size"]
            volume[symbol] = volume.get(symbol, 0) + row["size"]
        elif symbol in volume and row["ask"] < (vwap := amount[symbol] / max(volume[symbol], 1)):
            index = row["ask_size"] * exp(min(vwap - row["ask"], 700.0))
            found.append({"ts": row["ts"], "symbol": symbol, "ask": row["ask"], "vwap": vwap, "index": index})
    return found


def synthetic(values: Ints, symbols: int) -> dict[str, NDArray[Any]]:
    """Prices and sizes out of numbers, at one millisecond each."""
    with np.errstate(over="ignore"):
        x = values.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
        x = x ^ (x >> np.uint64(32))
    symbol = (x % np.uint64(symbols)).astype(np.int64)
    noise = ((x >> np.uint64(20)) % np.uint64(2001)).astype(float) / 1000.0 - 1.0
    size = ((x >> np.uint64(45)) % np.uint64(10)).astype(np.int64) * 100 + 100
    return {"ts": values, "symbol": symbol, "price": 20.0 + symbol % 50 + noise, "size": size}


def market(symbols: int) -> tuple[Any, Any]:
    """Two operators that make trades and quotes of the same numbers."""

    @operator(inputs={"in": {"value": "int64"}}, output=TRADE)
    def make_trades(rows: Rows, output: Any) -> None:
        at = np.flatnonzero(rows["value"] % _TRADES_IN == 0)
        made = synthetic(rows["value"][at], symbols)
        output.emit(made | {"symbol": _names(made["symbol"])}, at=rows.positions[at])

    @operator(inputs={"in": {"value": "int64"}}, output=QUOTE)
    def make_quotes(rows: Rows, output: Any) -> None:
        at = np.flatnonzero(rows["value"] % _TRADES_IN != 0)
        made = synthetic(rows["value"][at], symbols)
        columns = {
            "ts": made["ts"],
            "symbol": _names(made["symbol"]),
            "ask": made["price"] + 0.5,
            "ask_size": made["size"],
        }
        output.emit(columns, at=rows.positions[at])

    return make_trades, make_quotes


def main(seconds: float, options: Mapping[str, str]) -> Summary:
    """Run the application."""
    kept = Collected()
    symbols = whole(options, "symbols")
    data = given(options) if ends(options) else {}

    def flow(spark: Any, scratch: Path) -> Graph:
        from penstock.spark.flow.flow import Flow
        from penstock.spark.sources.demo_sources import numbers, played

        made = Flow("finance")
        if is_topic(options["input"]):
            streams = [made.source(name, frame, time="ts") for name, frame in topics(spark, options).items()]
        elif ends(options):
            times = _edges(data)
            streams = [
                made.source(name, played(spark, by_time(data[name], times), scratch / name), time="ts")
                for name in ("trades", "quotes")
            ]
        else:
            source = made.source("numbers", numbers(spark, whole(options, "rate")), time="value")
            streams = [source.through(one) for one in market(symbols)]
        build(*streams).sink("bargains", kept)
        return made

    ended = run_app(flow, seconds, options, lambda: sum(t.num_rows for t in data.values()))
    return _summary(ended, kept.table, None if is_topic(options["input"]) else data, symbols)


def _summary(
    ended: Any, table: pa.Table | None, data: Mapping[str, pa.Table] | None, symbols: int
) -> Summary:
    rows = [] if table is None else table.to_pylist()
    if data is None or ended.rows_before:
        expected = None
    elif data:
        complete = ended.rows == data["trades"].num_rows + data["quotes"].num_rows
        expected = oracle(data["trades"].to_pylist(), data["quotes"].to_pylist()) if complete else None
    else:
        expected = oracle(*synthetic_rows(ended.rows, symbols))
    right = None if expected is None else same(rows, expected)
    best = sorted(rows, key=lambda r: -r["index"])[:10]
    note = (
        "not checked, since the run went on from a checkpoint and has its own results only"
        if ended.rows_before
        else "not checked, since the input was not read to an end"
        if right is None
        else "equal"
        if right
        else "NOT EQUAL"
    )
    shown = [(r["symbol"], r["ts"], r["ask"], round(r["vwap"], 4), round(r["index"], 2)) for r in best]
    figures = {**ended.figures, "bargains": len(rows), "checked": right}
    return Summary(
        "finance",
        figures,
        ("symbol", "time", "ask", "average", "index"),
        shown,
        [
            f"Checked against a plain loop over trades and quotes: {note}.",
            "index = ask size x exp(average - ask); a bargain asks less than the average.",
            *ended.notes,
        ],
    )


def same(found: list[dict[str, Any]], expected: list[dict[str, Any]]) -> bool:
    """Whether both hold the same bargains, symbol by symbol in order."""

    def by_symbol(rows: list[dict[str, Any]]) -> dict[str, list[tuple[Any, ...]]]:
        out: dict[str, list[tuple[Any, ...]]] = {}
        for r in rows:
            out.setdefault(r["symbol"], []).append((r["ts"], r["ask"], r["vwap"], r["index"]))
        return out

    left, right = by_symbol(found), by_symbol(expected)
    return left.keys() == right.keys() and all(
        len(left[s]) == len(right[s]) and np.allclose(left[s], right[s], rtol=1e-9) for s in left
    )


def synthetic_rows(numbers: int, symbols: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The first trades and quotes of the synthetic source, as rows."""
    trades, quotes = synthetic_tables(numbers, symbols)
    return trades.to_pylist(), quotes.to_pylist()


def synthetic_tables(numbers: int, symbols: int) -> tuple[pa.Table, pa.Table]:
    """The first trades and quotes of the synthetic source."""
    made = synthetic(np.arange(numbers), symbols)
    table = pa.table(made | {"symbol": _names(made["symbol"])})
    trade = made["ts"] % _TRADES_IN == 0
    quotes = table.filter(pa.array(~trade)).rename_columns(["ts", "symbol", "ask", "ask_size"])
    asked = quotes.set_column(2, "ask", pa.array(quotes["ask"].to_numpy() + 0.5))
    return table.filter(pa.array(trade)), asked


def given(options: Mapping[str, str]) -> dict[str, pa.Table]:
    """The trades and quotes that a user names, in order of time, or the recorded ones."""
    if not options["input"]:
        return real(whole(options, "rows", 0))
    if not options["quotes"]:
        raise PenstockError("Finance needs trades and quotes; name both, --input TRADES --quotes QUOTES.")
    places = {"trades": (options["input"], TRADE), "quotes": (options["quotes"], QUOTE)}
    tables = {}
    for name, (place, columns) in places.items():
        table = table_of(place, {n: options[n] for n in columns}, _schema(columns))
        tables[name] = table.sort_by("ts")
    return tables


def topics(spark: Any, options: Mapping[str, str]) -> dict[str, Any]:
    """Streams of the trades and quotes of two topics."""
    if not is_topic(options["quotes"]):
        raise PenstockError(
            "Trades of a topic need quotes of a topic; name it, --quotes kafka://HOST:PORT/TOPIC."
        )
    places = {"trades": (options["input"], TRADE), "quotes": (options["quotes"], QUOTE)}
    return {
        name: topic_rows(spark, place, {n: options[n] for n in columns}, _schema(columns))
        for name, (place, columns) in places.items()
    }


def real(limit: int = 0) -> dict[str, pa.Table]:
    """Recorded trades and quotes of one day; quotes are rows that update the asking side."""
    read = pacsv.ConvertOptions(column_types={"symbol": pa.string()})
    trades = pacsv.read_csv(recorded("us_equity_trades_20131010.csv.gz"), convert_options=read)
    quotes = pacsv.read_csv(recorded("us_equity_quotes_20131010.csv.gz"), convert_options=read)
    quotes = quotes.filter(pa.array(quotes["ask"].to_numpy() > 0))
    if limit:
        quotes = quotes.slice(0, limit)
        last = quotes["ts_ms"][-1].as_py()
        trades = trades.filter(pa.array(trades["ts_ms"].to_numpy() <= last))
    return {
        "trades": pa.table(
            {
                "ts": trades["ts_ms"],
                "symbol": trades["symbol"],
                "price": trades["price"].to_numpy() / 1e4,
                "size": trades["size"],
            }
        ).cast(_schema(TRADE)),
        "quotes": pa.table(
            {
                "ts": quotes["ts_ms"],
                "symbol": quotes["symbol"],
                "ask": quotes["ask"].to_numpy() / 1e4,
                "ask_size": quotes["ask_size"],
            }
        ).cast(_schema(QUOTE)),
    }


def _edges(data: Mapping[str, pa.Table]) -> NDArray[Any]:
    """Twenty parts of the time that trades and quotes have together."""
    bounds = [t["ts"].to_numpy() for t in data.values() if t.num_rows]
    first, last = min(int(b.min()) for b in bounds), max(int(b.max()) for b in bounds)
    return np.linspace(first, last + 1, 21)[1:]


def by_time(table: pa.Table, edges: NDArray[Any]) -> list[pa.Table]:
    """A table in parts, one up to each edge of time, so that two sources keep step."""
    cuts = np.searchsorted(table["ts"].to_numpy(), edges)
    starts = [0, *cuts[:-1].tolist()]
    return [table.slice(a, b - a) for a, b in zip(starts, cuts.tolist(), strict=True)]


def _schema(columns: Mapping[str, Any]) -> pa.Schema:
    from penstock.dataflow.schemas import schema_of

    return schema_of(columns)


def _names(symbols: NDArray[Any]) -> pa.Array:
    return pa.array([f"S{n:03d}" for n in range(int(symbols.max(initial=0)) + 1)]).take(pa.array(symbols))
