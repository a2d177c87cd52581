"""Runs of a benchmark's cells of which one may fail: the others are made all the same, and the page tells of it."""

import time
from collections.abc import Callable, Sequence

from penstock.core.errors import PenstockError
from penstock_lab.cell_runs import Cell, CellRuns, Figures
from penstock_lab.results import ResultsPage, announce


def missing(kept: CellRuns, cells: Sequence[Cell]) -> bool:
    """Whether a cell has fewer runs than it should have, and there is time for more."""
    return time.monotonic() <= kept.until and any(len(kept.of(cell)) < kept.runs for cell in cells)


def attempt_all(
    report: ResultsPage, kept: CellRuns, cells: Sequence[Cell], measure: Callable[[Cell, int], Figures]
) -> None:
    """Run what is missing, a run of every cell in turn; a run that fails is tried again with the next one of its cell.

    A cell that has a run too few at the end because of that is a claim that differs.
    """
    failed: dict[str, str] = {}
    for number in range(kept.runs):
        for cell in cells:
            try:
                kept.fill([cell], measure, number + 1)
            except (PenstockError, RuntimeError) as error:
                announce(f"{cell.load}, {cell.way}: {error}")
                failed[cell.name] = str(error).strip().splitlines()[-1]
    for cell in cells:
        if cell.name in failed and len(kept.of(cell)) < kept.runs:
            report.claim(
                f"{cell.part}, {cell.load}: every run of {cell.way} comes to its end",
                f"{kept.runs} of {kept.runs}",
                f"{len(kept.of(cell))}; {failed[cell.name]}",
                False,
            )
