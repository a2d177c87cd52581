"""``penstock bench chaos``: runs are killed in every way, and their output compared with an oracle.

Parts can be run alone (``--part spark-query-jobs``); what a part came to is kept in the output folder, and a bench
without a part runs those that are not there yet. ``--minutes`` limits a part: what it has by then counts, and the same
call again adds to it.
"""

import json
import shutil
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penstock.core.errors import unknown
from penstock.spark.query.pane_stage import GroupedPreference
from penstock.spark.query.window_stage import STRATEGIES
from penstock_lab.benches import chaos_in_process, chaos_spark
from penstock_lab.benches.chaos_cases import Case, cases
from penstock_lab.benches.chaos_in_process import Outcome
from penstock_lab.results import ResultsPage, Table, announce

#: Part -> kills wanted.
WANTED = {
    "in-process-jobs": 700,
    "in-process-resident": 300,
    "spark-query-jobs": 60,
    "spark-query-resident": 60,
    "spark-flow-jobs": 60,
    "spark-flow-resident": 60,
    "spark-executors-jobs": 44,
    "spark-executors-resident": 44,
}
KILLS_A_CASE, SPARK_KILLS_A_CASE, SPARK_BATCHES = 9, 12, 400
#: Kills of a driver, of a worker and of an executor that each engine is to see.
EACH = 40


@dataclass
class Tally:
    """What a part came to so far."""

    kills: Counter[str] = field(default_factory=Counter)
    labels: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    cases: int = 0
    seconds: float = 0.0

    def add(self, outcome: Outcome, seconds: float) -> None:
        """Count one case more."""
        self.kills.update(outcome.kills)
        self.labels[outcome.case.label] += sum(outcome.kills.values())
        self.problems += [f"{outcome.case.label}, seed {outcome.case.seed}: {p}" for p in outcome.problems]
        self.cases += 1
        self.seconds += seconds

    @classmethod
    def read(cls, path: Path) -> "Tally":
        """What was kept."""
        if not path.exists():
            return cls()
        raw: dict[str, Any] = json.loads(path.read_text())
        return cls(
            Counter(raw["kills"]), Counter(raw["labels"]), raw["problems"], raw["cases"], raw["seconds"]
        )


def run(quick: bool, folder: Path, part: str | None = None, minutes: float | None = None) -> ResultsPage:
    """Run one part, or all that are not done, and make the page of all that there is."""
    if part is not None and part not in WANTED:
        raise unknown("part of the chaos", part, WANTED)
    kept = folder / "chaos"
    kept.mkdir(parents=True, exist_ok=True)
    wanted = {name: 9 if quick else kills for name, kills in WANTED.items()}
    chosen = [part] if part else [p for p in WANTED if not quick or p.startswith("in-process")]
    for name in chosen:
        _run_part(name, kept / f"{name}.json", wanted[name], minutes)
    return page_of({name: Tally.read(kept / f"{name}.json") for name in WANTED}, quick)


def _run_part(name: str, path: Path, wanted: int, minutes: float | None) -> None:
    tally = Tally.read(path)
    give_up = time.monotonic() + (1e9 if minutes is None else 60 * minutes)
    engine = "resident" if name.endswith("resident") else "jobs"
    if name.startswith("in-process"):
        GroupedPreference(cases(1, ("jobs",))[0].query().preference).warm()
    while sum(tally.kills.values()) < wanted and time.monotonic() < give_up:
        started = time.monotonic()
        case = _case(name, engine, tally.cases)
        scratch = Path(tempfile.mkdtemp(prefix="penstock-chaos-"))
        left = wanted - sum(tally.kills.values())
        if name.startswith("in-process"):
            outcome = chaos_in_process.run_case(case, scratch / "run", min(KILLS_A_CASE, left))
        else:
            limit = max(give_up - time.monotonic() - 60, 30) if minutes is not None else 1e9
            kills = min(SPARK_KILLS_A_CASE, left)
            outcome = chaos_spark.run_case(case, scratch / "run", kills, limit, cluster="executors" in name)
        tally.add(outcome, time.monotonic() - started)
        path.write_text(json.dumps(vars(tally), indent=1))
        if outcome.problems:
            announce(f"{case.label}: {outcome.problems}; its files are in {scratch}")
        else:
            shutil.rmtree(scratch, ignore_errors=True)
        announce(f"{name}: {sum(tally.kills.values())} of {wanted} kills")


def _case(name: str, engine: str, number: int) -> Case:
    if name.startswith("in-process"):
        return cases(number + 1, (engine,), seed=1 if engine == "jobs" else 2)[number]
    kind = "flow" if "flow" in name or ("executors" in name and number % 2) else "query"
    strategy = STRATEGIES[number % len(STRATEGIES)] if kind == "query" else ""
    return Case(kind, engine, 5000 + number, SPARK_BATCHES, strategy=strategy, gather=number % 2 == 0)


def page_of(tallies: dict[str, Tally], quick: bool = False) -> ResultsPage:
    """Tables and claims; a few kills are no claim about a thousand."""
    page = ResultsPage(
        "Chaos: kills in every way", "penstock bench chaos" + (" --quick" if quick else ""), quick=quick
    )
    kinds = sorted({kind for t in tallies.values() for kind in t.kills})
    page.tables.append(
        Table(
            "Kills",
            ("kind", *tallies),
            [(kind, *(t.kills.get(kind, 0) for t in tallies.values())) for kind in kinds]
            + [("all", *(sum(t.kills.values()) for t in tallies.values()))],
            "In-process: the runtime without Spark, a process for every life. Spark: drivers of real sessions. Workers are "
            "rescaled after every batch (in-process) or at every event (Spark). Between two kills a life does one to a few batches.",
        )
    )
    labels = Counter[str]()
    for tally in tallies.values():
        labels.update(tally.labels)
    page.tables.append(Table("What was killed", ("run", "kills"), sorted(labels.items())))
    page.tables.append(
        Table(
            "Comparisons with the oracle",
            ("part", "runs", "kills", "problems", "seconds"),
            [
                (name, t.cases, sum(t.kills.values()), len(t.problems), round(t.seconds))
                for name, t in tallies.items()
            ],
            "\n".join(p for t in tallies.values() for p in t.problems),
        )
    )
    for name, least in (("in-process", 1000), ("spark", 200)):
        some = [t for part, t in tallies.items() if part.startswith(name)]
        made, wrong = sum(sum(t.kills.values()) for t in some), sum(len(t.problems) for t in some)
        measured = f"{made} kills, {wrong} problems"
        text = f"{name}: no row lost or repeated, no checkpoint refused"
        if quick and made:
            page.claim(text, "0 problems", measured, not wrong)
        page.claim(text, f"0 problems after {least} kills", measured, made >= least and not wrong, full=True)
    for engine in ("jobs", "resident"):
        killed = _processes_killed(
            [t for part, t in tallies.items() if part.startswith("spark") and part.endswith(engine)]
        )
        page.claim(
            f"engine {engine}: drivers, workers and executors killed on Spark",
            f"{EACH} each",
            ", ".join(f"{count} {what}s" for what, count in killed.items()),
            min(killed.values()) >= EACH,
            full=True,
        )
    return page


def _processes_killed(tallies: list[Tally]) -> dict[str, int]:
    """How often each kind of process was killed."""
    kinds = sum((t.kills for t in tallies), Counter[str]())
    others = {"worker": kinds["worker"], "executor": kinds["executor"]}
    driver = sum(
        n for kind, n in kinds.items() if kind == chaos_spark.ANY_INSTANT or kind in chaos_spark.POINTS
    )
    return {"driver": driver, **others}
