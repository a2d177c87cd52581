"""One run of a flow of ``penstock bench elastic`` that goes as fast as it can, in a process of its own; prints its figures as JSON.

A first run of some seconds warms the process up and is not counted. Input is there before it is asked for, more than the run
can use, and the run is stopped after its seconds.
"""

import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.apps import finance, trading
from penstock.apps.flow_app import pieces
from penstock.core.journal import MemoryJournal
from penstock.core.tables import decision_row
from penstock.spark.session import session
from penstock_lab.benches.elastic_operators import heavy_by_a, heavy_by_b, heavy_by_c, light_by_a, light_by_c
from penstock_lab.benches.elastic_watch import LOOK, policy_of
from penstock_lab.benches.flow_runs import SYMBOLS, FlowBench, chain, finance_flow

#: Reasons of decisions that tell what came of a change.
OUTCOMES = ("kept", "undone", "the last change was not made")


@dataclass(frozen=True)
class ElasticFlow:
    """A flow, its regions that can have replicas, and the tables of its sources, batch by batch.

    There are so many batches that a machine twice as fast as that on which this was written is busy for half a minute.
    """

    tables: Callable[[int], dict[str, list[pa.Table]]]
    make: Callable[[dict[str, Any]], Any]
    regions: tuple[str, ...]
    batches: int


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
    "trading": ElasticFlow(_quotes, _trading, ("algotrader",), 260),
    "finance": ElasticFlow(_market, finance_flow, ("add_up", "find_bargains"), 380),
    "a chain of two": ElasticFlow(
        _numbers, _chain(heavy_by_a, heavy_by_b), ("heavy_by_a", "heavy_by_b"), 240
    ),
    "a chain of three": ElasticFlow(
        _numbers, _chain(heavy_by_a, heavy_by_b, heavy_by_c), ("heavy_by_a", "heavy_by_b", "heavy_by_c"), 180
    ),
    "a tree with a heavy branch": ElasticFlow(
        _numbers, _tree, ("light_by_a", "heavy_by_b", "light_by_c"), 400
    ),
}


def main(text: str) -> None:
    """Run, measure, print."""
    spec = json.loads(text)
    config = {"spark.default.parallelism": "2", "spark.sql.shuffle.partitions": "2"}
    spark = session("local[4]", app="penstock bench elastic", config=config)
    bench, flow = FlowBench(spark, Path(spec["folder"])), FLOWS[spec["flow"]]
    tables = flow.tables(flow.batches)
    parts = 2 if len(tables) == 1 else 1
    streams = {name: bench.files(name, some, parts) for name, some in tables.items()}
    driven(bench, flow, streams, {"seconds": spec["warm_up"]}, MemoryJournal())
    figures = measured(bench, flow, streams, spec)
    spark.stop()
    sys.stdout.write("\n" + json.dumps(figures) + "\n")


def measured(
    bench: FlowBench, flow: ElasticFlow, streams: dict[str, Any], spec: Mapping[str, Any]
) -> dict[str, Any]:
    """Rows a second in the second half of a run, and what its policy did in all of it."""
    journal = MemoryJournal()
    run, ends = driven(bench, flow, streams, spec, journal)
    plan = " ".join(str(run.plan.regions[name].replicas) for name in flow.regions)
    made = sum(bool(r["changes"]) for r in journal.records if r["kind"] == "decision")
    told = {"changes": float(made), "plan": plan, "decisions": telling(journal.records)}
    return {"rate": rate_of(ends, spec["seconds"]), **told}


def driven(
    bench: FlowBench,
    flow: ElasticFlow,
    streams: dict[str, Any],
    spec: Mapping[str, Any],
    journal: MemoryJournal,
) -> tuple[Any, list[tuple[int, float]]]:
    """A run that was stopped after its seconds, or when it was through its input; rows and end of each of its batches."""
    folder, ends = bench.folder(), list[tuple[int, float]]()
    wanted = spec.get("replicas", (1,) * len(flow.regions))
    run = flow.make(streams).start(
        bench.spark,
        checkpoint=folder + "/checkpoint",
        output=folder + "/out",
        available_now=True,
        replicas=dict(zip(flow.regions, wanted, strict=True)),
        policy=policy_of(spec),
        period=0.5,
        journal=journal,
    )
    run.listen(lambda profile: ends.append((profile.rows, profile.started + profile.seconds)))
    while run.is_active and (not ends or time.time() < ends[0][1] + spec["seconds"]):
        time.sleep(LOOK)
    if run.is_active:
        run.stop()
    else:
        run.await_termination()  # raises what ended it
    return run, ends


def rate_of(ends: Sequence[tuple[int, float]], seconds: float) -> float:
    """Rows a second in the second half of the time, from (rows, end) of every batch."""
    lasted = ends[-1][1] - ends[0][1] if ends else 0.0
    if lasted < 0.8 * seconds:
        raise RuntimeError(
            f"The flow was through its input after {lasted:.0f} of {seconds:g} s; give it more batches."
        )
    steady = [(rows, end) for rows, end in ends if end >= ends[0][1] + lasted / 2]
    return sum(rows for rows, _ in steady[1:]) / (steady[-1][1] - steady[0][1])


def telling(records: Sequence[Mapping[str, Any]]) -> list[list[Any]]:
    """Decisions that changed something, or say what came of a change: seconds since the start, changes in words, reason."""
    decisions = [r for r in records if r["kind"] == "decision"]
    return [
        [round(r["time"], 1), decision_row(r)["changes"], r["reason"]]
        for r in decisions
        if r["changes"] or r["reason"].startswith(OUTCOMES)
    ]


if __name__ == "__main__":
    main(sys.argv[1])
