"""Elastic log analysis: the CPU share of its matcher by MEAD's models and by a threshold, on bursts that outlast a batch.

The flow runs on resident workers, so that next to nothing of a batch is fixed cost; its control groups (``cpu=``) are what is
turned.
"""

from penstock.core.errors import PenstockError
from penstock.spark.actuators import cpu_share
from penstock_lab.cell_runs import Cell, CellRuns, Figures, run_alone
from penstock_lab.results import ResultsPage, Table

SECONDS, WARM = 60.0, 20.0
STATIC, MODELS = "static maximum", ("M/G/1", "Kingman", "MAP")
#: Mean responses, in seconds: two and four triggers.
TARGETS = (1.0, 2.0)
RATE = 1_200.0
LOAD = "MAP(2), I = 2000"


def cells() -> list[Cell]:
    """What knows no target once, every model at every target."""
    made = [Cell("logs", LOAD, STATIC), Cell("logs", LOAD, "Threshold", {"policy": "Threshold"})]
    for target in TARGETS:
        made += [Cell("logs", LOAD, f"{m}, {target:g} s", {"policy": m, "target": target}) for m in MODELS]
    return made


def add(page: ResultsPage, kept: CellRuns, quick: bool) -> None:
    """Run what is missing and tell all; the machine must let us set CPU quotas."""
    ability = cpu_share.probe()
    if not ability.works:
        raise PenstockError(f"This part needs CPU quotas: {ability.found} {ability.how}")
    chosen = cells()[-1:] if quick else cells()

    def measure(cell: Cell, number: int) -> Figures:
        spec = {
            "app": "logs",
            "rate": RATE,
            "share": 1.0,
            "target": TARGETS[0],
            "warm_up": WARM,
            "seed": 1 + number,
        }
        spec |= {
            "load": {"model": "map2", "dispersion": "2000"},
            "seconds": 10.0 if quick else SECONDS,
            **cell.spec,
        }
        return run_alone("penstock_lab.benches.elastic_paced_run", spec)

    kept.fill(chosen, measure)
    figures = ("delay_mean", "delay_p95", "cpu", "share_changes", "processed")
    page.tables.append(
        Table(
            f"Log analysis, {LOAD}",
            (
                "way, and required mean response",
                "mean response (s)",
                "P95 (s)",
                "CPU share",
                "changes",
                "lines/s",
            ),
            [(c.way, *(str(kept.spread(c, f)) for f in figures)) for c in chosen],
            f"{RATE:,.0f} lines/s on average, looked through for 2,007 patterns by one stateful operator; resident workers, batches every "
            f"0.5 s, {SECONDS:.0f} s after {WARM:.0f} s of warm-up, mean ± standard deviation of the runs. A line waits half of the time "
            "since the batch before began, on average, and then for the end of its own. The second target was added when the first had "
            "left no room below the static maximum.",
        )
    )
    by = {c.way: c for c in chosen}
    for target in TARGETS:
        _judge(page, kept, by, target)


def _judge(page: ResultsPage, kept: CellRuns, by: dict[str, Cell], target: float) -> None:
    if f"MAP, {target:g} s" not in by:
        return
    mean, cpu = (kept.spread(by[f"MAP, {target:g} s"], f) for f in ("delay_mean", "cpu"))
    if not mean.runs:
        return
    page.claim(
        f"log analysis: MAP meets {target:g} s", f"at most {target:g} s", f"{mean} s", mean.mean <= target
    )
    if STATIC not in by or not kept.of(by["Threshold"]):
        return
    share = cpu.mean / kept.spread(by[STATIC], "cpu").mean
    page.claim(
        f"log analysis: MAP at {target:g} s against the static maximum",
        "at most 60 % of its CPU",
        f"{share:.0%}",
        share <= 0.6,
    )
    other = [kept.spread(by["Threshold"], f) for f in ("delay_mean", "cpu")]
    page.claim(
        f"log analysis: MAP at {target:g} s is not behind the threshold on both counts",
        "response or CPU no worse, beyond the spread",
        f"{mean} s and {cpu} against {other[0]} s and {other[1]}",
        not (other[0].below(mean) and other[1].below(cpu)),
    )
