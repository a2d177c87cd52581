"""Elastic log analysis: the CPU share of its matcher by MEAD's models and by a threshold, on bursts that outlast a batch.

The flow runs on resident workers, so that next to nothing of a batch is fixed cost; its control groups (``cpu=``) are what is
turned.
"""

from typing import Any

from penstock.core.errors import PenstockError
from penstock.policies.threshold import CPU_LEVELS
from penstock.spark.actuators import cpu_share
from penstock_lab.benches.elastic_judging import Goal, Judge
from penstock_lab.benches.elastic_paced import run_paced
from penstock_lab.cell_runs import Cell, CellRuns
from penstock_lab.results import ResultsPage, Table

SECONDS, WARM = 90.0, 30.0
STATIC = "static maximum"
#: Way -> the model's name.
MODELS = {"MAP": "map", "M/G/1": "mg1", "Kingman": "gig1"}
#: Four triggers; two leave no room below the static maximum.
GOAL = Goal("delay_mean", "mean response", 2.0, "cpu", "CPU share")
RATE = 1_200
LOAD = "log analysis, MAP(2), I = 2000"


def cells(seconds: float = SECONDS) -> list[Cell]:
    """The static maximum, the threshold of the paper, and every model."""
    spec = {
        "app": "logs",
        "scaled": "matcher",
        "rate": RATE,
        "share": 1.0,
        "seconds": seconds,
        "warm_up": WARM,
    }
    spec |= {"load": {"model": "map2", "dispersion": "2000"}, "seeds": (1, 2, 3)}
    ways: dict[str, dict[str, Any]] = {
        "Threshold": {
            "name": "Threshold",
            "high": 0.7,
            "low": 0.5,
            "knob": "cpu_share",
            "levels": [*CPU_LEVELS],
        }
        | {"where": "matcher/0"}
    }
    for way, model in MODELS.items():
        ways[way] = {"name": "Mead", "model": model, "target": GOAL.target, "interval": 10.0, "least": 500}
    made = [Cell("logs", LOAD, way, {**spec, "policy": policy}) for way, policy in ways.items()]
    return [Cell("logs", LOAD, STATIC, spec), *made]


def add(page: ResultsPage, kept: CellRuns, quick: bool) -> None:
    """Run what is missing and tell all; the machine must let us set CPU quotas."""
    ability = cpu_share.probe()
    if not ability.works:
        raise PenstockError(f"This part needs CPU quotas: {ability.found} {ability.how}")
    chosen = [c for c in cells(10.0) if c.way == "MAP"] if quick else cells()
    kept.fill(chosen, run_paced)
    figures = ("delay_mean", "delay_p95", "cpu", "share_changes", "processed")
    page.tables.append(
        Table(
            f"{LOAD[0].upper()}{LOAD[1:]}",
            ("way", "mean response (s)", "P95 (s)", "CPU share", "changes", "lines/s"),
            [(c.way, *(str(kept.spread(c, f)) for f in figures)) for c in chosen],
            f"{RATE:,} lines/s on average, looked through for 2,007 patterns by one stateful operator; resident workers, batches every "
            f"0.5 s, {SECONDS:.0f} s after {WARM:.0f} s of warm-up, mean ± standard deviation of the runs; a seed of its own for each run, "
            "the same for all ways. The response is from the arrival of a line to the end of its batch: lines are taken in order, and the source "
            "tells how many have come by each commit; what waits when the time is over counts with the age that it has by then. The CPU share is the mean over time. Models "
            f"are required a mean response of {GOAL.target:g} s (a target of 1 s, tried first, left no room below the static maximum), decide "
            f"every 10 s and from 500 arrivals on; the threshold is the paper's. {kept.speed(chosen)}",
        )
    )
    if quick:
        return
    page.seconds += kept.wall(chosen)
    by, judge = {c.way: c for c in chosen}, Judge(page, kept)
    judge.target(by["MAP"], GOAL)
    judge.against_peak(by["MAP"], by[STATIC], GOAL)
    for other in ("Threshold", "M/G/1", "Kingman"):
        judge.not_behind(by["MAP"], by[other], GOAL)
