"""How ``penstock bench elastic`` judges: three runs of everything that a claim is about, and two ways run by run.

A target is met where every run meets it; shares are judged by the mean of the runs. Of two ways, one is worse than the other
where the mean of their differences, run by run with the same seed, is larger than the spread of these differences, better
where it is smaller than that spread below nothing, and undecided in between.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from penstock_lab.cell_runs import RUNS, Cell, CellRuns
from penstock_lab.results import ResultsPage

#: Most of the static peak's cost that an elastic policy may have.
OF_THE_PEAK = 0.6


@dataclass(frozen=True)
class Goal:
    """What a policy is held to: a figure in seconds with its target, and a figure of cost, both with their words."""

    delay: str
    words: str
    target: float
    cost: str = "worker_seconds"
    cost_words: str = "worker-seconds"


@dataclass(frozen=True)
class Judge:
    """Claims on a page, from the runs that are kept."""

    page: ResultsPage
    kept: CellRuns

    def claim(self, text: str, expected: str, cells: Sequence[Cell], measured: str, holds: bool) -> None:
        """A claim on cells, which does not pass before each of them has all its runs, and is none before any has one."""
        runs = [len(self.kept.of(cell)) for cell in cells]
        if not any(runs):
            return
        if min(runs) < RUNS:
            told = ", ".join(
                f"{n} of {RUNS} runs of {c.way}" for c, n in zip(cells, runs, strict=True) if n < RUNS
            )
            measured, holds = f"{measured if min(runs) else 'nothing to compare'} ({told})", False
        self.page.claim(text, expected, measured, holds)

    def target(self, cell: Cell, goal: Goal) -> None:
        """The target, in every run."""
        late, worst = self.kept.spread(cell, goal.delay), self.kept.worst(cell, goal.delay)
        self.claim(
            f"{cell.load}: {cell.way} meets the target",
            f"{goal.words} at most {goal.target:g} s in every run",
            [cell],
            f"{late} s, at worst {worst:.3g}",
            worst <= goal.target,
        )

    def against_peak(self, cell: Cell, peak: Cell, goal: Goal) -> None:
        """The cost beside that of the static peak."""
        own, most = (self.kept.spread(c, goal.cost) for c in (cell, peak))
        self.claim(
            f"{cell.load}: {cell.way} against the static peak ({peak.way})",
            f"at most {OF_THE_PEAK:.0%} of its {goal.cost_words}",
            [cell, peak],
            f"{own.mean / most.mean:.0%} ({own} against {most})",
            own.mean <= OF_THE_PEAK * most.mean,
        )

    def against_smallest(self, cell: Cell, fixed: Sequence[Cell], goal: Goal) -> None:
        """The cost beside that of the smallest fixed number that meets the target in every run: what an elastic policy must beat."""
        fit = [c for c in fixed if self.kept.of(c) and self.kept.worst(c, goal.delay) <= goal.target]
        if not fit:
            return
        least = min(fit, key=_fixed_number)
        own, others = (self.kept.spread(c, goal.cost) for c in (cell, least))
        self.claim(
            f"{cell.load}: {cell.way} against the fewest that meet the target ({least.way})",
            f"less than its {goal.cost_words}",
            [cell, least],
            f"{own.mean / others.mean:.0%} ({own} against {others})",
            own.mean < others.mean,
        )

    def not_behind(self, cell: Cell, other: Cell, goal: Goal) -> None:
        """One way and another, on both counts, run by run."""
        late, more = (self.kept.differences(cell, other, figure) for figure in (goal.delay, goal.cost))
        self.claim(
            f"{cell.load}: {cell.way} is not behind {other.way} on both counts",
            f"{goal.words} or {goal.cost_words} no worse, beyond the spread of the differences run by run",
            [cell, other],
            f"{goal.words} {late.mean:+.3g} ± {late.deviation:.2g} s ({late.verdict}), {goal.cost_words} {more.mean:+.3g} ± {more.deviation:.2g} ({more.verdict})",
            not (late.above_nothing and more.above_nothing),
        )


def judge_against_fixed(
    page: ResultsPage, kept: CellRuns, own: Sequence[Cell], policy: str, goal: Goal
) -> None:
    """The goals of an elastic policy: the target, at most 60 % of the static peak, not behind ``Threshold`` on both counts, less than the fewest fixed that will do."""
    by, judge = {c.way: c for c in own}, Judge(page, kept)
    judge.target(by[policy], goal)
    judge.against_peak(by[policy], static_peak(own), goal)
    judge.not_behind(by[policy], by["Threshold"], goal)
    judge.against_smallest(by[policy], _fixed(own), goal)


def static_peak(cells: Sequence[Cell]) -> Cell:
    """The cell with the most fixed workers: "3 fixed" of "1 fixed" to "3 fixed"."""
    return max(_fixed(cells), key=_fixed_number)


def _fixed(cells: Sequence[Cell]) -> list[Cell]:
    return [c for c in cells if c.way.removesuffix(" fixed").isdigit()]


def _fixed_number(cell: Cell) -> int:
    return int(cell.way.split()[0])
