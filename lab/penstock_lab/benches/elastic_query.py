"""Elastic preference queries: splitting strategies with fixed workers, and ``Fuzzy`` against every fixed number.

The top-delta rows of twelve anticorrelated attributes over windows of five seconds, so that the stages are the bottleneck.
Workers are held to half a core each by control groups: three of them and the driver fit on two cores. Rates follow from two
first runs, which tell how busy one worker is at either.
"""

from collections.abc import Mapping
from typing import Any

from penstock_lab.benches.elastic import judge_against_fixed
from penstock_lab.benches.interference import spinning
from penstock_lab.cell_runs import Cell, CellRuns, Figures, run_alone
from penstock_lab.results import ResultsPage, Table

SECONDS, WARM = 60.0, 10.0
#: Required answer lag, P95: what a user of windows of some seconds would accept.
TARGET = 1.0
STRATEGIES = ("PB_RR", "TB_RR", "AS")
#: Workers of each stage; both stages run on them in turn.
FIXED = (1, 2, 3)
POLICIES = ("Fuzzy", "Threshold")
#: Of a core.
SHARE = 0.5
#: Rates of the first two runs.
FIRST = (2_000.0, 4_000.0)
#: Load -> its rate over that at which one worker is always busy, and its options.
LOADS: dict[str, tuple[float, dict[str, str]]] = {
    "MAP(2), I = 1000": (0.9, {"model": "map2", "dispersion": "1000"}),
    "self-similar, H = 0.8": (0.9, {"model": "self-similar", "hurst": "0.8"}),
    "steps": (
        0.58,
        {
            "model": "poisson",
            "shape": "step:at=25,factor=2.2;step:at=45,factor=0.3;step:at=60,factor=2.5",
        },
    ),
}
BURSTS = "MAP(2), I = 1000"


def cells() -> list[Cell]:
    """All of them (``AS_PID`` is what the others have); the other load takes half of a core."""
    made = [Cell("query", BURSTS, f"{s}, 2 fixed", {"splitting": s, "workers": 2}) for s in STRATEGIES]
    for load in LOADS:
        made += [Cell("query", load, f"{n} fixed", {"workers": n}) for n in FIXED]
        made += [Cell("query", load, policy, {"policy": policy}) for policy in POLICIES]
    for way, spec in (("2 fixed", {"workers": 2}), ("Fuzzy", {"policy": "Fuzzy"})):
        made.append(Cell("query", "steps, beside another load", way, {**spec, "beside": True}))
    return made


def add(page: ResultsPage, kept: CellRuns, quick: bool) -> None:
    """Run what is missing and tell all."""
    if quick:
        _look(page)
        return
    chosen = cells()
    known = kept.remembered("query-rate", _first_runs)
    most = known["most"]

    def measure(cell: Cell, number: int) -> Figures:
        over, load = LOADS[cell.load.split(", beside")[0]]
        return _run({"rate": over * most, "load": load, **cell.spec, "seconds": SECONDS}, number)

    kept.fill(chosen, measure)
    rows = []
    for cell in chosen:
        figures = ("lag_p95", "worker_seconds", "changes", "of_the_rate")
        rows.append((cell.load, cell.way, *(str(kept.spread(cell, f)) for f in figures)))
    rates = ", ".join(f"{name} {over * most:,.0f}" for name, (over, _) in LOADS.items())
    page.tables.append(
        Table(
            "A preference query",
            ("load", "way", "answer lag P95 (s)", "worker-seconds", "changes", "of the rate"),
            rows,
            f"The top-delta rows (delta 100) of 12 anticorrelated attributes over windows of 5 s by 0.2 s; {SECONDS:.0f} s after "
            f"{WARM:.0f} s of warm-up, mean ± standard deviation of the runs. Workers are held to {SHARE:g} of a core each; "
            f"one of them is always busy at {most:,.0f} rows/s, by its busy share at {FIRST[0]:,.0f} ({known['low']:.0%}) and "
            f"{FIRST[1]:,.0f} rows/s ({known['high']:.0%}). Rows/s: {rates} (at first). Worker-seconds: workers of the larger stage "
            "over time; both stages run on them in turn. Beside another load: half of a core is taken. The shares of that rate that "
            "loads have were chosen after runs at 0.8, where one worker is enough, and at 1.0.",
        )
    )
    for load in dict.fromkeys(c.load for c in chosen):
        own = [c for c in chosen if c.load == load]
        judge_against_fixed(page, kept, own, "Fuzzy", ("lag_p95", "answer lag P95"), TARGET)


def _look(page: ResultsPage) -> None:
    """Some seconds of ``Fuzzy`` at a rate that one worker cannot do: whether it runs, and nothing more."""
    _, load = LOADS[BURSTS]
    seen = _run({"rate": FIRST[1], "load": load, "policy": "Fuzzy", "seconds": 10.0, "warm_up": 6.0}, 0)
    columns = ("way", "answer lag P95 (s)", "worker-seconds", "changes")
    row = ("Fuzzy", seen["lag_p95"], seen["worker_seconds"], seen["changes"])
    page.tables.append(
        Table("A preference query", columns, [row], "Ten seconds: too few to judge anything by.")
    )


def _first_runs() -> Figures:
    """How busy one worker is at two rates, and the rate at which it always is: work goes with the square of the rate."""
    low, high = (_run({"rate": rate, "seconds": 15.0, "workers": 1}, 0)["busy"] for rate in FIRST)
    slope = (high - low) / (FIRST[1] ** 2 - FIRST[0] ** 2)
    return {"low": low, "high": high, "most": (FIRST[0] ** 2 + (1.0 - low) / slope) ** 0.5}


def _run(spec: Mapping[str, Any], number: int) -> Figures:
    whole = {"warm_up": WARM, "seed": 1 + number, "load": {"model": "poisson"}, "share": SHARE, **spec}
    with spinning(1 if spec.get("beside") else 0, after=WARM, share=0.5):
        return run_alone("penstock_lab.benches.elastic_query_run", whole)
