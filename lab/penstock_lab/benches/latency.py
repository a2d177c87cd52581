"""``penstock bench latency``: how soon after their end windows are answered, by engine, way in and rate."""

import json
import os
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from math import nan
from pathlib import Path
from typing import Any

from penstock_lab.benches import latency_rescale
from penstock_lab.benches.query_plots import plot_growth
from penstock_lab.part_pages import parts_to_run
from penstock_lab.results import ResultsPage, Table, announce

OWN, FILES = "own source", "Parquet files"
#: A rate counts as held where so much of it was processed while it was measured.
HELD = 0.98
#: Engine jobs falls behind at this rate already, more so at higher ones: these are not run.
MOST_OF_JOBS = 100_000


@dataclass(frozen=True)
class Cell:
    """One run: who works, where rows come from, how many a second, how often a batch starts."""

    engine: str
    way_in: str
    rate: int
    trigger_ms: int
    seconds: float = 15.0
    #: What the JVM has not compiled yet, and what came while the run started, is not what the rate costs.
    warm_up: float = 25.0
    dims: int = 8
    panes: int = 5


def cells(rates: Sequence[int], file_rates: Sequence[int]) -> list[Cell]:
    """All runs: both engines on both ways in."""
    ways = [(OWN, rate, 100) for rate in rates] + [(FILES, rate, 200) for rate in file_rates]
    return [
        Cell(engine, way_in, rate, trigger, **_less(engine))
        for way_in, rate, trigger in ways
        for engine in ("jobs", "resident")
        if engine == "resident" or rate <= MOST_OF_JOBS
    ]


def _less(engine: str) -> dict[str, Any]:
    """Engine jobs holds none of these triggers, and a longer warm-up would only let it fall further behind."""
    return {"warm_up": 10.0} if engine == "jobs" else {}


PARTS = ("engines", "rescale")
#: Both fit into a minute each, with short runs.
QUICK_PARTS = PARTS


def run(quick: bool, folder: Path, part: str | None = None, minutes: float | None = None) -> ResultsPage:
    """Both parts, or one; ``minutes`` is how long workers come and go."""
    chosen = parts_to_run(part, PARTS, quick, QUICK_PARTS)
    page = ResultsPage(
        "How soon windows are answered: resident workers against Spark jobs",
        "penstock bench latency" + (" --quick" if quick else "") + (f" --part {part}" if part else ""),
        quick=quick,
    )
    parts: dict[str, Callable[[], None]] = {
        "engines": partial(_engines, page, quick, folder),
        "rescale": partial(latency_rescale.add, page, minutes or (0.3 if quick else 5.0)),
    }
    for name in chosen:
        page.attempt(name, parts[name])
    return page


def _engines(page: ResultsPage, quick: bool, folder: Path) -> None:
    """Run all cells, one after another, each in a process of its own."""
    chosen = (
        cells((20_000,), ())
        if quick
        else cells((20_000, 100_000, 300_000, 600_000), (20_000, 50_000, 100_000))
    )
    if quick:
        chosen = [replace(cell, seconds=8.0, warm_up=6.0) for cell in chosen]
    results = [measured(cell) for cell in chosen]
    page.tables.append(_table(results))
    if not quick:
        _claims(page, results)
        _growth(page, results, folder / "latency-growth.png")


def measured(cell: Cell) -> dict[str, Any]:
    """One run; rows of the file stream are written by a process beside it."""
    announce(f"{cell.engine}, {cell.way_in}, {cell.rate:,} tuples/s")
    with tempfile.TemporaryDirectory(prefix="penstock-latency-") as scratch:
        spec = asdict(cell) | {"folder": scratch, "mark": uuid.uuid4().hex}
        command = [sys.executable, "-m", "penstock_lab.benches.latency_run", json.dumps(spec)]
        done = subprocess.run(
            command, capture_output=True, text=True, env=os.environ | {"PENSTOCK_BENCH": spec["mark"]}
        )
        if done.returncode:
            raise RuntimeError(f"a run of the benchmark failed:\n{done.stderr[-3000:]}")
        figures: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    announce(
        f"  lag {figures['lag'][0]:.3f} / {figures['lag'][1]:.3f} s, {figures['cpu']:.2f} CPU seconds a second"
    )
    return asdict(cell) | figures


def _table(results: Sequence[dict[str, Any]]) -> Table:
    columns: dict[str, Callable[[dict[str, Any]], Any]] = {
        "way in": lambda r: r["way_in"],
        "tuples/s": lambda r: f"{r['rate']:,}",
        "engine": lambda r: r["engine"],
        "trigger ms": lambda r: r["trigger_ms"],
        "of the rate, %": lambda r: 100 * r["processed"] / r["rate"],
        "batches/s": lambda r: r["batches"],
        "batch ms P50": lambda r: 1e3 * r["batch"][0],
        "P95": lambda r: 1e3 * r["batch"][1],
        "answer lag s P50": lambda r: r["lag"][0],
        "its P95": lambda r: r["lag"][1],
        "fixed ms P50": lambda r: 1e3 * r["fixed"],
        "CPU s a second": lambda r: r["cpu"],
        "CPU us a tuple": lambda r: 1e6 * r["cpu"] / r["processed"] if r["processed"] else nan,
        "CPU ms a batch": lambda r: 1e3 * r["cpu"] / r["batches"] if r["batches"] else nan,
    }
    rows = [[show(result) for show in columns.values()] for result in results]
    note = (
        "Eight attributes, skyline of windows of 1 s by 0.2 s, fixed slack of 0.3 s, two workers. Answer lag: commit of a "
        "window less its end less the slack. CPU: the driver, the JVM and all Python workers, not the writer of the files, "
        "which runs beside. 'Of the rate': rows processed over rows that came; below 98 % the rate is not held and the "
        "lag grows with time; above 100 % a run was catching up. Measured for 15 s after a warm-up of 25 s (10 s with engine jobs). "
        f"Engine jobs is not run above {MOST_OF_JOBS:,} tuples/s."
    )
    return Table("Engines side by side", list(columns), rows, note)


def _growth(page: ResultsPage, results: Sequence[dict[str, Any]], path: Path) -> None:
    """What the rate costs: CPU a tuple and lag, on resident workers with a source of their own."""
    own = [r for r in results if (r["engine"], r["way_in"]) == ("resident", OWN)]
    cpu = [1e6 * r["cpu"] / r["processed"] for r in own]
    page.claim(
        f"CPU a tuple from {own[0]['rate']:,} to {own[-1]['rate']:,} tuples/s",
        "does not grow",
        f"{cpu[0]:.2f} to {cpu[-1]:.2f} microseconds",
        cpu[-1] <= cpu[0],
    )
    lines = {"CPU us a tuple": cpu, "answer lag P50, ms": [1e3 * r["lag"][0] for r in own]}
    plot_growth([r["rate"] for r in own], lines, "tuples/s", path, "microseconds / milliseconds", log=True)
    page.plots.append(path)


def _claims(page: ResultsPage, results: Sequence[dict[str, Any]]) -> None:
    by = {(r["engine"], r["way_in"], r["rate"]): r for r in results}
    top = by["resident", OWN, 600_000]
    share = top["processed"] / top["rate"]
    page.claim(
        "resident workers on a source of their own hold 600,000 tuples/s at a trigger of 100 ms",
        f"at least {HELD:.0%} processed, lag P50 at most 0.2 s, P95 at most 0.3 s",
        f"{share:.1%}, {top['lag'][0]:.2f} s, {top['lag'][1]:.2f} s",
        share >= HELD and top["lag"][0] <= 0.2 and top["lag"][1] <= 0.3,
    )
    files = by["resident", FILES, 50_000]
    share = files["processed"] / files["rate"]
    page.claim(
        "resident workers behind Structured Streaming hold 50,000 tuples/s at a trigger of 200 ms",
        f"at least {HELD:.0%} processed, lag P50 at most 0.35 s",
        f"{share:.1%}, {files['lag'][0]:.2f} s",
        share >= HELD and files["lag"][0] <= 0.35,
    )
    jobs, resident = by["jobs", OWN, 20_000], by["resident", OWN, 20_000]
    per_batch = (resident["cpu"] / resident["batches"]) / (jobs["cpu"] / jobs["batches"])
    page.claim(
        "CPU of a batch at 20,000 tuples/s, against engine jobs at the same trigger",
        "at most a tenth",
        f"{per_batch:.3f} ({resident['cpu'] / resident['batches'] * 1e3:.0f} ms against "
        f"{jobs['cpu'] / jobs['batches'] * 1e3:.0f} ms; engine jobs makes {jobs['batches']:.1f} batches a second instead of "
        f"{resident['batches']:.1f}, and takes {jobs['cpu']:.2f} CPU s a second in all instead of {resident['cpu']:.2f})",
        per_batch <= 0.1,
    )
