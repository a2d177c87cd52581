"""A benchmark that is run several times, each in a process of its own: one page with the spread of every figure.

A claim passes only where it holds in every run.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from typing import Any

from penstock_lab.cell_runs import Spread
from penstock_lab.results import Claim, ResultsPage, Table, announce


def run_often(runs: int, run: Callable[..., ResultsPage], **given: Any) -> ResultsPage:
    """The page of so many runs; processes of their own keep what one has loaded and compiled from the next."""
    pages = []
    for number in range(runs):
        announce(f"run {number + 1} of {runs}")
        with ProcessPoolExecutor(1, get_context("spawn")) as alone:
            pages.append(alone.submit(run, **given).result())
    return over_runs(pages)


def over_runs(pages: Sequence[ResultsPage]) -> ResultsPage:
    """One page for several runs of the same benchmark; plots are those of the last."""
    last = pages[-1]
    return replace(
        last,
        command=f"{last.command} --runs {len(pages)}",
        tables=[table for number in range(len(last.tables)) for table in _tables(pages, number)],
        claims=_claims(pages),
        seconds=sum(page.seconds for page in pages),
    )


def _tables(pages: Sequence[ResultsPage], number: int) -> list[Table]:
    """The same table of all runs in one; where runs gave rows of other shapes, the tables one after the other."""
    same = [page.tables[number] for page in pages if number < len(page.tables)]
    last = same[-1]
    if any((t.title, len(t.rows)) != (last.title, len(last.rows)) for t in same):
        return [replace(t, title=f"{t.title}, run {run + 1}") for run, t in enumerate(same)]
    rows = [
        [_cell(cells) for cells in zip(*of_runs, strict=True)]
        for of_runs in zip(*(t.rows for t in same), strict=True)
    ]
    return [
        replace(last, rows=rows, note=f"Mean ± standard deviation of {len(same)} runs. {last.note}".strip())
    ]


def _cell(values: Sequence[Any]) -> Any:
    """What all runs agree on; else numbers with their spread, and words one after the other.

    >>> _cell([3, 3, 3]), _cell(["a", "b", "a"]), _cell([1.0, 2.0, 3.0])
    (3, 'a; b; a', '2 ± 1')
    """
    plain = [value.item() if hasattr(value, "item") else value for value in values]
    if all(value == plain[0] for value in plain):
        return plain[0]
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in plain):
        return str(Spread.of([float(value) for value in plain]))
    return "; ".join(map(str, plain))


def _claims(pages: Sequence[ResultsPage]) -> list[Claim]:
    """Claims in the order in which they first came; one that a run did not make is told of with the runs that made it."""
    found: dict[str, list[Claim]] = {}
    for page in pages:
        for claim in page.claims:
            found.setdefault(claim.text, []).append(claim)
    return [_claim(same, len(pages)) for same in found.values()]


def _claim(same: Sequence[Claim], runs: int) -> Claim:
    where = "" if len(same) == runs else f" ({len(same)} of {runs} runs)"
    bounds = "; ".join(dict.fromkeys(claim.judged_by for claim in same))
    return replace(
        same[-1],
        measured="; ".join(claim.measured for claim in same) + where,
        holds=all(claim.holds for claim in same),
        bound=f"{bounds}, in every run" if runs > 1 else bounds,
    )
