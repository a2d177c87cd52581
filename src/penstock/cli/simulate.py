"""``penstock simulate``: policies against a load in virtual time, before production is touched."""

from math import inf, isnan
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from penstock.cli.json_text import json_text
from penstock.cli.simulation_jobs import SimulationJob, run_jobs
from penstock.core.errors import PenstockError, unknown
from penstock.core.metrics import Metric

if TYPE_CHECKING:
    from penstock.policies.surroundings import PlantKind

#: Control steps of one simulated run; each is an observation that is kept.
MOST_STEPS = 1_000_000

#: Column titles of the printed table; JSON has the full names.
TITLES = {
    "late": "late",
    "violations": "viol.",
    "mean_response": "mean",
    "p95_response": "P95",
    "core_seconds": "core-s",
    "energy_kj": "kJ",
    "reconfigurations": "reconf.",
    "amplitude": "ampl.",
    "settling_time": "settl.",
    "overshoot": "over",
}


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="simulate")(simulate)


def simulate(
    plant: str = typer.Option(
        "spark", help="What is simulated: spark, operator, preference, network or regions."
    ),
    trace: str = typer.Option(
        "", help="A trace file, a folder of Parquet files, or a generator: map2:rate=1000,dispersion=500."
    ),
    policy: list[str] = typer.Option(
        [],
        "--policy",
        "-p",
        help="A policy, with arguments: Threshold:high=0.8. Repeat it; without any, all that fit the plant.",
    ),
    column: str = typer.Option("arrival", help="The column of arrival times of a trace file."),
    unit: str = typer.Option("s", help="Its unit: s, ms, us or ns."),
    prefer: str = typer.Option(
        "balance",
        help="Where you know no target: latency, balance or cost; also how many tuples may be late.",
    ),
    warm_up: float | None = typer.Option(
        None, help="Seconds at the start that do not count; by default five minutes, a tenth of shorter runs."
    ),
    seconds: float | None = typer.Option(None, help="Virtual seconds; by default the trace's length."),
    period: float | None = typer.Option(None, help="Seconds between two control steps."),
    target: float | None = typer.Option(
        None, help="Target of the metric; policies with a target get it too."
    ),
    metric: str = typer.Option("latency_mean", help="The metric that the target is for, one in seconds."),
    set_: list[str] = typer.Option([], "--set", help="A parameter of the plant: row_cost=0.002. Repeat it."),
    calibrate: Path | None = typer.Option(
        None, help="Journal of a real run to take the spark plant's costs from."
    ),
    seed: int = typer.Option(0, help="Seed of everything random."),
    as_json: bool = typer.Option(False, "--json", help="Print the results as JSON."),
    plot: Path | None = typer.Option(None, help="Draw load, capacity and response into this PNG file."),
    html: Path | None = typer.Option(None, help="Write a page with ranking, advice and plot into this file."),
) -> None:
    """Run policies in closed loop on the same stream in virtual time, and compare them."""
    from penstock.policies.wishes import wish
    from penstock.sim.comparison_page import write_comparison
    from penstock.sim.load import load
    from penstock.sim.plant_catalog import plant_parameters, simulated_plant
    from penstock.sim.plot import check_ending, plot_outcomes
    from penstock.sim.ranking import ranked, recommend

    kind, wanted = simulated_plant(plant), wish(prefer)
    parameters = plant_parameters(kind, set_)
    found: dict[str, Any] = {}
    if calibrate is not None:
        found = _calibrated(plant, calibrate)
        parameters |= {k: v for k, v in found.items() if k in parameters}
        parameters |= plant_parameters(kind, set_) if set_ else {}
    goal = wanted.target * kind.target if target is None else target
    _check_metric(metric)
    if seed < 0:
        raise PenstockError(f"--seed takes a whole number of zero or more, not {seed}.")
    stream = load(trace or kind.trace, seconds, seed, column, unit)
    every = _every(kind.period if period is None else period, stream.seconds)
    left_out = _left_out(warm_up, stream.seconds, every)
    jobs = [
        SimulationJob(
            plant, parameters, stream, seed, spec, goal, every, metric, left_out, wanted.late
        )
        for spec in policy or _catalog(kind.kind)
    ]  # fmt: skip
    if plot is not None:
        check_ending(plot)
        _check_place(plot)
    if html is not None:
        _check_place(html)
    outcomes = run_jobs(jobs, progress=not as_json)
    title = f"{plant}: {stream.name}, {stream.rate:.0f} tuples/s, {stream.seconds:.0f} s"
    if plot is not None:
        plot_outcomes(outcomes, plot, title=title, target=goal, label=metric)
    advice = recommend(outcomes, goal, wanted.late)
    rows = [o.row() for o in (outcomes if policy else ranked(outcomes, wanted.late))]
    if html is not None:
        write_comparison(
            html, outcomes, [[_cell(k, v) for k, v in row.items()] for row in rows], title=title,
            columns=[TITLES.get(c, c) for c in rows[0]], advice=advice.sentence, target=goal, label=metric,
        )  # fmt: skip
    if as_json:
        head = {"plant": plant, "trace": stream.name, "seconds": stream.seconds, "rate": stream.rate}
        head |= {"target": goal, "metric": metric, "parameters": parameters}
        if found:
            head["calibrated"] = found
        warned = {o.policy: list(o.warnings) for o in outcomes if o.warnings}
        answers = {"policies": rows, "recommendation": advice.as_json(), "warnings": warned}
        typer.echo(json_text(head | answers))
        return
    _print(
        _console(),
        rows,
        f"{plant}, {stream.name}: {len(stream.arrivals):,} tuples in {stream.seconds:.0f} s",
        goal,
    )
    for outcome in outcomes:
        for warning in outcome.warnings:
            Console().print(f"{outcome.policy}: {warning}", style="yellow", markup=False, soft_wrap=True)
        if outcome.infeasible:
            Console().print(
                f"{outcome.policy}: {outcome.infeasible} decisions saw no configuration that meets the target.",
                style="yellow", markup=False, soft_wrap=True,
            )  # fmt: skip
    _console().print(f"\n{advice.sentence}", markup=False, highlight=False, soft_wrap=True)
    for what, written in (("plot", plot), ("page", html)):
        if written is not None:
            Console().print(f"{what}: {written}", markup=False)


def _catalog(kind: "PlantKind") -> list[str]:
    """All policies that fit the plant."""
    from penstock.policies.catalog import fitting

    return list(fitting(kind))


def _check_metric(name: str) -> None:
    """Refuse a metric that is unknown or not in seconds: by the target tuples are late, and policies serve in time."""
    known = {m.value: m for m in Metric}
    if name not in known:
        raise unknown("metric", name, known)
    if known[name].unit != "s":
        raise PenstockError(
            f"The metric '{name}' is not in seconds, so no tuple is late by its target; "
            "choose one that is, such as latency_mean or latency_p95."
        )


def _check_place(file: Path) -> None:
    """Make the folder of a result, and refuse a file that cannot be written, before anything runs."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("ab") if file.exists() else TemporaryFile(dir=file.parent):
            pass
    except OSError as error:
        raise PenstockError(f"Cannot write '{file}' ({error.strerror}); name another place.") from None


def _left_out(warm_up: float | None, seconds: float, period: float) -> float:
    """The seconds at the start that do not count, where a control step comes after them."""
    from penstock.sim.closed_loop import counted_from

    if warm_up is not None and not 0 <= warm_up < seconds:
        raise PenstockError(f"A --warm-up of {warm_up:g} seconds is not within the {seconds:g} of the run.")
    start = min(300.0, seconds / 10) if warm_up is None else warm_up
    counted_from(seconds, period, start)
    return start


def _every(period: float, seconds: float) -> float:
    """The period, where a run of so many seconds can have such steps."""
    if 0 < period < inf and seconds / period <= MOST_STEPS:
        return period
    raise PenstockError(
        f"A control step every {period:g} seconds of {seconds:g} is impossible; give a --period above zero, "
        f"with at most {MOST_STEPS:,} steps."
    )


def _calibrated(plant: str, journal: Path) -> dict[str, Any]:
    if plant != "spark":
        raise PenstockError(
            "Only the spark plant is calibrated from a journal; leave out --plant or --calibrate."
        )
    from penstock.sim.calibrate import calibrate

    return calibrate(journal).parameters()


def _console() -> Console:
    """A table that goes into a file or a pipe is not squeezed into the 80 columns of a missing terminal."""
    console = Console()
    return console if console.is_terminal else Console(width=120)


def _print(console: Console, rows: list[dict[str, Any]], title: str, target: float) -> None:
    table = Table(title=Text(f"{title}; target {target:g} s"), title_justify="left")
    for index, column in enumerate(rows[0]):
        table.add_column(TITLES.get(column, column), no_wrap=True, justify="left" if index == 0 else "right")
    for row in rows:
        table.add_row(*(Text(_cell(k, v)) for k, v in row.items()))
    console.print(table)


def _cell(name: str, value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, float) and isnan(value):
        return "-"
    if name == "late":
        return f"{value:.1%}"
    if name in ("violations", "overshoot"):
        return f"{value:.0%}"
    if name in ("mean_response", "p95_response", "settling_time"):
        return f"{value:.3g} s" if value >= 0.1 or not value else f"{1e3 * value:.3g} ms"
    return f"{value:,.0f}" if abs(value) >= 100 or isinstance(value, int) else f"{value:.2f}"
