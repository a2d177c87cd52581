"""``penstock trace``: generate, describe and fit traces."""

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from penstock.cli.json_text import json_text
from penstock.core.errors import PenstockError

if TYPE_CHECKING:
    from penstock.traffic.description import Description
    from penstock.traffic.replay import Replay

trace_app = typer.Typer(help="Generate, describe and fit traces of arrivals.")

_FILE = typer.Argument(..., help="A .parquet, .csv or .csv.gz file.")
_COLUMN = typer.Option("arrival", help="The column of arrival times.")
_UNIT = typer.Option("s", help="Its unit: s, ms, us or ns.")
# Written out, since importing what defines them would cost every command of penstock a second; a test compares.
MODEL_NAMES = ("poisson", "map2", "self-similar", "self-similar-independent", "random-walk")
SHAPE_FORMS = (
    "step:at=..,factor=..",
    "ramp:start=..,end=..,factor=..",
    "daily:period=..,amplitude=..",
    "flash:at=..,peak=..,rise=..,decay=..",
)
_JSON = typer.Option(False, "--json", help="Print the results as JSON.")


@trace_app.callback(invoke_without_command=True)
def _trace(context: typer.Context) -> None:
    """Generate, describe and fit traces of arrivals."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def register(app: typer.Typer) -> None:
    """Add the commands."""
    trace_app.command(name="generate")(generate)
    trace_app.command(name="describe")(describe_file)
    if find_spec("penstock.cli.trace_fit"):
        import_module("penstock.cli.trace_fit").register(trace_app)
    app.add_typer(trace_app, name="trace")


def generate(
    output: Path = typer.Option(..., "--output", "-o", help="The file to write: .parquet, .csv or .csv.gz."),
    model: str = typer.Option("poisson", help="Arrivals: " + ", ".join(MODEL_NAMES) + "."),
    rate: float = typer.Option(1000.0, help="Mean arrivals per second."),
    dispersion: float = typer.Option(100.0, help="Index of dispersion, 1 or more (map2)."),
    hurst: float = typer.Option(0.8, help="Hurst parameter, 0.5 up to 1 (self-similar)."),
    seconds: float | None = typer.Option(
        None, help="Length of the stream; by default 60 s, of a replayed trace the whole."
    ),
    seed: int = typer.Option(0, help="The same seed gives the same stream."),
    superpose: list[str] = typer.Option(
        [], help="A further stream on top: map2:rate=100,dispersion=50. Repeatable."
    ),
    shape: list[str] = typer.Option(
        [], help="Shape of the rate, repeatable: " + "; ".join(SHAPE_FORMS) + "."
    ),
    replay: Path | None = typer.Option(None, help="Take the arrivals of this trace instead of a model."),
    column: str = typer.Option("arrival", help="The column of arrival times of the trace to replay."),
    unit: str = typer.Option("s", help="Its unit: s, ms, us or ns."),
    speed: float = typer.Option(1.0, help="Replay so many times as fast."),
    loop: bool = typer.Option(False, help="Replay over and over, up to --seconds."),
    dims: int = typer.Option(0, help="Number of attributes a0, a1, ... of a tuple."),
    distribution: str = typer.Option(
        "independent",
        help="independent, correlated, anticorrelated or a correlation; over time 0:independent,10:correlated.",
    ),
    distribution_period: float = typer.Option(
        0.0, help="Seconds after which the changes of distribution start over."
    ),
    keys: int = typer.Option(0, help="Number of keys; 0 for none."),
    zipf: float = typer.Option(1.0, help="Zipf exponent of the keys."),
    key_frequencies: str = typer.Option(
        "", help="Frequencies instead of Zipf: 5,3,2; drifting: 5,3,2>2,3,5."
    ),
    key_drift: float = typer.Option(
        0.0, help="Seconds after which keys change places, or frequencies have drifted."
    ),
    delay: str = typer.Option("uniform", help="Delays: uniform, heavy or bursty."),
    delay_mean: float = typer.Option(0.0, help="Mean delay in seconds; 0 for a stream in order."),
    as_json: bool = _JSON,
) -> None:
    """Generate a stream and write it as a trace."""
    from penstock.traffic.replay import Replay
    from penstock.traffic.spec import StreamSpec
    from penstock.traffic.trace import read_trace, write_trace

    if seconds is not None and not seconds > 0.0:
        raise PenstockError(f"A length of {seconds} seconds is impossible; give a number above zero.")
    process = None
    if replay is not None:
        process = Replay(
            read_trace(replay, column, unit, payload=False, event_times=False).arrival, speed, loop
        )
    elif speed != 1.0 or loop:
        raise PenstockError(
            "The options --speed and --loop belong to --replay; for a model, choose another --rate."
        )
    length = _length(seconds, process)
    spec = StreamSpec(
        model=model, rate=rate, dispersion=dispersion, hurst=hurst, seconds=length, seed=seed,
        superpose=";".join(superpose), shape=";".join(shape), dims=dims, distribution=distribution,
        distribution_period=distribution_period, keys=keys, zipf=zipf, key_frequencies=key_frequencies,
        key_drift=key_drift, delay=delay, delay_mean=delay_mean,
    )  # fmt: skip
    rows = write_trace(output, spec.build(process).batches())
    if as_json:
        typer.echo(
            json_text({"output": str(output), "count": rows, "seconds": length, "rate": rows / length}, None)
        )
    else:
        typer.echo(f"{output}: {rows:,} arrivals, {rows / length:,.1f} a second")


def _length(seconds: float | None, replay: "Replay | None") -> float:
    """The length that was asked for; else that of the trace that is replayed, its last arrival included."""
    if seconds is not None:
        return seconds
    if replay is None:
        return 60.0
    if replay.loop:
        raise PenstockError("A trace that is replayed over and over has no end; give --seconds.")
    last = float(replay.times[-1]) / replay.speed
    return max(last * (1 + 1e-9), 1e-6) if last > 0 else 1.0


def describe_file(
    file: Path = _FILE,
    column: str = _COLUMN,
    unit: str = _UNIT,
    event_column: str | None = typer.Option(None, help="The column of event times, in the same unit."),
    plot: Path | None = typer.Option(None, help="Draw rate, autocorrelation and dispersion into this file."),
    as_json: bool = _JSON,
) -> None:
    """Tell how bursty a trace is, and how late its tuples come."""
    from penstock.traffic import describe
    from penstock.traffic.plot import plot_trace
    from penstock.traffic.trace import read_trace

    trace = read_trace(file, column, unit, event_column, payload=False)
    found = describe(trace)
    if plot is not None:
        plot_trace(plot, trace.arrival, found, file.name)
    if as_json:
        typer.echo(json_text(found.as_json(), None))
    else:
        _print(file, found)


def _print(file: Path, found: "Description") -> None:
    console = Console()
    table = Table(title=Text(str(file)), title_justify="left", show_header=False)
    table.add_column()
    table.add_column(justify="right")
    table.add_row("arrivals", f"{found.count:,} in {found.seconds:,.5g} s")
    table.add_row("rate", f"{found.rate:,.5g} / s")
    table.add_row("SCV of inter-arrival times", f"{found.scv:.4g}")
    table.add_row("autocorrelation, lags 1, 10, 100", _lags(found))
    table.add_row(f"peak to mean, per {found.peak_scale:g} s", f"{found.peak_to_mean:.3g}")
    table.add_row("Hurst parameter", "too short to tell" if found.hurst is None else f"{found.hurst:.2f}")
    for scale, value in found.dispersion.items():
        if f"{scale:e}".startswith("1.0"):
            table.add_row(f"index of dispersion per {scale:g} s", f"{value:,.4g}")
    if found.limit:
        word = "its limit, read from" if found.limit.settled else "no limit read, still rising at"
        table.add_row(f"  {word} {found.limit.scale:g} s", f"{found.limit.value:,.4g}")
    if found.batching:
        batches = f"{found.batching.share:.0%} share their time, every {found.batching.period:.3g} s"
        table.add_row("batches rather than arrivals", batches)
    if found.lateness:
        late = found.lateness
        table.add_row("late tuples", f"{late.share:.1%}")
        table.add_row(
            "lateness, mean / 99 % / most", f"{late.mean:.3g} / {late.p99:.3g} / {late.largest:.3g} s"
        )
    console.print(table)
    console.print(f"verdict: [bold]{found.verdict}[/bold]")


def _lags(found: "Description") -> str:
    values = found.autocorrelation
    return " / ".join(f"{values[lag - 1]:.3f}" for lag in (1, 10, 100) if lag <= len(values))
