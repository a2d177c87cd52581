"""The same flow laid out otherwise: fused or not, one or two replicas, overlapped or not, elastic or fixed."""

from typing import Any

import numpy as np
import pyarrow as pa

from penstock.policies import Organic
from penstock_lab.benches.flow_operators import ask, ask_alone, burn, burn_alone, finish, keep, spread_out
from penstock_lab.benches.flow_runs import FlowBench, chain
from penstock_lab.results import ResultsPage, Table


def compare_layouts(bench: FlowBench, report: ResultsPage, _quick: bool) -> None:
    """Measure all layouts and claim what they should gain."""
    size, batches = 40_000, 10
    stream = bench.files("layout", _tables(5, size, batches))
    rows: list[tuple[str, float, float]] = []

    def measure(name: str, flow: Any, **given: Any) -> float:
        done = bench.flow(flow, **given)
        rows.append((name, done["rate"], done["seconds"]))
        return float(done["rate"])

    # The first runs of a session are slower, whatever they do.
    bench.flow(chain("light", stream, keep, keep, finish))
    fused, apart = _by_turns(
        measure,
        ("three light operators fused", ("light", keep, keep, finish), {}),
        (
            "the same, each its own pipeline",
            ("light", keep, keep, finish),
            {"change": {"pipelines": {"keep": (0, 1, 2)}}},
        ),
        stream,
    )
    one = measure("a heavy operator, 1 replica", chain("heavy", stream, burn))
    two = measure("the same, 2 replicas", chain("heavy", stream, burn), replicas={"burn": 2})
    inline, late = _overlap(bench, rows, 2 * size, batches)
    waiting = measure(
        "the same flow, waiting instead of computing",
        chain("waiting", stream, ask, ask_alone),
        replicas={"ask": 2},
    )
    lapped = measure(
        "the same, overlapped",
        chain("waiting", stream, ask, ask_alone),
        replicas={"ask": 2},
        change={"overlap": {"ask_alone": True}},
    )
    shared = measure(
        "two equally costly regions on one worker", chain("regions", stream, spread_out, burn_alone)
    )
    split = measure(
        "the same, a worker each",
        chain("regions", stream, spread_out, burn_alone),
        change={"overlap": {"burn_alone": True}},
    )
    fixed, elastic = _by_turns(
        measure,
        ("two replicas, everything fixed", ("fixed", burn), {"unobserved": True, "replicas": {"burn": 2}}),
        (
            "the same with policy, profile and journal",
            ("elastic", burn),
            {"policy": Organic(max_replicas=2), "period": 1.0, "replicas": {"burn": 2}},
        ),
        stream,
    )
    report.tables.append(Table("Layouts of one flow", ("layout", "rows/s", "s a batch"), rows))
    report.claim(
        "Fusing light operators pays (medians of the runs)",
        "> 1",
        f"{fused / apart:.2f} times",
        fused > apart,
    )
    report.claim("Two replicas of a heavy operator", "> 1.3 times", f"{two / one:.2f} times", two > 1.3 * one)
    report.claim(
        "Overlap by a pipeline split on two cores",
        ">= 1.25 times (1.5 is ideal)",
        f"{late / inline:.2f} times",
        late >= 1.25 * inline,
    )
    report.claim(
        "Overlap where operators wait instead of compute",
        ">= 1.25 times",
        f"{lapped / waiting:.2f} times",
        lapped >= 1.25 * waiting,
    )
    report.claim(
        "Two equally costly regions, split on two cores",
        ">= 1.6 times one worker for both",
        f"{split / shared:.2f} times",
        split >= 1.6 * shared,
    )
    share = 1 - elastic / fixed
    report.claim(
        "The elastic runtime against everything fixed (medians of the runs)",
        "at most 5 % slower",
        f"{100 * share:+.1f} %",
        share <= 0.05,
    )


#: A layout's words, the name and the operators of its flow, and how it is started.
Layout = tuple[str, tuple[Any, ...], dict[str, Any]]
#: Runs of each of two layouts that are held against each other.
TURNS = 3


def _by_turns(measure: Any, one: Layout, other: Layout, stream: Any) -> tuple[float, float]:
    """The median rates of two layouts that are run by turns: a machine's mood changes within minutes."""
    rates: tuple[list[float], list[float]] = ([], [])
    for turn in range(TURNS):
        for found, (words, (name, *operators), given) in zip(rates, (one, other), strict=True):
            found.append(measure(f"{words}, run {turn + 1}", chain(name, stream, *operators), **given))
    return float(np.median(rates[0])), float(np.median(rates[1]))


def _overlap(
    bench: FlowBench, rows: list[tuple[str, float, float]], size: int, batches: int
) -> tuple[float, float]:
    """A parallel region before a stateful operator of the same total cost, one after the other and overlapped."""
    stream = bench.files("overlap", _tables(7, size, batches))
    rates = []
    for name, overlap in (
        ("parallel region, then a stateful operator", False),
        ("the same, overlapped", True),
    ):
        flow = chain("overlap", stream, spread_out, burn_alone)
        done = bench.flow(flow, replicas={"spread_out": 2}, change={"overlap": {"burn_alone": overlap}})
        rows.append((name, done["rate"], done["seconds"]))
        rates.append(float(done["rate"]))
    return rates[0], rates[1]


def _tables(seed: int, size: int, batches: int) -> list[pa.Table]:
    rng = np.random.default_rng(seed)
    return [pa.table({"key": rng.integers(0, 1000, size), "value": rng.random(size)}) for _ in range(batches)]
