"""``penstock bench autopilot``: Autopilot with one setting on every load, beside the cheapest policy in hindsight.

Seeds of the drawn families are none of those that were looked at while Autopilot's constants were chosen (0 to 9, 101 to 107,
201 to 204: decision 80).
"""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from penstock.core.errors import unknown
from penstock.core.policy import AnyPolicy
from penstock.policies import Autopilot, Static
from penstock.policies.autopilot.candidates import default_candidates
from penstock.policies.catalog import policy_named
from penstock.policies.own_process import OwnProcess
from penstock.policies.surroundings import PlantKind, Surroundings
from penstock.sim.closed_loop import ClosedLoopResult, run_policy
from penstock.sim.plants.micro_batch import SparkCosts, SparkLike
from penstock_lab import families, recorded_traces
from penstock_lab.judging import at_most, every
from penstock_lab.papers.parallel import spread
from penstock_lab.results import ResultsPage, Table

#: One setting for all: mean load in cores, most executors, target in seconds, rows that may be later, start left out.
MEAN_CORES, MOST, TARGET, LATE, START = 2.0, 32, 5.0, 0.05, 300.0
#: Beside the cheapest in hindsight.
GOAL = 1.25
#: Parts that can be run alone: the recorded loads, a draw of every family by its seed, and what the rehearsals take of a core.
RECORDED = "recorded"
CPU = "cpu"
PARTS = (RECORDED, "seed-108", "seed-109", CPU)
#: Seconds between two steps, and the share of a core that rehearsals may take.
PERIOD, SHARE = 5.0, 0.1
#: Names of the catalog that take part in the hindsight, beside Autopilot's own candidates; not Mead, whose fits take minutes a run.
OTHERS = ("Ds2", "Hpa", "Dhalion", "Threshold", "RuleBased", "Spl", "DynamicAllocation", "Mpc")


@dataclass(frozen=True)
class Trial:
    """One load."""

    load: str
    seed: int
    seconds: float | None


QUICK = [Trial(name, 103, 900.0) for name in ("steps", "map2-300")]


@dataclass(frozen=True)
class Compared:
    """Autopilot, the most executors always, and the cheapest policy that keeps the target; (late, core-seconds)."""

    trial: Trial
    autopilot: tuple[float, float]
    changes: int
    peak: tuple[float, float]
    cheapest: str
    cheapest_figures: tuple[float, float]

    @property
    def due(self) -> bool:
        """Whether the most executors keep the target."""
        return self.peak[0] <= LATE

    @property
    def met(self) -> bool:
        """The target where the peak keeps it; elsewhere at most a point more than the peak."""
        return self.autopilot[0] <= (LATE if self.due else self.peak[0] + 0.01)

    @property
    def ratio(self) -> float:
        """Core-seconds over those of the cheapest in hindsight."""
        return self.autopilot[1] / self.cheapest_figures[1]


def run(quick: bool, folder: Path, part: str | None = None) -> ResultsPage:
    """All recorded loads that are here, two draws of every family, and the CPU of rehearsals; or one part of them."""
    if part is not None and part not in PARTS:
        raise unknown("part", part, PARTS)
    given = (" --quick" if quick else "") + (f" --part {part}" if part else "")
    report = ResultsPage("Autopilot", "penstock bench autopilot" + given, quick=quick)
    parts = [name for name in ([part] if part else PARTS) if name != CPU]
    if part == CPU or (part is None and not quick):  # a short run is mostly the start of the process
        thinking(report, Trial("steps", 101, 600.0 if quick else 3600.0))
    if not parts:
        return report
    trials = QUICK if quick else [trial for name in parts for trial in _trials(name)]
    found = spread(compare, trials, least=2)
    _table(report, found)
    if not quick:  # a quarter of an hour is mostly start
        for name in parts:
            _claims(report, name, [c for c in found if c.trial in _trials(name)])
    return report


def _trials(part: str) -> list[Trial]:
    if part == RECORDED:
        return [Trial(n, 0, None) for n in families.RECORDED] if recorded_traces.folder() is not None else []
    return [Trial(name, int(part.rpartition("-")[2]), 3600.0) for name in families.FAMILIES]


def compare(trial: Trial) -> Compared:
    """Autopilot and everybody else on one load."""
    own = simulated(trial, Autopilot(target=TARGET, late=LATE, limits=(1, MOST)))
    peak = simulated(trial, Static(executors=MOST))
    allowed = max(LATE, peak.late)
    others = {p.name: simulated(trial, p) for p in rivals()} | {"Static peak": peak}
    others |= {f"Static {size}": o for size, o in fixed(trial, allowed).items()}
    fit = {n: o for n, o in others.items() if o.late <= allowed}
    cheapest = min(fit, key=lambda n: fit[n].core_seconds)
    return Compared(
        trial,
        (own.late, own.core_seconds),
        own.quality.reconfigurations,
        (peak.late, peak.core_seconds),
        cheapest,
        (fit[cheapest].late, fit[cheapest].core_seconds),
    )


def rivals() -> tuple[AnyPolicy, ...]:
    """Whoever takes part in the hindsight beside the fixed sizes: settings of Ds2, Hpa and Threshold, and the catalog."""
    here = Surroundings(PlantKind.MICRO_BATCHES, (1, MOST), TARGET, 5.0)
    named = [policy_named(name, here) for name in OTHERS]
    return (*(c for c in default_candidates((1, MOST)) if not isinstance(c, Static)), *named)


def fixed(trial: Trial, allowed: float) -> dict[int, ClosedLoopResult]:
    """The smallest fixed size that is late no more than allowed, by halving: more executors are never later."""
    found: dict[int, ClosedLoopResult] = {}
    low, high = 1, MOST
    while low < high:
        size = (low + high) // 2
        found[size] = simulated(trial, Static(executors=size))
        low, high = (low, size) if found[size].late <= allowed else (size + 1, high)
    return found


def simulated(trial: Trial, policy: AnyPolicy) -> ClosedLoopResult:
    """One policy on the simulated query; a fixed size begins where it stands."""
    made = _load(trial.load, trial.seconds, trial.seed)
    cost = MEAN_CORES / made.rate
    work = None if made.work is None else made.work * cost
    begin = policy.executors if isinstance(policy, Static) and policy.executors else 2
    plant = SparkLike(made.arrivals, SparkCosts(row_cost=cost), begin, MOST, 1, work)
    return run_policy(
        plant, policy, PERIOD, made.seconds, target=TARGET, warm_up=min(START, made.seconds / 3)
    )


def thinking(report: ResultsPage, trial: Trial) -> None:
    """What rehearsals take of a core in their own process: CPU seconds a step, with the default candidates, over the period."""
    own = OwnProcess(Autopilot(target=TARGET, late=LATE, limits=(1, MOST)))
    try:
        steps = len(simulated(trial, own).series.time)
        cpu = own.thinker.cpu
    finally:
        own.close()
    share = cpu / (steps * PERIOD)
    report.tables.append(
        Table(
            "What rehearsals take of a core",
            ("seconds of load", "steps", "CPU seconds a step", "of a core"),
            [[steps * PERIOD, steps, cpu / steps, f"{share:.1%}"]],
            f"CPU time of the process of its own, its start included, on {trial.load}, seed {trial.seed}: one step every {PERIOD:g} s, at most {MOST} executors, the default candidates.",
        )
    )  # fmt: skip
    report.claim("Rehearsals run within 10 % of a core", "10 %", f"{share:.1%}", at_most(share, SHARE, ".0%"))


_load = lru_cache(maxsize=1)(families.load)


def _table(report: ResultsPage, found: list[Compared]) -> None:
    rows: list[list[Any]] = []
    for c in found:
        name = c.trial.load if c.trial.load in families.RECORDED else f"{c.trial.load}, seed {c.trial.seed}"
        rows.append([
            name, f"{c.autopilot[0]:.1%}", f"{c.peak[0]:.1%}", "yes" if c.met else "no", c.autopilot[1], c.changes,
            f"{c.cheapest} ({c.cheapest_figures[0]:.1%})", c.ratio, c.autopilot[1] / c.peak[1],
        ])  # fmt: skip
    report.tables.append(
        Table(
            "Autopilot beside the cheapest policy in hindsight",
            (
                "load", "late rows", "late with the most executors", "target kept", "core-seconds", "changes",
                "cheapest that keeps it (its late rows)", "core-seconds over its", "over the peak's",
            ),
            rows,
            f"Simulated query: mean load {MEAN_CORES:g} cores, at most {MOST} executors, target {TARGET:g} s, at most {LATE:.0%} of the rows later, the first five minutes left out, one setting for "
            "all. Kept: at most that share late, or a point more than with the most executors where those do not keep it either. In hindsight: the cheapest of fixed sizes, settings of Ds2, Hpa and "
            f"Threshold, and {', '.join(OTHERS)} by name; not Mead, whose fits take minutes a run.",
        )
    )  # fmt: skip


def _claims(report: ResultsPage, part: str, found: list[Compared]) -> None:
    if not found:
        return
    what, fitted = f"{part} loads" if part == RECORDED else f"drawn loads, {part}", part == RECORDED
    met, near = sum(c.met for c in found), sum(c.met and c.ratio <= GOAL for c in found)
    report.claim(f"The target is kept on all {what}", f"{len(found)}", str(met), every(met, len(found)), fit=fitted)  # fmt: skip
    report.claim(
        f"and with at most {GOAL} times the core-seconds of the cheapest in hindsight, {what}", f"{len(found)}",
        f"{near}; at worst {max(c.ratio for c in found):.2f}", every(near, len(found)), fit=fitted,
    )  # fmt: skip
