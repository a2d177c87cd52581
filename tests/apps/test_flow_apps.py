"""Every application equals its plain loop, whatever the batches and whatever is reconfigured on the way."""

import re
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.apps import finance, logs, network, trading, wordcount
from penstock.core.errors import PenstockError
from penstock.dataflow.graph import Graph
from penstock.dataflow.regions import find_regions
from penstock.testing.flow_run import start_in_process

#: Reconfigurations by batch: rescale, rescale again, split and merge.
STEPS = (
    {},
    {"replicas": 3},
    {"replicas": 2, "overlap": True},
    {"pipelines": True},
    {"replicas": 4},
    {"merge": True},
)


def play(graph, batches):
    """Run the batches, changing every region between them; rows of each sink in order."""
    regions = find_regions(graph)
    with tempfile.TemporaryDirectory() as folder:
        run = start_in_process(graph, folder)
        for number, batch in enumerate(batches):
            step = STEPS[number % len(STEPS)]
            for region in regions:
                if region.scales and "replicas" in step:
                    run.rescale(replicas={region.name: step["replicas"]})
                if "overlap" in step:
                    run.rescale(overlap={region.name: True})
                if "pipelines" in step:
                    run.rescale(pipelines={region.name: tuple(range(len(region.operators)))})
                if "merge" in step:
                    run.rescale(pipelines={region.name: (0,)}, overlap={region.name: False})
            run.feed(batch)
        run.finish()
        found = {}
        for sink in graph.sinks:
            files = sorted(Path(folder, "out", sink).glob("*.parquet"))
            found[sink] = [row for file in files for row in pq.read_table(file).to_pylist()]
        return found


def cut(table, parts=8):
    size = -(-table.num_rows // parts)
    return [table.slice(i, size) for i in range(0, table.num_rows, size)]


def numbers(count, parts=8):
    """Batches of the rate source: its two partitions hold every other number, one after the other."""
    tables = cut(pa.table({"value": np.arange(count)}), parts)
    return [
        {"numbers": pa.concat_tables([t.take(np.arange(i, t.num_rows, 2)) for i in (0, 1)])} for t in tables
    ]


def test_word_count_equals_a_plain_count():
    graph = Graph("wordcount")
    wordcount.build(
        graph.source("numbers", {"value": "int64"}, time="value").through(wordcount.write_lines)
    ).sink("counts")
    rows = play(graph, numbers(2000))["counts"]
    last = {r["word"]: r["count"] for r in rows}
    assert last == dict(wordcount.oracle(wordcount.sentences(2000)))
    assert len(rows) == sum(last.values())


def test_words_of_any_script_are_parted_and_lowered_as_python_does_it():
    odd = [
        "No\u00a0break\u2003space",
        "\u039f\u0394\u03a5\u03a3\u03a3\u0395\u03a5\u03a3 X",
        "\u0130stanbul Plain",
        "a\x1cb c\x85d",
        "",
        " \u3000 ",
    ]
    graph = Graph("wordcount")
    wordcount.build(graph.source("lines", {"line": str})).sink("counts")
    lines = ["Plain words, tab\tand \x0b more"] * 3 + odd + ["PLAIN Words"]
    rows = play(graph, [{"lines": t} for t in cut(pa.table({"line": lines}), 3)])["counts"]
    assert {r["word"]: r["count"] for r in rows} == dict(wordcount.oracle(lines))


def test_bargains_equal_a_plain_loop():
    graph = Graph("finance")
    source = graph.source("numbers", {"value": "int64"}, time="value")
    finance.build(*[source.through(one) for one in finance.market(7)]).sink("bargains")
    rows = play(graph, numbers(3000))["bargains"]
    expected = finance.oracle(*finance.synthetic_rows(3000, 7))
    assert len(expected) > 100
    assert finance.same(rows, expected)


def test_bargains_of_two_sources_are_merged_by_time():
    trades, quotes = (pa.Table.from_pylist(rows) for rows in finance.synthetic_rows(2000, 5))
    graph = Graph("finance")
    streams = [
        graph.source(n, s, time="ts") for n, s in (("trades", finance.TRADE), ("quotes", finance.QUOTE))
    ]
    finance.build(*streams).sink("bargains")
    edges = np.linspace(0, 2000, 7)[1:]
    batches = [
        dict(zip(("trades", "quotes"), pair, strict=True))
        for pair in zip(finance.by_time(trades, edges), finance.by_time(quotes, edges), strict=True)
    ]
    assert finance.same(
        play(graph, batches)["bargains"], finance.oracle(trades.to_pylist(), quotes.to_pylist())
    )


def test_break_in_attempts_equal_a_plain_loop():
    graph = Graph("network")
    network.build(
        graph.source("numbers", {"value": "int64"}, time="value").through(network.write_log), 2, 60
    ).sink("attempts")
    rows = play(graph, numbers(6000))["attempts"]
    expected = network.oracle(map(network.log_line, range(6000)), 2, 60)
    assert len(expected) > 100
    assert network.by_address(rows) == network.by_address(expected)


def test_failures_out_of_order_count_only_within_the_window():
    lines = [
        f"Jan  1 00:{n // 60:02d}:{n % 60:02d} gate sshd: Invalid user x from 203.0.113.9"
        for n in (100, 50, 155)
    ]
    graph = Graph("network")
    network.build(graph.source("lines", {"line": str}), 1, 60).sink("attempts")
    rows = play(graph, [{"lines": pa.table({"line": lines})}])["attempts"]
    assert [(r["failures"], r["seconds"]) for r in rows] == [(1, 0), (2, 0), (2, 55)]
    assert network.by_address(rows) == network.by_address(network.oracle(lines, 1, 60))


def test_candlesticks_equal_a_plain_loop():
    graph = Graph("trading")
    trading.build(
        graph.source("numbers", {"value": "int64"}, time="value").through(trading.market(2)), window=100
    ).sink("candles")
    rows = play(graph, numbers(3000, 6))["candles"]
    expected = trading.oracle(pa.table(trading.quotes_of(np.arange(3000), 2)).to_pylist(), window=100)
    assert len(expected) >= 6
    assert trading.by_symbol(rows) == trading.by_symbol(expected)


def test_log_analysis_equals_a_plain_loop():
    graph = Graph("logs")
    streams = logs.build(graph.source("numbers", {"value": "int64"}, time="value").through(logs.write_log))
    for name, stream in zip(("components", "matches"), streams, strict=True):
        stream.sink(name)
    found = play(graph, numbers(3000))
    components = {r["component"]: r["events"] for r in found["components"]}
    matches = {r["pattern"]: r["matches"] for r in found["matches"]}
    assert (components, matches) == logs.oracle(map(logs.made_line, range(3000)))
    assert sum(components.values()) == 3000 - 30


def test_the_recorded_log_names_the_addresses_that_a_search_finds(recorded):
    graph = Graph("network")
    network.build(graph.source("lines", {"line": str}), 5, 60).sink("attempts")
    lines = wordcount.log_lines()
    rows = play(graph, [{"lines": t} for t in cut(pa.table({"line": lines}))])["attempts"]
    assert network.by_address(rows) == network.by_address(network.oracle(lines, 5, 60))
    searched = {a for line in lines if "BREAK-IN" in line for a in re.findall(r"\[([\d.]+)\] failed", line)}
    assert {r["address"] for r in rows if r["break_in"]} == searched
    assert len(searched) == 4


def test_recorded_trades_and_quotes_give_the_bargains_of_a_plain_loop(recorded):
    tables = finance.real()
    graph = Graph("finance")
    streams = [graph.source(n, t.schema, time="ts") for n, t in tables.items()]
    finance.build(*streams).sink("bargains")
    edges = np.linspace(tables["quotes"]["ts"][0].as_py(), tables["quotes"]["ts"][-1].as_py() + 1, 6)[1:]
    parts = [finance.by_time(tables[n], edges) for n in ("trades", "quotes")]
    batches = [dict(zip(("trades", "quotes"), pair, strict=True)) for pair in zip(*parts, strict=True)]
    expected = finance.oracle(tables["trades"].to_pylist(), tables["quotes"].to_pylist())
    assert len(expected) > 5
    assert finance.same(play(graph, batches)["bargains"], expected)


def test_a_wrong_option_is_told_in_one_sentence():
    options = {name: option.default for name, option in wordcount.OPTIONS.items()}
    with pytest.raises(PenstockError, match="Unknown source of an application 'fake'"):
        wordcount.main(1, options | {"source": "fake"})
    with pytest.raises(PenstockError, match="--symbols must be a whole number, not 'x'"):
        finance.main(1, {n: o.default for n, o in finance.OPTIONS.items()} | {"symbols": "x"})
