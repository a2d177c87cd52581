"""What a policy is held to in ``penstock bench autoscale``: all policies to the same, with the runs that there are."""

from collections.abc import Sequence

from penstock_lab.cell_runs import RUNS, Cell, CellRuns, Spread
from penstock_lab.results import ResultsPage

MOST, REACTIVE, SPARK = "static maximum (4)", "Threshold", "Spark dynamic"
#: The policies, all held to the same goals.
OURS = ("Threshold", "RuleBased", "Spl", "Mead", "Mpc", "Ds2", "Hpa")
#: Share of the core-seconds of the static maximum that a policy may take.
SHARE = 0.6


def judge(report: ResultsPage, kept: CellRuns, cells: Sequence[Cell], target: float) -> None:
    """Claims on every policy under every load, and on the cost of control; nothing where nothing was run."""
    ran = [cell for cell in cells if kept.of(cell)]
    for load in dict.fromkeys(cell.load for cell in ran):
        by = {cell.way: cell for cell in ran if cell.load == load}
        for way in OURS:
            if way in by:
                _goals(report, kept, by, way, target)
                for other in by:
                    if other.startswith(SPARK):
                        _against_spark(report, kept, by, way, other)
    overheads = [run["overhead"] for cell in ran for run in kept.of(cell)]
    if overheads:
        report.claim(
            "Controller overhead",
            "below 3 % of one core",
            f"{max(overheads):.2%} at most",
            max(overheads) < 0.03,
        )


def _goals(report: ResultsPage, kept: CellRuns, by: dict[str, Cell], way: str, target: float) -> None:
    """The target, at most 60 % of the static maximum, not behind ``Threshold`` on both counts."""
    cell = by[way]
    p95 = kept.spread(cell, "p95")
    report.claim(
        f"{cell.load}: {way} meets the target{_few(p95.runs)}",
        f"P95 at most {target:g} s in every run",
        f"{p95} s, at worst {kept.worst(cell, 'p95'):.3g}",
        kept.worst(cell, "p95") <= target,
        full=True,
    )
    share = share_of(kept, cell, by[MOST], "core_seconds") if MOST in by else Spread.of([])
    if share.runs:
        report.claim(
            f"{cell.load}: {way} against the static maximum{_few(share.runs)}",
            f"at most {SHARE:.0%} of its core-seconds",
            f"{share.mean:.0%}",
            share.mean <= SHARE,
            full=True,
        )
    if REACTIVE in by and way != REACTIVE:
        more = [kept.differences(cell, by[REACTIVE], figure) for figure in ("p95", "core_seconds")]
        if more[0].runs < 2:
            return  # one difference has no spread to be beyond
        report.claim(
            f"{cell.load}: {way} is not behind {REACTIVE} on both counts{_few(more[0].runs)}",
            "P95 or core-seconds no worse, run by run, beyond the spread of the differences",
            f"{more[0].mean:+.2f} s ({more[0].verdict}) and {more[1].mean:+.0f} core-seconds ({more[1].verdict})",
            not all(m.above_nothing for m in more),
            full=True,
        )


def share_of(kept: CellRuns, cell: Cell, other: Cell, figure: str) -> Spread:
    """A figure of a cell over that of another, run by run: runs of the same number have the same rows.

    Where the other has fewer runs, the mean of those that it has stands for them.
    """
    theirs = {run["run"]: run[figure] for run in kept.of(other)}
    mean = kept.spread(other, figure).mean
    return Spread.of([run[figure] / theirs.get(run["run"], mean) for run in kept.of(cell)])


def _against_spark(report: ResultsPage, kept: CellRuns, by: dict[str, Cell], way: str, name: str) -> None:
    cell, other = by[way], by[name]
    about = f"{cell.load}: {way} against {name}"
    (late, changes, cores), (their_late, their_changes, their_cores) = (
        [kept.spread(c, figure) for figure in ("violations", "changes", "core_seconds")]
        for c in (cell, other)
    )
    most = kept.spread(by[MOST], "core_seconds").mean if MOST in by else 0.0
    few = _few(min(late.runs, their_late.runs))
    if their_changes.mean == 0 and most and their_cores.mean >= 0.99 * most:
        # It gave nothing back: there are no changes to have a fifth of, and what is left to compare is what it took.
        report.claim(
            f"{about}, which keeps the maximum: core-seconds{few}",
            f"at most {SHARE:.0%} of its, with no more violations",
            f"{cores.mean / their_cores.mean:.0%}, {late} against {their_late} violations",
            cores.mean <= SHARE * their_cores.mean and late.mean <= their_late.mean,
        )
        return
    report.claim(
        f"{about}: violations{few}",
        "fewer (or none at all)",
        f"{late} against {their_late}",
        late.mean < their_late.mean or late.mean == their_late.mean == 0,
    )
    report.claim(
        f"{about}: changes{few}",
        "at most a fifth",
        f"{changes} against {their_changes}",
        changes.mean <= their_changes.mean / 5,
    )


def _few(runs: int) -> str:
    """How many runs a claim rests on, where they are fewer than there should be."""
    return "" if runs >= RUNS else f" ({runs} run{'s' * (runs > 1)})"
