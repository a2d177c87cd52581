"""Elastic log analysis: CPU shares of operators by MEAD's models and by a threshold, on bursts that outlast a batch."""

import shutil
import tempfile
from dataclasses import asdict
from pathlib import Path

from penstock.core.errors import PenstockError
from penstock.spark.actuators import cpu_share
from penstock.spark.cluster import LocalCluster
from penstock_lab.benches import mead
from penstock_lab.benches.elastic import Cell, CellRuns, Figures
from penstock_lab.results import ResultsPage, Table

WAYS = ("static", "threshold", "mg1", "gig1", "map")
TARGET = 3.0


def add(page: ResultsPage, kept: CellRuns, quick: bool) -> None:
    """Run what is missing and tell all; the machine must let us set CPU quotas."""
    ability = cpu_share.probe()
    if not ability.works:
        raise PenstockError(f"This part needs CPU quotas: {ability.found} {ability.how}")
    cells = [Cell("logs", mead.LONG, mead.NAMES[way], {"way": way}) for way in WAYS]
    chosen = cells[-1:] if quick else cells
    if any(len(kept.of(c)) < kept.runs for c in chosen):
        _fill(kept, chosen, quick)
    figures = ("mean", "p95", "cpu", "changes")
    rows = [(c.way, *(str(kept.spread(c, f)) for f in figures)) for c in chosen]
    page.tables.append(
        Table(
            f"Log analysis, {mead.LONG}, target {TARGET:g} s on average",
            ("way", "mean response (s)", "P95 (s)", "CPU share", "changes"),
            rows,
            "Three operators in control groups on one worker; mean ± standard deviation of the runs.",
        )
    )
    by = {c.spec["way"]: c for c in chosen}
    ours = by["map"]
    mean, cpu = kept.spread(ours, "mean"), kept.spread(ours, "cpu")
    page.claim(
        "log analysis: MAP meets the target", f"at most {TARGET:g} s", f"{mean} s", mean.mean <= TARGET
    )
    if "static" in by:
        peak = kept.spread(by["static"], "cpu")
        share = cpu.mean / peak.mean
        page.claim(
            "log analysis: MAP against the static maximum",
            "at most 60 % of its CPU",
            f"{share:.0%}",
            share <= 0.6,
        )
        other = [kept.spread(by["threshold"], f) for f in ("mean", "cpu")]
        behind = other[0].below(mean) and other[1].below(cpu)
        page.claim(
            "log analysis: MAP is not behind the threshold on both counts",
            "response or CPU no worse, beyond the spread",
            f"{mean} s and {cpu} against {other[0]} s and {other[1]}",
            not behind,
        )


def _fill(kept: CellRuns, cells: list[Cell], quick: bool) -> None:
    work = Path(tempfile.mkdtemp(prefix="penstock-elastic-"))
    try:
        (work / "lines.txt").write_text("\n".join(mead._lines()))
        arrivals = mead._arrivals(mead.LONG, mead.WARM + (25.0 if quick else 60.0))
        with LocalCluster(workers=1, cores=1, memory="1g") as cluster:

            def measure(cell: Cell, number: int) -> Figures:
                place = work / f"{cell.spec['way']}-{number}"
                place.mkdir()
                (place / "lines.txt").symlink_to(work / "lines.txt")
                done = mead._measure(cluster.master, mead.LONG, cell.spec["way"], TARGET, place, arrivals)
                return {k: float(v) for k, v in asdict(done).items() if isinstance(v, int | float)}

            kept.fill(cells, measure)
    finally:
        shutil.rmtree(work, ignore_errors=True)
