"""Joker 5.2: the adaptation algorithm's parameters (Figs. 11, 12, 14, 15)."""

from collections.abc import Sequence
from typing import Any

from penstock.policies import Organic
from penstock.sim.plants.regions.region_graph import FlowCosts, RegionOperator, chain
from penstock_lab.judging import both, judged, near
from penstock_lab.papers.joker_runs import SOURCE, JokerJob, adapt, adapt_all, single
from penstock_lab.results import ResultsPage, Table

_STEP = 100.0


def bottleneck(report: ResultsPage) -> None:
    """Fig. 11: the load doubles until one replica is not enough."""
    graph = chain(SOURCE, [(RegionOperator("m256", 1.85e-6),)])
    loads = (40e3, 80e3, 160e3, 320e3, 640e3)
    rows: list[list[Any]] = []
    trials: list[tuple[list[int], list[int]]] = []
    for threshold in (0.5, 0.8, 0.95):
        out = adapt(
            graph,
            Organic(bottleneck=threshold),
            _STEP * len(loads),
            lambda t: loads[min(int(t / _STEP), len(loads) - 1)],
            FlowCosts(polling=0.9),
        )
        each = [
            out.replicas[(out.time > i * _STEP) & (out.time <= (i + 1) * _STEP)] for i in range(len(loads))
        ]
        tried, left = [int(seen.max()) for seen in each], [int(seen[-1]) for seen in each]
        trials.append((tried, left))
        told = [f"{most} ({end})" if end < most else str(most) for most, end in zip(tried, left, strict=True)]
        rows.append([threshold, *told, out.configs["r1"][1], out.throughput[-10:].mean() / 1e3])
    report.tables.append(
        Table(
            "Fig. 11: most replicas tried at each load, by bottleneck threshold",
            ("threshold", *(f"{x / 1e3:g} ktps" for x in loads), "replicas at the end", "ktps at the end"),
            rows,
            "In brackets: replicas at the end of that load, where fewer. One replica handles 500 ktps. Threads that wait for tuples burn CPU here, as the paper's trials at a third of the capacity "
            "show they do there. Paper: at 0.5 a second replica is tried at 160 and 320 ktps, at 0.8 at 320 ktps, and undone; "
            "at 640 ktps two stay.",
        )
    )
    tried_at = [tuple(tried[2:4]) for tried, _ in trials]
    kept_at = [tuple(left[2:4]) for _, left in trials]
    report.claim(
        "Fig. 11: too low a threshold tries what does not pay", "2 at 160 (0.5) and 320 ktps (0.5, 0.8), else 1", _by_threshold(tried_at),
        judged(tried_at == [(2, 2), (1, 2), (1, 1)], "at 160 and 320 ktps 2 and 2 (0.5), 1 and 2 (0.8), 1 and 1 (0.95)"), fit=True,
    )  # fmt: skip
    report.claim(
        "Fig. 11: and undoes it", "1 kept", _by_threshold(kept_at),
        judged(set(kept_at) == {(1, 1)}, "1 replica at the end of 160 and of 320 ktps, whatever the threshold"), fit=True,
    )  # fmt: skip
    report.claim(
        "Fig. 11: two replicas at 640 ktps whatever the threshold",
        "2",
        ", ".join(str(r[6]) for r in rows),
        all(r[6] == 2 for r in rows),
        fit=True,
    )


def _by_threshold(replicas: Sequence[tuple[int, ...]]) -> str:
    return "; ".join(f"{t}: {a}, {b}" for t, (a, b) in zip((0.5, 0.8, 0.95), replicas, strict=True))


def increase(report: ResultsPage, counts: Any, seconds: float) -> None:
    """Fig. 12: how much a change must gain to be kept."""
    values = (0.1, 0.2, 0.4)
    made = adapt_all([JokerJob(single(c), Organic(increase=v), seconds) for c in counts for v in values])
    speedups = [out.speedup for out in made]
    rows: list[list[Any]] = [[c, *speedups[3 * i : 3 * i + 3]] for i, c in enumerate(counts)]
    report.tables.append(
        Table(
            "Fig. 12: speedup by throughput increase threshold", ("multiplications", *map(str, values)), rows
        )
    )
    top = rows[-1]
    report.claim(
        "Fig. 12: for costly operators 0.1 and 0.2 are alike, 0.4 is very restrictive", "similar; far below",
        ", ".join(f"{v:.1f}x" for v in top[1:]),
        both(
            judged(abs(top[2] / top[1] - 1) <= 0.1, "0.2 within 10 % of 0.1"),
            judged(top[3] <= 0.7 * top[1], "0.4 at most 70 % of it"),
        ),
    )  # fmt: skip


def utility(report: ResultsPage, seconds: float) -> None:
    """Figs. 14 and 15: how much a split must promise."""
    rows: list[list[Any]] = []
    cases = (
        ("unbalanced 0.75 / 0.10", (0.75, 0.10), (0.2, 0.1), 0.45e-6),
        ("balanced 0.45 / 0.40", (0.45, 0.40), (0.2, 0.9), 0.05e-6),
    )
    for name, costs, values, source in cases:
        whole = 3e-6
        graph = chain(
            RegionOperator("source", source),
            [tuple(RegionOperator(f"o{i}", c * whole) for i, c in enumerate(costs))],
        )
        taken = FlowCosts(entry=(1 - sum(costs)) * whole, transfer=0.1e-6)
        for value in values:
            out = adapt(graph, Organic(split=value), seconds, costs=taken)
            starts, replicas = out.configs["r1"]
            rows.append([name, value, out.speedup, len(starts), replicas, len(out.changes), out.reverts])
    report.tables.append(
        Table(
            "Figs. 14, 15: split utility threshold",
            ("operator costs", "threshold", "speedup", "pipelines", "replicas", "changes", "undone"),
            rows,
            "Paper: unbalanced, a low threshold tries and undoes a split at each step; balanced, a threshold of 0.9 forbids the split and "
            "costs 40 % of the speedup.",
        )
    )
    high, low = rows[:2]
    report.claim(
        "Fig. 14: a low threshold tries and undoes splits that do not pay", "one at each number of replicas, same end",
        f"{low[5]} against {high[5]} changes, {low[6]} against {high[6]} undone, both end with {low[3]} and {high[3]} pipelines, {low[4]} and {high[4]} replicas",
        both(
            judged(low[5] > high[5], "more changes"),
            judged(low[6] - high[6] >= low[4], f"at least {low[4]} more undone, as many as there are replicas"),
            judged(low[3:5] == high[3:5], "same pipelines and replicas at the end"),
        ), fit=True,
    )  # fmt: skip
    lost = 1 - rows[3][2] / rows[2][2]
    report.claim(
        "Fig. 15: forbidding a good split costs speedup",
        "40 %",
        f"{lost:.0%}",
        near((lost, 0.4), form=".0%"),
        fit=True,
    )
