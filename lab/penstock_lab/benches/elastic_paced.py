"""An elastic flow under a load that it does not choose: the trading application of the MPC paper, its rate on a random walk.

Replicas of the costly operator are held to a share of a core each by the flow's own control groups (``cpu=``), so that three
of them, the source and the driver fit on two cores.
"""

from penstock_lab.benches.elastic import judge_against_fixed
from penstock_lab.cell_runs import Cell, CellRuns, Figures, run_alone
from penstock_lab.results import ResultsPage, Table

SECONDS, WARM = 60.0, 10.0
#: Required delay of tuples, P95: two triggers.
TARGET = 1.0
FIXED = (1, 2, 3)
POLICIES = ("Mpc", "Threshold")
SHARE, RATE = 0.3, 20_000.0
LOAD = "trading on a random walk"


def cells() -> list[Cell]:
    """Every fixed number of replicas, then the policies."""
    made = [Cell("paced", LOAD, f"{n} fixed", {"replicas": n}) for n in FIXED]
    return made + [Cell("paced", LOAD, name, {"policy": name}) for name in POLICIES]


def add(page: ResultsPage, kept: CellRuns, quick: bool) -> None:
    """Run what is missing and tell all."""
    chosen = [c for c in cells() if c.way == "Mpc"] if quick else cells()

    def measure(cell: Cell, number: int) -> Figures:
        spec = {"app": "trading", "rate": RATE, "share": SHARE, "load": {}, "target": TARGET, "warm_up": WARM}
        spec |= {"seed": 1 + number, **cell.spec}
        spec["seconds"] = 10.0 if quick else SECONDS
        return run_alone("penstock_lab.benches.elastic_paced_run", spec)

    kept.fill(chosen, measure)
    figures = ("delay_p95", "worker_seconds", "changes", "processed")
    page.tables.append(
        Table(
            "A flow that takes what comes",
            ("way", "delay P95 (s)", "replica-seconds", "changes", "quotes/s"),
            [(c.way, *(str(kept.spread(c, f)) for f in figures)) for c in chosen],
            f"{LOAD[0].upper()}{LOAD[1:]}, {RATE:,.0f} quotes/s on average over long times, another walk in each run and the same "
            f"for all ways; {SECONDS:.0f} s after {WARM:.0f} s of warm-up, batches every 0.5 s, mean ± standard deviation of the "
            f"runs. Replicas have {SHARE:g} of a core each. Delay: from the moment the batch before began, when the first tuple of "
            "a batch may have come, to the end of the batch. Policies have their defaults but for the limit of three replicas.",
        )
    )
    judge_against_fixed(page, kept, chosen, "Mpc", ("delay_p95", "delay P95"), TARGET)
