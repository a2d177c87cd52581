"""Organic from one replica each, against a small hand search on the same input.

The hand search runs every configuration of one or two replicas a region. Organic starts with one each and has a stated
number of periods; where it ends is scored by the rate that the hand search measured for that configuration, or by a run
of its own where Organic ends with pipelines that the search did not try.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.apps import finance, wordcount
from penstock.core.journal import MemoryJournal
from penstock.policies import Organic
from penstock_lab.benches.flow_operators import burn
from penstock_lab.benches.flow_runs import SYMBOLS, FlowBench, chain, finance_flow, word_flow
from penstock_lab.judging import judged
from penstock_lab.results import ResultsPage, Table

#: Thresholds of Organic here; the defaults are 0.8 and 0.1.
BOTTLENECK, INCREASE = 0.4, 0.05
#: Of the best by hand: two runs of one configuration differ by as much.
ENOUGH = 0.95


@dataclass(frozen=True)
class OrganicJob:
    """A flow to adapt: its batches, by source, how it is made of streams, and the regions that can have replicas."""

    name: str
    tables: dict[str, list[pa.Table]]
    make: Callable[[dict[str, Any]], Any]
    regions: tuple[str, ...]


def compare_organic(bench: FlowBench, report: ResultsPage, _quick: bool) -> None:
    """Word count, finance, and a heavy operator, which is the one that gains by replicas on two cores."""
    periods = 40
    rows: list[tuple[Any, ...]] = []
    story: list[tuple[Any, ...]] = []
    for job in _jobs(periods):
        _compare(bench, report, job, periods, rows, story)
    report.tables.append(
        Table(
            "Organic against a hand search",
            ("flow", "replicas, pipelines", "rows/s", "periods"),
            rows,
            f"Organic had {periods} batches, so at most {periods} periods of half a second or a batch, from one replica each, with thresholds of {BOTTLENECK} (bottleneck) and {INCREASE} (increase) in place of the defaults 0.8 and 0.1, which two cores hardly reach; "
            "the last column has the period of its last change. Its rate is the one that the hand search measured for the configuration which it ended with, "
            "not that of its own run; where the search has not tried that configuration, one run more measures it.",
        )
    )
    report.tables.append(Table("What Organic's journal tells", ("flow", "s", "changes", "reason"), story))


def _jobs(batches: int) -> list[OrganicJob]:
    rng = np.random.default_rng(6)
    heavy = [pa.table({"key": rng.integers(0, 1000, 30_000), "value": rng.random(30_000)}) for _ in range(8)]
    lines = wordcount.text(8 * 20_000)
    texts = [pa.table({"line": lines.slice(i * 20_000, 20_000)}) for i in range(8)]
    trades, quotes = finance.synthetic_tables(50_000 * batches, SYMBOLS)
    edges = np.arange(1, batches + 1) * 50_000
    market = {"trades": finance.by_time(trades, edges), "quotes": finance.by_time(quotes, edges)}
    again = [i % 8 for i in range(batches)]
    return [
        OrganicJob(
            "a heavy operator",
            {"rows": [heavy[i] for i in again]},
            lambda s: chain("heavy", s["rows"], burn),
            ("burn",),
        ),
        OrganicJob(
            "word count", {"lines": [texts[i] for i in again]}, lambda s: word_flow(s["lines"]), ("count",)
        ),
        OrganicJob("finance", market, finance_flow, ("add_up", "find_bargains")),
    ]


def _compare(
    bench: FlowBench,
    report: ResultsPage,
    job: OrganicJob,
    periods: int,
    rows: list[tuple[Any, ...]],
    story: list[tuple[Any, ...]],
) -> None:
    parts = 2 if len(job.tables) == 1 else 1
    short = {n: bench.files(f"short {job.name} {n}", tables[:10], parts) for n, tables in job.tables.items()}
    found: dict[tuple[Any, ...], float] = {}
    for replicas in product((1, 2), repeat=len(job.regions)):
        found[replicas] = _rate(bench, job, short, replicas, {})
        rows.append((job.name, f"{_words(replicas)}, by hand", found[replicas], ""))
    long = {n: bench.files(f"long {job.name} {n}", tables, parts) for n, tables in job.tables.items()}
    journal = MemoryJournal()
    policy = Organic(warmup=1, samples=4, max_replicas=2, bottleneck=BOTTLENECK, increase=INCREASE)
    done = bench.flow(job.make(long), policy=policy, period=0.5, journal=journal)
    plans = {r: done["plan"].regions[r] for r in job.regions}
    chosen = tuple(p.replicas for p in plans.values()) + tuple(
        (r, p.pipelines) for r, p in plans.items() if len(p.pipelines) > 1
    )
    if chosen not in found:
        split = {r: p.pipelines for r, p in plans.items()}
        found[chosen] = _rate(bench, job, short, chosen[: len(job.regions)], {"pipelines": split})
    decisions = [r for r in journal.records if r["kind"] == "decision"]
    acted = [n for n, r in enumerate(decisions, 1) if r["changes"]]
    rows.append((job.name, f"{_words(chosen)}, by Organic", found[chosen], acted[-1] if acted else 0))
    story += [
        (job.name, round(r["time"], 1), "; ".join(f"{w} {k} {v}" for k, w, v in r["changes"]), r["reason"])
        for r in decisions
        if not r["reason"].startswith(("profiling", "letting"))
    ]
    share = found[chosen] / max(found.values())
    report.claim(
        f"Organic on {job.name} within {periods} periods, against the best by hand",
        f">= {ENOUGH} of it",
        f"{share:.2f}",
        judged(share >= ENOUGH, f">= {ENOUGH}, by the hand search's rate for where it ended"),
    )


def _rate(
    bench: FlowBench,
    job: OrganicJob,
    streams: dict[str, Any],
    replicas: tuple[int, ...],
    change: dict[str, Any],
) -> float:
    given = dict(zip(job.regions, replicas, strict=True))
    return float(bench.flow(job.make(streams), replicas=given, change=change)["rate"])


def _words(config: tuple[Any, ...]) -> str:
    return ", ".join(map(str, config))
