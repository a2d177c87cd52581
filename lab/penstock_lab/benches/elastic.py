"""``penstock bench elastic``: policies on live Spark against fixed numbers of workers, several runs a cell.

Parts can be run alone (``--part query``, ``flows``, ``paced``, ``logs``). Every finished run is kept in the output folder, so the same
call again goes on where it stopped; ``--minutes`` ends a call early. A claim on a difference counts only where it is larger
than the spread of both cells.
"""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from penstock.core.errors import unknown
from penstock_lab.cell_runs import RUNS, Cell, CellRuns, Spread
from penstock_lab.results import ResultsPage

#: Parts that can be run alone; the page keeps those that were run before.
PARTS = ("query", "flows", "paced", "logs")

F = TypeVar("F")


def judge_against_fixed(
    page: ResultsPage,
    kept: CellRuns,
    own: Sequence[Cell],
    policy: str,
    figure: tuple[str, str],
    target: float,
) -> None:
    """The goals of an elastic policy: the target, at most 60 % of the static peak, not behind ``Threshold`` on both counts."""
    name, words = figure
    by, load = {c.way: c for c in own}, own[0].load
    if policy not in by:
        return
    late, cost = (kept.spread(by[policy], f) for f in (name, "worker_seconds"))
    if not late.runs:
        return
    page.claim(
        f"{load}: {policy} meets the target",
        f"{words} at most {target:g} s",
        f"{late} s",
        late.mean <= target,
    )
    most = max((way for way in by if way.partition(" ")[0].isdigit()), default="")
    peak = kept.spread(by[most], "worker_seconds") if most else Spread.of([])
    if peak.runs:
        page.claim(
            f"{load}: {policy} against the static peak ({most})",
            "at most 60 % of its worker-seconds",
            f"{cost.mean / peak.mean:.0%}",
            cost.mean <= 0.6 * peak.mean,
        )
    if "Threshold" in by and kept.of(by["Threshold"]):
        other = [kept.spread(by["Threshold"], f) for f in (name, "worker_seconds")]
        behind = other[0].below(late) and other[1].below(cost)
        page.claim(
            f"{load}: {policy} is not behind Threshold on both counts",
            "delay or worker-seconds no worse, beyond the spread",
            f"{late} s and {cost} against {other[0]} s and {other[1]}",
            not behind,
        )


def watched(run: Any, seen: list[F], spec: Mapping[str, Any]) -> tuple[list[F], float]:
    """What a run that has just started adds to ``seen`` after its warm-up, and the seconds of that; then it is stopped."""
    while not seen and run.is_active:
        time.sleep(0.1)
    time.sleep(spec["warm_up"])
    first, began = len(seen), time.time()
    time.sleep(spec["seconds"])
    last, took = len(seen), time.time() - began
    run.stop()
    return seen[first:last], took


def run(quick: bool, folder: Path, part: str | None = None, minutes: float | None = None) -> ResultsPage:
    """One part, or all; a quick look is at the first alone."""
    from penstock_lab.benches import elastic_flows, elastic_logs, elastic_paced, elastic_query

    parts = {
        "query": elastic_query.add,
        "flows": elastic_flows.add,
        "paced": elastic_paced.add,
        "logs": elastic_logs.add,
    }
    if part is not None and part not in parts:
        raise unknown("part of the elastic benchmark", part, parts)
    kept = CellRuns.beside(folder / "elastic", 1 if quick else RUNS, minutes)
    words = (" --quick" if quick else "") + (f" --part {part}" if part else "")
    page = ResultsPage("Elasticity on live Spark", "penstock bench elastic" + words)
    for name, add in parts.items():
        if part == name or (part is None and (not quick or name == "query")):
            add(page, kept, quick)
    return page
