"""``penstock autoscale``: run a Spark program as it is, with an autoscaler attached to its queries."""

from pathlib import Path

import typer
from rich.console import Console

from penstock.core.errors import PenstockError


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        name="autoscale", context_settings={"allow_extra_args": True, "allow_interspersed_args": False}
    )(autoscale)


def autoscale(
    context: typer.Context,
    script: Path = typer.Argument(..., help="The program to run; its own arguments follow it."),
    master: str | None = typer.Option(
        None, help="Where the program runs, spark://HOST:PORT, unless it names a master itself."
    ),
    policy: str = typer.Option("threshold", help="Which policy decides; see docs/autoscaling.md."),
    executors: str = typer.Option(
        "1:8", help="Least and most executors, LEAST:MOST, or 'none' to leave them alone."
    ),
    cpu: str = typer.Option(
        "", help="Share of a core per executor (0.5), or levels to choose from (0.4,0.7,1.0)."
    ),
    target: float | None = typer.Option(
        None, help="Seconds within which 95 % of the rows should have their result."
    ),
    prefer: str | None = typer.Option(
        None, help="Where you know no target: latency, balance or cost; also how many rows may be late."
    ),
    target_lag: float | None = typer.Option(None, help="Rows that may wait at the source (Kafka)."),
    period: float = typer.Option(5.0, help="Seconds between two decisions."),
    dry_run: bool = typer.Option(False, "--dry-run", help="Decide and record, change nothing."),
    journal: Path | None = typer.Option(
        None, help="Where to record; by default under penstock-runs/autoscale."
    ),
    metrics: str | None = typer.Option(None, help="Serve Prometheus metrics on HOST:PORT."),
    page: str | None = typer.Option(None, help="Serve the live page on HOST:PORT."),
) -> None:
    """Run a Spark program unchanged and scale the cluster under its streaming queries.

    Options of Penstock come before the program, the program's own arguments after it:
    penstock autoscale --executors 1:4 --target 5 my_stream.py --input events
    """
    from penstock.policies.surroundings import PlantKind
    from penstock.policies.wishes import wished_late, wished_target
    from penstock.spark.attach.script import run_script
    from penstock.spark.attach.settings import Settings, choose

    wished = wished_target(prefer, PlantKind.MICRO_BATCHES)
    settings = Settings(
        _bounds(executors), _shares(cpu), wished if target is None else target, period, dry_run, target_lag,
        late=wished_late(prefer),
    )  # fmt: skip
    chosen = choose(policy, settings)
    console = Console(stderr=True, soft_wrap=True)
    done = run_script(
        script,
        context.args,
        settings,
        chosen,
        master=master,
        say=lambda text: console.print(f"penstock: {text}", style="dim", markup=False, highlight=False),
        journal=journal,
        metrics=metrics,
        page=page,
    )
    if done is None:
        raise PenstockError(f"{script} started no Spark session, so there was nothing to scale.")


def _bounds(text: str) -> tuple[int, int] | None:
    if text == "none":
        return None
    least, _, most = text.partition(":")
    try:
        return int(least), int(most or least)
    except ValueError:
        raise PenstockError(f"'{text}' gives no bounds of executors; write 1:8 or none.") from None


def _shares(text: str) -> float | tuple[float, ...] | None:
    if not text:
        return None
    try:
        levels = tuple(float(part) for part in text.split(","))
    except ValueError:
        raise PenstockError(f"'{text}' gives no CPU shares; write 0.5 or 0.4,0.7,1.0.") from None
    return levels[0] if len(levels) == 1 else levels
