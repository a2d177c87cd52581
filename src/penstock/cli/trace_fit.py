"""``penstock trace fit``: models of a trace, and what they predict next to what the trace really does."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.table import Table

from penstock.cli.json_text import json_text
from penstock.core.errors import PenstockError

if TYPE_CHECKING:  # what computes loads with the command, so that penstock --help does not wait for it
    from penstock.models.comparison import LoadComparison
    from penstock.models.fitted import FittedMap

#: Headings that fit a terminal of 80 columns.
_SHORT = {
    "scv": "scv",
    "skewness": "skew",
    "autocorrelation": "acf",
    "bicovariance": "bicov",
    "dispersion": "disp.",
    "response": "resp.",
}
_LOADS = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)


def register(trace_app: typer.Typer) -> None:
    """Add the command to ``penstock trace``."""
    trace_app.command(name="fit")(fit)


def fit(
    file: Path = typer.Argument(..., help="A .parquet, .csv or .csv.gz file."),
    column: str = typer.Option("arrival", help="The column of arrival times."),
    unit: str = typer.Option("s", help="Its unit: s, ms, us or ns."),
    last: int = typer.Option(0, help="Use only so many of the newest arrivals; 0 for all."),
    best: int = typer.Option(5, help="Number of models to return."),
    max_states: int = typer.Option(16, help="Phases a model may have."),
    service_scv: float = typer.Option(0.5, help="Variability of the service times; 0.5 is Erlang-2."),
    seed: int = typer.Option(0, help="The same seed gives the same models."),
    plot: Path | None = typer.Option(None, help="Draw measured and fitted curves into this file."),
    as_json: bool = typer.Option(False, "--json", help="Print the results as JSON."),
) -> None:
    """Fit Markovian arrival processes to a trace and predict response times from them."""
    import numpy as np

    from penstock.models.comparison import compare_loads
    from penstock.models.kpc_fit import fit_kpc
    from penstock.models.phase_type_fit import fit_ph
    from penstock.models.plot import plot_fit
    from penstock.models.trace_statistics import clean_gaps
    from penstock.traffic.trace import read_trace

    if seed < 0:
        raise PenstockError(f"--seed takes a whole number of zero or more, not {seed}.")
    if last < 0:
        raise PenstockError(f"--last takes a number of arrivals of zero or more, not {last}.")
    arrivals = read_trace(file, column, unit, None, payload=False, event_times=False).arrival
    gaps = clean_gaps(np.diff(arrivals[-last - 1 :] if last else arrivals))
    shape = fit_ph(1.0, service_scv)
    begun = time.perf_counter()
    models = fit_kpc(gaps, best, max_states, seed)
    seconds = time.perf_counter() - begun
    rows = compare_loads(gaps, models, _LOADS, shape, seed=seed)
    if plot is not None:
        plot_fit(plot, gaps, models, rows, f"{file.name}   {gaps.size:,} gaps, {1 / gaps.mean():,.5g}/s")
    if as_json:
        typer.echo(json_text(_plain(gaps, models, rows, seconds), None))
    else:
        _print(file, gaps, models, rows, seconds)


def _plain(
    gaps: Any, models: "Sequence[FittedMap]", rows: "Sequence[LoadComparison]", seconds: float
) -> dict[str, Any]:
    return {
        "count": int(gaps.size),
        "rate": float(1.0 / gaps.mean()),
        "seconds": round(seconds, 4),
        "models": [
            {
                "order": m.order, "rate": m.rate, "scv": m.scv, "skewness": m.skewness, "dispersion": m.dispersion,
                "score": m.score, "errors": m.errors, "notes": list(m.notes), "D0": m.D0.tolist(), "D1": m.D1.tolist(),
            }
            for m in models
        ],
        "response": [
            {
                "utilisation": r.utilisation,
                "simulated": {"mean": r.simulated_mean, "p95": r.simulated_p95},
                "mg1": {"mean": r.mg1_mean, "p95": r.mg1_p95},
                "kingman": {"mean": r.kingman_mean},
                "map": {"mean": r.map_mean[0], "p95": r.map_p95[0], "mean_of_all": list(r.map_mean)},
            }
            for r in rows
        ],
    }  # fmt: skip


def _print(
    file: Path, gaps: Any, models: "Sequence[FittedMap]", rows: "Sequence[LoadComparison]", seconds: float
) -> None:
    console = Console()
    console.print(
        f"{file}: {gaps.size:,} inter-arrival times, {1 / gaps.mean():,.5g}/s, fitted in {seconds:.2f} s",
        soft_wrap=True,
        markup=False,
    )
    names = [name for name in models[0].errors if name != "mean"]
    table = Table(
        title="Models, best first, with the error per statistic (the mean is exact)", title_justify="left"
    )
    for heading in ("order", "SCV", "I", *(_SHORT.get(name, name) for name in names)):
        table.add_column(heading, justify="right")
    for m in models:
        table.add_row(
            str(m.order), f"{m.scv:.4g}", f"{m.dispersion:,.4g}", *(f"{m.errors[n]:.3f}" for n in names)
        )
    console.print(table)
    for note in models[0].notes:
        console.print(note, markup=False)
    table = Table(title="Response in seconds, mean (95th percentile); trace: simulated", title_justify="left")
    for heading in ("load", "trace", "MAP/PH/1", "M/G/1", "Kingman"):
        table.add_column(heading, justify="right")
    for r in rows:
        table.add_row(
            f"{r.utilisation:.1f}",
            f"{r.simulated_mean:.3g} ({r.simulated_p95:.3g})",
            f"{r.map_mean[0]:.3g} ({r.map_p95[0]:.3g})",
            f"{r.mg1_mean:.3g} ({r.mg1_p95:.3g})",
            f"{r.kingman_mean:.3g}",
        )
    console.print(table)
