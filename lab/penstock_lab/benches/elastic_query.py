"""Elastic preference queries: splitting strategies with fixed workers, and ``Fuzzy`` against every fixed number.

The top-delta rows of twelve anticorrelated attributes over windows of five seconds, so that the stages are the bottleneck.
Workers are held to half a core each by control groups: three of them and the driver fit on two cores. Rates follow from two
first runs, which tell how busy one worker is at either.
"""

from typing import Any

from penstock_lab.benches.elastic_judging import Goal, judge_against_fixed
from penstock_lab.benches.interference import spinning
from penstock_lab.cell_runs import Cell, CellRuns, Figures, run_alone
from penstock_lab.results import ResultsPage, Table

SECONDS, WARM = 40.0, 7.0
#: Required answer lag, P95: what a user of windows of some seconds would accept.
GOAL = Goal("lag_p95", "answer lag P95", 1.0)
STRATEGIES = ("PB_RR", "TB_RR", "AS")
#: Workers of each stage; both stages run on them in turn.
FIXED = (1, 2, 3)
POLICIES: dict[str, dict[str, Any]] = {
    "Fuzzy": {"name": "Fuzzy", "limit": 2 * max(FIXED)},
    "Threshold": {"name": "Threshold", "limits": [1, max(FIXED)]},
}
#: Of a core.
SHARE = 0.5
#: Rates of the first two runs.
FIRST = (2_000.0, 4_000.0)
BURSTS, SIMILAR, STEPS = "MAP(2), I = 1000", "self-similar, H = 0.8", "steps"
#: Load -> its rate over that at which one worker is always busy, and its options.
LOADS: dict[str, tuple[float, dict[str, str]]] = {
    BURSTS: (0.9, {"model": "map2", "dispersion": "1000"}),
    SIMILAR: (0.9, {"model": "self-similar", "hurst": "0.8"}),
    STEPS: (
        0.58,
        {
            "model": "poisson",
            "shape": "step:at=17,factor=2.2;step:at=30,factor=0.3;step:at=40,factor=2.5",
        },
    ),
}


def cells(most: float, seconds: float = SECONDS) -> list[Cell]:
    """All of them, where one worker can do so many rows a second; strategies but for ``AS_PID``, which the others have."""
    ways = {f"{n} fixed": {"workers": n} for n in FIXED} | {n: {"policy": p} for n, p in POLICIES.items()}
    strategies = {f"{s}, 2 fixed": {"splitting": s, "workers": 2} for s in STRATEGIES}

    def some(load: str, chosen: dict[str, Any], name: str = "", **more: Any) -> list[Cell]:
        over, options = LOADS[load]
        spec = {
            "rate": round(over * most),
            "load": options,
            "share": SHARE,
            "seconds": seconds,
            "warm_up": WARM,
            "seeds": (1, 2, 3),
        }
        return [Cell("query", name or load, way, {**spec, **own, **more}) for way, own in chosen.items()]

    made = [cell for load in (BURSTS, SIMILAR) for cell in some(load, strategies)]
    made += [cell for load in LOADS for cell in some(load, ways)]
    return made + some(STEPS, ways, f"{STEPS}, beside another load", beside=True)


def add(page: ResultsPage, kept: CellRuns, quick: bool) -> None:
    """Run what is missing and tell all."""
    first = Cell(
        "query", "first runs", "", {"rates": FIRST, "share": SHARE, "seconds": 15.0, "warm_up": WARM}
    )
    known = {"most": FIRST[1], "low": 0.0, "high": 0.0} if quick else kept.remembered(first, _first_runs)
    most = known["most"]
    chosen = [c for c in cells(most, 10.0) if (c.load, c.way) == (BURSTS, "Fuzzy")] if quick else cells(most)
    kept.fill(chosen, _run)
    figures = ("lag_p50", "lag_p95", "worker_seconds", "changes", "of_the_rate")
    rates = ", ".join(f"{name} {over * most:,.0f}" for name, (over, _) in LOADS.items())
    page.tables.append(
        Table(
            "A preference query",
            ("load", "way", "answer lag P50 (s)", "P95 (s)", "worker-seconds", "changes", "of the rate"),
            [(c.load, c.way, *(str(kept.spread(c, f)) for f in figures)) for c in chosen],
            f"The top-delta rows (delta 100) of 12 anticorrelated attributes over windows of 5 s by 0.2 s; {SECONDS:.0f} s after "
            f"{WARM:.0f} s of warm-up, mean ± standard deviation of the runs; a seed of its own for each run, the same for all ways. "
            f"Splitting by AS_PID where nothing else is said. The lag is that of every window that was due; one that had not "
            "come when the time was over has the age that it had by then. "
            f"Workers are held to {SHARE:g} of a core each; "
            f"one of them is always busy at {most:,.0f} rows/s, by its busy share at {FIRST[0]:,.0f} ({known['low']:.0%}) and "
            f"{FIRST[1]:,.0f} rows/s ({known['high']:.0%}). Rows/s: {rates} (at first). Worker-seconds: workers of the larger stage "
            "over time; both stages run on them in turn. Beside another load: a process takes half of a core; steps alone, the load "
            "on which a policy has most to do. Policies have their defaults but for the limit of three workers a stage. The shares of "
            "the rate that loads have were chosen after runs at 0.8, where one worker is enough, and at 1.0. "
            f"{kept.speed(chosen)}",
        )
    )
    if quick:
        return
    page.seconds += kept.wall([first, *chosen])
    for load in dict.fromkeys(c.load for c in chosen):
        judge_against_fixed(page, kept, [c for c in chosen if c.load == load], "Fuzzy", GOAL)


def _first_runs(cell: Cell, number: int) -> Figures:
    """How busy one worker is at two rates, and the rate at which it always is: work goes with the square of the rate."""
    spec = {**cell.spec, "load": {"model": "poisson"}, "workers": 1, "seed": 1 + number}
    low, high = (
        run_alone("penstock_lab.benches.elastic_query_run", {**spec, "rate": rate})["busy"] for rate in FIRST
    )
    slope = (high - low) / (FIRST[1] ** 2 - FIRST[0] ** 2)
    return {"low": low, "high": high, "most": (FIRST[0] ** 2 + (1.0 - low) / slope) ** 0.5}


def _run(cell: Cell, number: int) -> Figures:
    with spinning(1 if cell.spec.get("beside") else 0, after=WARM, share=0.5):
        return run_alone(
            "penstock_lab.benches.elastic_query_run", {**cell.spec, "seed": cell.spec["seeds"][number]}
        )
