"""``penstock bench elastic``: policies on live Spark against fixed numbers of workers, several runs a cell.

Parts can be run alone (``--part query``, ``flows``, ``paced``, ``logs``). Every finished run is kept in the output folder with
its specification, so the same call again goes on where it stopped; ``--minutes`` ends a call early, and ``--minutes 0`` tells
only what is there. Runs of other constants do not count, nor do those of a machine that was more than 1.5 times faster or
slower than it is now (with ``--minutes 0``: than it was at the newest run; for flows always, flow by flow). A quick look keeps nothing.
"""

from collections.abc import Callable
from math import isnan
from pathlib import Path

from penstock_lab.cell_runs import CellRuns, kept_runs, plain_loop
from penstock_lab.part_pages import parts_to_run
from penstock_lab.results import ResultsPage

#: Parts that can be run alone; the page keeps those that were run before.
PARTS = ("query", "flows", "paced", "logs")


def run(quick: bool, folder: Path, part: str | None = None, minutes: float | None = None) -> ResultsPage:
    """One part, or all; a quick look is at the first alone, or at a part, and keeps nothing."""
    parts = parts_to_run(part, PARTS, quick, PARTS)
    words = (" --quick" if quick else "") + (f" --part {part}" if part else "")
    page = ResultsPage("Elasticity on live Spark", "penstock bench elastic" + words)
    with kept_runs(folder / "elastic", quick, minutes) as kept:
        for name in parts:
            if not quick:
                kept.machine = speed_that_counts(kept, minutes, name)
            _parts()[name](page, kept, quick)
    return page


def speed_that_counts(kept: CellRuns, minutes: float | None, part: str) -> float:
    """The machine's speed at present, where runs may be begun; else the one by which the most of the part's runs count."""
    usual = kept.usual_speed(part)
    return plain_loop() if isnan(usual) or minutes is None or minutes > 0 else usual


def _parts() -> dict[str, Callable[[ResultsPage, CellRuns, bool], None]]:
    from penstock_lab.benches import elastic_flows, elastic_logs, elastic_paced, elastic_query

    modules = {"query": elastic_query, "flows": elastic_flows, "paced": elastic_paced, "logs": elastic_logs}
    return {name: modules[name].add for name in PARTS}
