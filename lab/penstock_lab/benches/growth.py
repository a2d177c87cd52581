"""``penstock bench growth``: how the cost of resident workers grows with workers, overlap, attributes and keys in state."""

import json
import os
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from penstock_lab.benches import growth_run
from penstock_lab.benches.flow_operators import WAIT
from penstock_lab.benches.latency import OWN, Cell, measured
from penstock_lab.benches.query_plots import plot_growth
from penstock_lab.part_pages import parts_to_run
from penstock_lab.results import ResultsPage, Table, announce

#: Tuples a second while overlap and attributes grow: far below what is held, so that lag tells of cost alone.
RATE = 100_000
PANES = (1, 2, 5, 10, 25, 50)
DIMS = (2, 4, 6, 8, 10, 12)
WORKERS = (1, 2, 4, 8, 16)
KEYS = (10_000, 100_000, 1_000_000, 10_000_000)
PARTS = ("workers", "overlap", "attributes", "keys")
#: All fit into a minute each, with two runs.
QUICK_PARTS = PARTS


def run(quick: bool, folder: Path, part: str | None = None) -> ResultsPage:
    """All parts, or one."""
    chosen = parts_to_run(part, PARTS, quick, QUICK_PARTS)
    parts: dict[str, Callable[[ResultsPage, bool, Path], None]] = {
        "workers": _workers,
        "overlap": _overlap,
        "attributes": _attributes,
        "keys": _keys,
    }
    given = (" --quick" if quick else "") + (f" --part {part}" if part else "")
    page = ResultsPage("How cost grows on resident workers", "penstock bench growth" + given, quick=quick)
    for name in chosen:
        page.attempt(name, partial(parts[name], page, quick, folder))
    return page


def _workers(page: ResultsPage, quick: bool, folder: Path) -> None:
    """One operator that waits for each of its rows, by more and more workers."""
    counts: Sequence[int] = WORKERS[:2] if quick else WORKERS
    found = [_own_process({"part": "workers", "workers": n}) for n in counts]
    base = found[0]
    rows: list[tuple[Any, ...]] = [
        (
            n,
            round(seen["rate"]),
            round(seen["rate"] / base["rate"], 2),
            round(1e3 * seen["batch"]),
            round(1e3 * seen["waiting"] / n),
            round(1e3 * (seen["batch"] - seen["waiting"] / n)),
            round(1e3 * seen["cpu"]),
        )
        for n, seen in zip(counts, found, strict=True)
    ]
    note = (
        f"A keyed operator that waits {1e6 * WAIT:g} microseconds a row, as for a service, so that cores "
        f"which this machine lacks are not needed; batches of {growth_run.ROWS:,} rows from files. 'Beyond the waiting' is all else: "
        "Spark's planning and logs, routing, exchange, state, commit. Keys are spread by hash: the fullest worker has somewhat more than its share."
    )
    columns = ("workers", "rows/s", "times one", "batch ms", "of it waiting (even share)", "beyond the waiting", "CPU ms a batch")  # fmt: skip
    page.tables.append(Table("Against the number of workers", columns, rows, note))
    if quick:
        return
    grown = rows[-1][6] / rows[0][6]
    times = counts[-1] / counts[0]
    page.claim(
        f"CPU of a batch from {counts[0]} to {counts[-1]} workers",
        f"at most in proportion: {times:g} times",
        f"{grown:.2f} times",
        grown <= times,
    )
    plot = folder / "growth-workers.png"
    plot_growth(
        counts,
        {"batch": [r[3] for r in rows], "beyond the waiting": [r[5] for r in rows]},
        "workers",
        plot,
        "milliseconds a batch",
    )
    page.plots.append(plot)


def _overlap(page: ResultsPage, quick: bool, folder: Path) -> None:
    """More windows over each row."""
    panes: Sequence[int] = PANES[2:4] if quick else PANES
    found = [measured(Cell("resident", OWN, RATE, 100, **_times(quick), panes=n)) for n in panes]
    rows = _query_table(page, "Against overlap", "panes a window", panes, found)
    _query_plot(page, folder / "growth-overlap.png", "panes a window", panes, rows)
    if quick:
        return
    windows, cpu = panes[-1] / panes[2], found[-1]["cpu"] / found[2]["cpu"]
    page.claim(
        f"CPU from {panes[2]} to {panes[-1]} panes a window, with {windows:g} times as many windows",
        f"at most {windows:g} times",
        f"{cpu:.2f} times",
        cpu <= windows,
    )


def _attributes(page: ResultsPage, quick: bool, folder: Path) -> None:
    """More attributes: larger answers."""
    dims: Sequence[int] = DIMS[2:4] if quick else DIMS
    found = [measured(Cell("resident", OWN, RATE, 100, **_times(quick), dims=d)) for d in dims]
    rows = _query_table(page, "Against the number of attributes", "attributes", dims, found)
    _query_plot(page, folder / "growth-attributes.png", "attributes", dims, rows)
    if quick:
        return
    # Each row is compared with those of the answer, attribute by attribute.
    work = (found[-1]["answer"] * dims[-1]) / (found[0]["answer"] * dims[0])
    cpu = found[-1]["cpu"] / found[0]["cpu"]
    page.claim(
        f"CPU from {dims[0]} to {dims[-1]} attributes, against the comparisons (rows of the answer by attributes)",
        "at most as many times",
        f"{cpu:.2f} times against {work:,.0f} times",
        cpu <= work,
    )


def _times(quick: bool) -> dict[str, Any]:
    return {"seconds": 6.0, "warm_up": 5.0} if quick else {"seconds": 12.0, "warm_up": 8.0}


def _query_table(
    page: ResultsPage, title: str, label: str, at: Sequence[int], found: Sequence[dict[str, Any]]
) -> list[tuple[Any, ...]]:
    rows: list[tuple[Any, ...]] = [
        (
            n,
            f"{seen['processed'] / seen['rate']:.0%}",
            round(seen["answer"], 1),
            round(1e6 * seen["cpu"] / seen["processed"], 2),
            round(seen["lag"][0], 3),
            round(seen["lag"][1], 3),
        )
        for n, seen in zip(at, found, strict=True)
    ]
    columns = (label, "of the rate", "rows an answer", "CPU us a tuple", "answer lag s P50", "P95")
    note = f"{RATE:,} tuples/s from a source of its own, trigger 100 ms, windows of 1 s, slack 0.3 s, two workers, two cores."
    page.tables.append(Table(title, columns, rows, note))
    return rows


def _query_plot(
    page: ResultsPage, path: Path, label: str, at: Sequence[int], rows: Sequence[tuple[Any, ...]]
) -> None:
    plot_growth(
        at,
        {"CPU us a tuple": [r[3] for r in rows], "answer lag P50, ms": [1e3 * r[4] for r in rows]},
        label,
        path,
        "microseconds / milliseconds",
    )
    page.plots.append(path)


def _keys(page: ResultsPage, quick: bool, folder: Path) -> None:
    """A running count and sum by key, with more and more keys in state."""
    sizes: Sequence[int] = KEYS[:2] if quick else KEYS
    found = [_own_process({"part": "keys", "keys": k}) for k in sizes]
    rows: list[tuple[Any, ...]] = [
        (
            f"{k:,}",
            round(seen["load_rate"]),
            round(1e3 * seen["batch"]),
            round(1e3 * seen["longest"]),
            round(1e6 * seen["cpu"] / growth_run.TOUCHED, 2),
            round(seen["bytes"] / 1e6, 1),
            round(seen["bytes"] / k),
            round(seen["restart"], 2),
        )
        for k, seen in zip(sizes, found, strict=True)
    ]
    columns = ("keys in state", "rows/s while they are made", "batch ms P50", "longest", "CPU us a row", "checkpoint MB", "bytes a key", "restart s")  # fmt: skip
    note = (
        f"First every key is made, in batches of {growth_run.LOADED:,} rows; then the flow is started again on its checkpoint, and batches of "
        f"{growth_run.TOUCHED:,} rows with keys drawn evenly are timed. Restart: from start() to the first commit, the batch itself included. "
        "Bytes: the folder of the checkpoint, with the versions that a restart may go back to."
    )
    page.tables.append(Table("Against keys in state", columns, rows, note))
    if quick:
        return
    page.claim(
        f"a batch of the same size with {sizes[-1]:,} keys against {sizes[0]:,}, {sizes[-1] // sizes[0]:,} times the state",
        "grows slower than the state",
        f"{rows[-1][2] / rows[0][2]:.1f} times in the median, {rows[-1][3] / rows[0][3]:.1f} at the longest",
        rows[-1][3] / rows[0][3] < sizes[-1] / sizes[0],
    )
    page.claim(
        f"bytes a key with {sizes[-1]:,} keys against {sizes[1]:,}",
        "do not grow",
        f"{rows[-1][6]} against {rows[1][6]}",
        rows[-1][6] <= rows[1][6],
    )
    plot = folder / "growth-keys.png"
    plot_growth(
        sizes,
        {"batch ms": [r[2] for r in rows], "restart ms": [1e3 * r[7] for r in rows]},
        "keys in state",
        plot,
        "milliseconds",
        log=True,
    )
    page.plots.append(plot)


def _own_process(spec: dict[str, Any]) -> dict[str, Any]:
    """One run in a process of its own."""
    announce(", ".join(f"{name} {value}" for name, value in spec.items()))
    mark = uuid.uuid4().hex
    with tempfile.TemporaryDirectory(prefix="penstock-growth-") as scratch:
        command = [sys.executable, "-m", "penstock_lab.benches.growth_run", json.dumps(spec | {"folder": scratch, "mark": mark})]  # fmt: skip
        done = subprocess.run(
            command, capture_output=True, text=True, env=os.environ | {"PENSTOCK_BENCH": mark}
        )
    if done.returncode:
        raise RuntimeError(f"a run of the benchmark failed:\n{done.stderr[-3000:]}")
    figures: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return figures
