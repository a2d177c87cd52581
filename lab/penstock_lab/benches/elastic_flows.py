"""Elastic flows: ``Organic`` and ``Mpc`` with their defaults against the best and the worst configuration by hand.

Input is there before it is asked for, so a flow goes as fast as its configuration lets it. The rate is that of the second
half of the batches; a policy has found its configuration by then or it has not. Every configuration by hand is run once, the
best and the worst of them as often as the policies.
"""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.apps import finance, trading
from penstock.apps.flow_app import pieces
from penstock.core.journal import MemoryJournal
from penstock.policies import Mpc, Organic
from penstock.spark.session import session
from penstock_lab.benches.elastic_operators import heavy_by_a, heavy_by_b, heavy_by_c, light_by_a, light_by_c
from penstock_lab.benches.flow_runs import SYMBOLS, FlowBench, chain, finance_flow
from penstock_lab.cell_runs import Cell, CellRuns, Figures, Spread
from penstock_lab.results import ResultsPage, Table

BATCHES = 40
#: Of the best by hand.
ENOUGH = 0.9
POLICIES: dict[str, Callable[[], Any]] = {
    "Organic": lambda: Organic(max_replicas=2),
    "Mpc": lambda: Mpc(workers=(1, 2)),
}


@dataclass(frozen=True)
class ElasticFlow:
    """A flow, the tables of its sources, batch by batch, and the regions that can have replicas."""

    tables: Callable[[int], dict[str, list[pa.Table]]]
    make: Callable[[dict[str, Any]], Any]
    regions: tuple[str, ...]
    policies: tuple[str, ...] = ("Organic",)


def _numbers(batches: int, rows: int = 6_000) -> dict[str, list[pa.Table]]:
    rng = np.random.default_rng(6)
    made = [
        pa.table({**{k: rng.integers(0, 500, rows) for k in "abc"}, "value": rng.random(rows)})
        for _ in range(8)
    ]
    return {"rows": [made[i % 8] for i in range(batches)]}


def _quotes(batches: int) -> dict[str, list[pa.Table]]:
    quotes = pa.table(trading.quotes_of(np.arange(batches * 20_000), 50))
    return {"quotes": pieces(quotes, 20_000)}


def _market(batches: int) -> dict[str, list[pa.Table]]:
    trades, quotes = finance.synthetic_tables(30_000 * batches, SYMBOLS)
    edges = np.arange(1, batches + 1) * 30_000
    return {"trades": finance.by_time(trades, edges), "quotes": finance.by_time(quotes, edges)}


def _trading(streams: dict[str, Any]) -> Any:
    from penstock.spark.flow.flow import Flow

    flow = Flow("trading")
    trading.build(flow.source("quotes", streams["quotes"])).sink("candles")
    return flow


def _tree(streams: dict[str, Any]) -> Any:
    """A heavy branch and a light one."""
    from penstock.spark.flow.flow import Flow

    flow = Flow("tree")
    root = flow.source("rows", streams["rows"]).through(light_by_a)
    root.through(heavy_by_b).sink("heavy")
    root.through(light_by_c).sink("light")
    return flow


def _chain(*operators: Any) -> Callable[[dict[str, Any]], Any]:
    return lambda streams: chain("chain", streams["rows"], *operators)


FLOWS = {
    "trading": ElasticFlow(_quotes, _trading, ("algotrader",), tuple(POLICIES)),
    "finance": ElasticFlow(_market, finance_flow, ("add_up", "find_bargains"), tuple(POLICIES)),
    "a chain of two": ElasticFlow(_numbers, _chain(heavy_by_a, heavy_by_b), ("heavy_by_a", "heavy_by_b")),
    "a chain of three": ElasticFlow(
        _numbers, _chain(heavy_by_a, heavy_by_b, heavy_by_c), ("heavy_by_a", "heavy_by_b", "heavy_by_c")
    ),
    "a tree with a heavy branch": ElasticFlow(_numbers, _tree, ("light_by_a", "heavy_by_b", "light_by_c")),
}


def cells() -> list[Cell]:
    """Every configuration of one or two replicas by hand, then the policies."""
    made = []
    for load, flow in FLOWS.items():
        made += [
            Cell("flows", load, " ".join(map(str, replicas)), {"replicas": replicas})
            for replicas in product((1, 2), repeat=len(flow.regions))
        ]
        made += [Cell("flows", load, name, {"policy": name}) for name in flow.policies]
    return made


def add(page: ResultsPage, kept: CellRuns, quick: bool) -> None:
    """Run what is missing and tell all."""
    chosen = cells()
    if quick:
        chosen = [c for c in chosen if c.load == "a chain of two" and c.way in ("1 1", "2 2", "Organic")]

    warm: set[str] = set()

    def measure(cell: Cell, number: int) -> Figures:
        if cell.load not in warm and not quick:  # the JVM is the same for all and grows faster with each
            _measure(cell, BATCHES)
            warm.add(cell.load)
        return _measure(cell, 16 if quick else BATCHES)

    kept.fill(chosen, measure, 1)
    ends = [c for load in FLOWS for c in _best_and_worst(kept, [c for c in chosen if c.load == load])]
    kept.fill([c for c in chosen if c.way in POLICIES or c in ends], measure)
    rows = [
        (c.load, c.way, str(kept.spread(c, "rate")), str(kept.spread(c, "changes")), _last(kept, c))
        for c in chosen
    ]
    page.tables.append(
        Table(
            "Flows that go as fast as they can",
            ("flow", "replicas by hand, or policy", "rows/s", "changes", "ended with"),
            rows,
            f"{BATCHES} batches, rate of the second half, mean ± standard deviation of the runs. Policies have their defaults "
            "but for the limit of two replicas, one a core. A run before the first of each flow warms the JVM up and is not counted.",
        )
    )
    for load in dict.fromkeys(c.load for c in chosen):
        _judge(page, kept, [c for c in chosen if c.load == load], load)


def _best_and_worst(kept: CellRuns, own: list[Cell]) -> list[Cell]:
    """Of the configurations by hand, as far as they have been run."""
    by_hand = [c for c in own if c.way not in POLICIES and kept.of(c)]
    ranked = sorted(by_hand, key=lambda c: kept.spread(c, "rate").mean)
    return [ranked[-1], ranked[0]] if ranked else []


def _judge(page: ResultsPage, kept: CellRuns, own: list[Cell], load: str) -> None:
    ends = _best_and_worst(kept, own)
    if not ends:
        return
    best, worst = (kept.spread(c, "rate") for c in ends)
    for cell in (c for c in own if c.way in POLICIES):
        rate: Spread = kept.spread(cell, "rate")
        if not rate.runs:
            continue
        page.claim(
            f"{load}: {cell.way} against the best by hand ({ends[0].way}) and the worst ({ends[1].way})",
            f"at least {ENOUGH:g} of the best",
            f"{rate.mean / best.mean:.2f} of the best, {rate.mean / worst.mean:.2f} of the worst",
            rate.mean >= ENOUGH * best.mean,
        )


def _last(kept: CellRuns, cell: Cell) -> str:
    done = kept.of(cell)
    return str(done[-1].get("plan", "")) if done else ""


def _measure(cell: Cell, batches: int) -> Figures:
    flow = FLOWS[cell.load]
    config = {"spark.default.parallelism": "2", "spark.sql.shuffle.partitions": "2"}
    spark = session("local[4]", app="penstock bench elastic", config=config)
    try:
        with tempfile.TemporaryDirectory(prefix="penstock-elastic-") as scratch:
            bench = FlowBench(spark, Path(scratch))
            tables = flow.tables(batches)
            parts = 2 if len(tables) == 1 else 1
            streams = {name: bench.files(name, some, parts) for name, some in tables.items()}
            return _timed(bench, flow, streams, cell)
    finally:
        spark.stop()


def _timed(bench: FlowBench, flow: ElasticFlow, streams: dict[str, Any], cell: Cell) -> Figures:
    journal, folder = MemoryJournal(), bench.folder()
    wanted = cell.spec.get("replicas", (1,) * len(flow.regions))
    policy = POLICIES[cell.spec["policy"]]() if "policy" in cell.spec else None
    seen: list[tuple[int, float]] = []
    run = flow.make(streams).start(
        bench.spark,
        checkpoint=folder + "/checkpoint",
        output=folder + "/out",
        available_now=True,
        replicas=dict(zip(flow.regions, wanted, strict=True)),
        policy=policy,
        period=0.5,
        journal=journal,
    )
    run.listen(lambda profile: seen.append((profile.rows, profile.started + profile.seconds)))
    run.await_termination()
    steady = seen[len(seen) // 2 :]
    rate = sum(rows for rows, _ in steady[1:]) / max(steady[-1][1] - steady[0][1], 1e-9)
    changes = float(sum(bool(r["changes"]) for r in journal.records if r["kind"] == "decision"))
    plan = " ".join(str(run.plan.regions[name].replicas) for name in flow.regions)
    return {"rate": rate, "changes": changes, "plan": plan}  # type: ignore[dict-item]
