"""Elastic preference queries: splitting strategies with fixed workers, and ``Fuzzy`` against every fixed number.

A skyline of twelve anticorrelated attributes, so that the stages are the bottleneck. The rate follows from a first run that
measures how busy two workers are here.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from typing import Any

from penstock_lab.benches.elastic import Cell, CellRuns, Figures
from penstock_lab.benches.interference import spinning
from penstock_lab.results import ResultsPage, Table

SECONDS, WARM = 60.0, 10.0
#: Required answer lag, P95: what a user of windows of a second would accept.
TARGET = 1.0
STRATEGIES = ("PB_RR", "TB_RR", "AS", "AS_PID")
#: Workers of each stage: as many as resident workers fit into four slots beside the driver's own.
FIXED = (1, 2, 3)
POLICIES = ("Fuzzy", "Threshold")
#: The rate of the first run, and how busy two workers are to be on average.
FIRST, BUSY = 1_500.0, 0.4
LOADS: dict[str, dict[str, str]] = {
    "MAP(2), I = 1000": {"model": "map2", "dispersion": "1000"},
    "self-similar, H = 0.8": {"model": "self-similar", "hurst": "0.8"},
    "steps": {
        "model": "poisson",
        "shape": "step:at=25,factor=2.2;step:at=45,factor=0.3;step:at=60,factor=2.5",
    },
}
BURSTS = "MAP(2), I = 1000"


def cells() -> list[Cell]:
    """All of them; the other load takes half of a core."""
    made = [Cell("query", BURSTS, f"{s}, 2 workers", {"splitting": s, "workers": 2}) for s in STRATEGIES]
    for load in LOADS:
        made += [Cell("query", load, f"{n} fixed", {"workers": n}) for n in FIXED]
        made += [Cell("query", load, policy, {"policy": policy}) for policy in POLICIES]
    for way, spec in (("2 fixed", {"workers": 2}), ("Fuzzy", {"policy": "Fuzzy"})):
        made.append(Cell("query", "steps, beside another load", way, {**spec, "beside": True}))
    return made


def add(page: ResultsPage, kept: CellRuns, quick: bool) -> None:
    """Run what is missing and tell all."""
    chosen = [c for c in cells() if c.load == BURSTS and c.way in ("2 fixed", "Fuzzy")] if quick else cells()
    known = kept.remembered("query-rate", lambda: _run({"rate": FIRST, "seconds": 12.0, "workers": 2}, 0))
    # Nearly all rows of a window are in its skyline, and each is compared with each: the work goes with the square.
    rate = FIRST * (BUSY / max(known["busy"], 0.01)) ** 0.5

    def measure(cell: Cell, number: int) -> Figures:
        spec = {"rate": rate, "load": LOADS[cell.load.split(", beside")[0]], **cell.spec}
        spec["seconds"] = 20.0 if quick else SECONDS
        return _run(spec, number)

    kept.fill(chosen, measure)
    rows = []
    for cell in chosen:
        figures = ("lag_p95", "worker_seconds", "changes", "of_the_rate")
        rows.append((cell.load, cell.way, *(str(kept.spread(cell, f)) for f in figures)))
    page.tables.append(
        Table(
            f"A preference query, {rate:,.0f} rows/s on average",
            ("load", "way", "answer lag P95 (s)", "worker-seconds", "changes", "of the rate"),
            rows,
            f"Skyline of 12 anticorrelated attributes over windows of 1 s by 0.2 s; {SECONDS:.0f} s after {WARM:.0f} s of "
            f"warm-up, mean ± standard deviation of the runs. The rate is set so that two workers are {BUSY:.0%} busy "
            f"({known['busy']:.0%} at {FIRST:,.0f} rows/s). "
            "Worker-seconds: workers of the larger stage over time; both stages run on them in turn.",
        )
    )
    for load in dict.fromkeys(c.load for c in chosen):
        _judge(page, kept, [c for c in chosen if c.load == load], load)


def _judge(page: ResultsPage, kept: CellRuns, own: list[Cell], load: str) -> None:
    by = {c.way: c for c in own}
    if "Fuzzy" not in by:
        return
    lag, cost = (kept.spread(by["Fuzzy"], f) for f in ("lag_p95", "worker_seconds"))
    page.claim(
        f"{load}: Fuzzy meets the target",
        f"answer lag P95 at most {TARGET:g} s",
        f"{lag} s",
        lag.mean <= TARGET,
    )
    if "3 fixed" in by:
        peak = kept.spread(by["3 fixed"], "worker_seconds")
        page.claim(
            f"{load}: Fuzzy against the static peak",
            "at most 60 % of its worker-seconds",
            f"{cost.mean / peak.mean:.0%}",
            cost.mean <= 0.6 * peak.mean,
        )
    if "Threshold" in by:
        other = [kept.spread(by["Threshold"], f) for f in ("lag_p95", "worker_seconds")]
        behind = other[0].below(lag) and other[1].below(cost)
        page.claim(
            f"{load}: Fuzzy is not behind Threshold on both counts",
            "lag or worker-seconds no worse, beyond the spread",
            f"{lag} s and {cost} against {other[0]} s and {other[1]}",
            not behind,
        )


def _run(spec: Mapping[str, Any], number: int) -> Figures:
    """One run in a process of its own."""
    with tempfile.TemporaryDirectory(prefix="penstock-elastic-") as scratch:
        whole = {"warm_up": WARM, "folder": scratch, "seed": 1 + number, "load": {"model": "poisson"}, **spec}
        command = [sys.executable, "-m", "penstock_lab.benches.elastic_query_run", json.dumps(whole)]
        with spinning(1 if spec.get("beside") else 0, after=WARM):
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"a run of the benchmark failed:\n{done.stderr[-3000:]}")
        figures: Figures = json.loads(done.stdout.strip().splitlines()[-1])
    return figures
