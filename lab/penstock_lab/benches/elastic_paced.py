"""Elastic flows under a load that they do not choose: trading (the MPC paper's) and finance, their rate on a random walk.

Replicas of the costly operator are held to a share of a core each by the flow's own control groups (``cpu=``), so that three
of them, the source and the driver fit on two cores.
"""

from dataclasses import dataclass
from typing import Any

from penstock_lab.benches.elastic_judging import Goal, judge_against_fixed
from penstock_lab.cell_runs import Cell, CellRuns, Figures, run_alone
from penstock_lab.results import ResultsPage, Table

SECONDS, WARM = 40.0, 7.0
#: Required delay of tuples, P95: two triggers.
GOAL = Goal("delay_p95", "delay P95", 1.0, cost_words="replica-seconds")
FIXED = (1, 2, 3)
#: Of the first walks those whose mean rate in the time of a run is between 0.7 and 1.5 times that over long times.
SEEDS = (3, 6, 8)


@dataclass(frozen=True)
class PacedLoad:
    """An application, its operator that is scaled, rows a second over long times, and the share of a core of a replica."""

    app: str
    scaled: str
    rate: int
    share: float

    def policies(self) -> dict[str, dict[str, Any]]:
        """What ``Mpc`` is told is what it is judged by: the 95th percentile, by its model of micro-batches."""
        stage, most = f"{self.scaled}/0", max(FIXED)
        told = {"objective": "latency", "target": GOAL.target, "waiting": "microbatch", "percentile": 0.95}
        return {
            "Mpc": {"name": "Mpc", "workers": [1, most], "stages": [stage], **told},
            "Threshold": {"name": "Threshold", "limits": [1, most], "where": stage},
        }


LOADS = {
    "trading on a random walk": PacedLoad("trading", "algotrader", 20_000, 0.3),
    "finance on a random walk": PacedLoad("finance", "find_bargains", 60_000, 0.15),
}


def cells(seconds: float = SECONDS) -> list[Cell]:
    """Every fixed number of replicas, then the policies."""
    made = []
    for name, load in LOADS.items():
        spec = {"app": load.app, "scaled": load.scaled, "rate": load.rate, "share": load.share, "load": {}}
        spec |= {"seconds": seconds, "warm_up": WARM, "seeds": SEEDS}
        made += [Cell("paced", name, f"{n} fixed", {**spec, "replicas": n}) for n in FIXED]
        made += [Cell("paced", name, way, {**spec, "policy": p}) for way, p in load.policies().items()]
    return made


def add(page: ResultsPage, kept: CellRuns, quick: bool) -> None:
    """Run what is missing and tell all."""
    chosen = [c for c in cells(10.0) if c.way == "Mpc"] if quick else cells()
    kept.fill(chosen, run_paced)
    figures = ("delay_mean", "delay_p95", "worker_seconds", "changes", "processed")
    rates = ", ".join(f"{name} {x.rate:,} rows/s and {x.share:g} of a core" for name, x in LOADS.items())
    page.tables.append(
        Table(
            "Flows that take what comes",
            ("load", "way", "mean delay (s)", "P95 (s)", "replica-seconds", "changes", "rows/s"),
            [(c.load, c.way, *(str(kept.spread(c, f)) for f in figures)) for c in chosen],
            f"Rows on average over long times, and the share that a replica has: {rates}; another walk in each run and the same "
            f"for all ways (seeds 3, 6 and 8: of the first walks those whose mean in the time of a run is between 0.7 and 1.5 times that "
            f"over long times); {SECONDS:.0f} s after {WARM:.0f} s of warm-up, batches every 0.5 s, mean ± standard deviation of the "
            "runs. The delay is from the arrival of a tuple to the end of its batch: tuples are taken in order, and the source tells how "
            "many have come by each commit. What waits when the time is over counts with the age that it has by then. "
            "Policies have their defaults but for the limit of three replicas; `Mpc` is told the target, as the 95th percentile of "
            f"its model of micro-batches. {kept.speed(chosen)}",
        )
    )
    if quick:
        return
    page.seconds += kept.wall(chosen)
    for load in LOADS:
        judge_against_fixed(page, kept, [c for c in chosen if c.load == load], "Mpc", GOAL)


def run_paced(cell: Cell, number: int) -> Figures:
    """One run of a paced flow."""
    return run_alone(
        "penstock_lab.benches.elastic_paced_run", {**cell.spec, "seed": cell.spec["seeds"][number]}
    )
