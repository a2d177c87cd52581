"""Elastic flows: ``Organic`` and ``Mpc`` with their defaults against the best and the worst configuration by hand.

Input is there before it is asked for, so a flow goes as fast as its configuration lets it. Every run is a process of its own,
so that none gains by what others have loaded and compiled. Every configuration by hand is run once; the best and the worst of
these first runs are run as often as the policies. A flow is held against itself alone, so its runs count where the machine was
as fast as at the newest of them.
"""

import time
from dataclasses import replace
from itertools import product
from typing import Any

from penstock_lab.benches.elastic_flow_run import FLOWS
from penstock_lab.benches.elastic_judging import Judge
from penstock_lab.cell_runs import Cell, CellRuns, Figures, run_alone
from penstock_lab.results import ResultsPage, Table

#: Organic acts after six of its periods of half a second and judges a change ten later.
SECONDS, WARM = 25.0, 5.0
#: Of the best by hand.
ENOUGH = 0.9
POLICIES: dict[str, dict[str, Any]] = {
    "Organic": {"name": "Organic", "max_replicas": 2},
    "Mpc": {"name": "Mpc", "workers": [1, 2]},
}
#: Flows that ``Mpc`` is tried on as well.
BOTH = ("trading", "finance")


def cells(seconds: float = SECONDS) -> list[Cell]:
    """Every configuration of one or two replicas by hand, then the policies."""
    made = []
    for load, flow in FLOWS.items():
        spec = {"flow": load, "batches": flow.batches, "seconds": seconds, "warm_up": WARM}
        made += [
            Cell("flows", load, " ".join(map(str, replicas)), {**spec, "replicas": replicas})
            for replicas in product((1, 2), repeat=len(flow.regions))
        ]
        chosen = POLICIES if load in BOTH else ("Organic",)
        made += [Cell("flows", load, name, {**spec, "policy": POLICIES[name]}) for name in chosen]
    return made


def add(page: ResultsPage, kept: CellRuns, quick: bool) -> None:
    """Run what is missing and tell all."""
    chosen = cells()
    if quick:
        chosen = [c for c in cells(10.0) if (c.load, c.way) == ("a chain of two", "Organic")]
    loads = {load: [c for c in chosen if c.load == load] for load in FLOWS}
    runs = {load: _filled(kept, own) for load, own in loads.items() if own}
    rows = [
        (c.load, c.way, str(runs[c.load].spread(c, "rate")), str(runs[c.load].spread(c, "changes")), _last(runs[c.load], c))
        for c in chosen
    ]  # fmt: skip
    page.tables.append(
        Table(
            "Flows that go as fast as they can",
            ("flow", "replicas by hand, or policy", "rows/s", "changes", "ended with"),
            rows,
            f"{SECONDS:.0f} s a run, each in a process of its own after {WARM:.0f} s of warm-up with one replica each; rate of the second "
            "half, mean ± standard deviation of the runs. Policies have their defaults but for the limit of two replicas, one a core, and "
            "decide every 0.5 s; `Mpc` keeps up with what comes, which is here what the flow could take, by its default objective. Which "
            f"configuration by hand is the best and which the worst goes by the first run of each. {' '.join(f'{load[0].upper()}{load[1:]}: {runs[load].speed(loads[load])}' for load in runs)}",
        )
    )
    page.tables.append(_decided(runs, chosen))
    if quick:
        return
    for load, own in loads.items():
        page.seconds += runs[load].wall(own)
        _judge(Judge(page, runs[load]), own, load)


def _filled(kept: CellRuns, own: list[Cell]) -> CellRuns:
    """The runs of one flow, after those that were missing."""
    while True:  # a run on a machine of another speed makes those before it not count
        kept = _of_one_speed(kept, own)
        lacking = [c for c in own if not any(run["run"] == 0 for run in kept.of(c))]
        if not lacking or time.monotonic() > kept.until:
            break
        kept.fill(lacking, _run, 1)
    ends = best_and_worst(kept, own)
    kept.fill([c for c in own if c.way in POLICIES or c in ends], _run)
    return _of_one_speed(kept, own)


def _of_one_speed(kept: CellRuns, own: list[Cell]) -> CellRuns:
    return replace(kept, machine=kept.newest_speed(own))


def best_and_worst(kept: CellRuns, own: list[Cell]) -> list[Cell]:
    """Of the configurations by hand, by their first run: further runs of the two change nothing about who they are."""
    by_hand = [c for c in own if c.way not in POLICIES]
    ranked = sorted(
        ((run["rate"], place) for place, c in enumerate(by_hand) for run in kept.of(c) if run["run"] == 0)
    )
    return [by_hand[ranked[-1][1]], by_hand[ranked[0][1]]] if ranked else []


def _judge(judge: Judge, own: list[Cell], load: str) -> None:
    ends = best_and_worst(judge.kept, own)
    if not ends:
        return
    best, worst = (judge.kept.spread(c, "rate") for c in ends)
    for cell in (c for c in own if c.way in POLICIES):
        rate = judge.kept.spread(cell, "rate")
        judge.claim(
            f"{load}: {cell.way} against the best by hand ({ends[0].way}) and the worst ({ends[1].way})",
            f"at least {ENOUGH:g} of the best",
            [cell, *ends],
            f"{rate.mean / best.mean:.2f} of the best ({rate} against {best}), {rate.mean / worst.mean:.2f} of the worst",
            rate.mean >= ENOUGH * best.mean,
        )


def _decided(runs: dict[str, CellRuns], chosen: list[Cell]) -> Table:
    rows = [
        (c.load, run["run"] + 1, *decision)
        for c in chosen
        if c.way == "Organic"
        for run in runs[c.load].of(c)
        for decision in run["decisions"]
    ]
    return Table(
        "What Organic did",
        ("flow", "run", "after (s)", "changes", "reason"),
        rows,
        "Splits and replicas that were tried, what came of them, and what was undone; what is undone, or was not made, is on the "
        "blacklist of its region until the load changes.",
    )


def _last(kept: CellRuns, cell: Cell) -> str:
    done = kept.of(cell)
    return str(done[-1]["plan"]) if done else ""


def _run(cell: Cell, number: int) -> Figures:
    return run_alone("penstock_lab.benches.elastic_flow_run", cell.spec)
