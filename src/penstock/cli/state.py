"""``penstock state``: what a checkpoint holds, and how a flow that changed goes on from it."""

from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

state_app = typer.Typer(help="Look into the state of a flow or a query, or change it.")


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(state_app, name="state")


@state_app.callback(invoke_without_command=True)
def _state(context: typer.Context) -> None:
    """Look into the state of a flow or a query, or change it."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@state_app.command(name="inspect")
def inspect(
    checkpoint: Path = typer.Argument(..., help="The checkpoint folder of a flow or a query."),
    groups: bool = typer.Option(False, "--groups", help="List every key group of a flow."),
    values: str = typer.Option(
        "",
        "--values",
        help="Show what is kept of an operator's keys, or of a query's pane.",
        metavar="OPERATOR|PANE",
    ),
    where: list[str] = typer.Option(
        [], "--where", help="Only keys or rows with this value.", metavar="COLUMN=VALUE"
    ),
    limit: int = typer.Option(20, "--limit", min=1, help="Keys or rows to show."),
    unpickle: bool = typer.Option(
        False,
        "--unpickle",
        help="Show free dictionaries too; reading them can run code that is in the checkpoint.",
    ),
    as_json: bool = typer.Option(False, "--json", help="Print as JSON."),
) -> None:
    """Show what a checkpoint holds: sizes, versions, values. It is only read, also while a run has it."""
    from penstock.spark.flow.inspection import as_text, inspect_flow, latest_of, values_of
    from penstock.spark.query.inspection import inspect_query, values_of_pane

    is_flow = latest_of(checkpoint)[0].get("kind") == "flow"
    if values:
        chosen = dict(text.partition("=")[::2] for text in where)
        rows = (
            values_of(checkpoint, values, chosen, limit, unpickle)
            if is_flow
            else values_of_pane(checkpoint, _pane(values), chosen, limit)
        )
        typer.echo(as_text(rows, indent=1) if as_json else "\n".join(map(as_text, rows)))
        return
    found = inspect_flow(checkpoint) if is_flow else inspect_query(checkpoint)
    if as_json:
        typer.echo(as_text(found, indent=1))
    elif is_flow:
        _print(found, groups, Console())
    else:
        _print_query(found, Console())


def _pane(text: str) -> int:
    from penstock.core.errors import PenstockError

    if not text.removeprefix("-").isdigit():
        raise PenstockError(
            f"--values of a query takes the number of a pane, not '{text}'; inspect lists them."
        )
    return int(text)


def _print_query(found: dict[str, Any], console: Console) -> None:
    workers, totals = found["workers"], found["totals"]
    console.print(
        f"{found['query']}: batch {found['batch']} by version {found['version']}, {workers['panes']} pane workers, "
        f"{workers['windows']} window workers",
        highlight=False,
        markup=False,
    )
    console.print(
        f"  {totals['rows']:,} rows, {totals['late']:,} late, {totals['windows']:,} windows; times up to {found['newest']}, "
        f"windows up to {found['punctuation']}; window state {sum(found['window_files'].values()) / 1024:,.0f} kB",
        highlight=False,
        markup=False,
    )
    table = Table("pane", "start", "end", "open", "parts", "rows")
    for pane in found["panes"]:
        table.add_row(*[str(pane[k]) for k in ("pane", "start", "end", "open", "parts", "rows")])
    console.print(table)


@state_app.command(name="migrate")
def migrate_state(
    checkpoint: Path = typer.Argument(..., help="The checkpoint folder of a flow that does not run."),
    reset: list[str] = typer.Option(
        [], "--reset", help="Forget the state of this operator.", metavar="OPERATOR"
    ),
    rename: list[str] = typer.Option(
        [], "--rename", help="Have the state under another name.", metavar="OLD=NEW"
    ),
) -> None:
    """Change a checkpoint so that a flow that changed can go on from it; say what to forget or to rename."""
    from penstock.core.errors import PenstockError
    from penstock.spark.flow.migrate import migrate

    pairs = dict(text.partition("=")[::2] for text in rename)
    if not reset and not pairs:
        raise PenstockError("Say what to change: --reset OPERATOR or --rename OLD=NEW.")
    if not all(pairs.values()):
        raise PenstockError("--rename takes OLD=NEW, the operator's name in the checkpoint and the new one.")
    for sentence in migrate(checkpoint, reset, pairs):
        typer.echo(sentence)


def _print(found: dict[str, Any], groups: bool, console: Console) -> None:
    console.print(
        f"{found['flow']}: batch {found['batch']}, versions kept {found['versions']}, {found['groups']} key groups",
        highlight=False,
        markup=False,
    )
    for region, plan in found["regions"].items():
        console.print(
            f"  region {region}: {plan['replicas']} replicas, pipelines at {plan['pipelines']}",
            highlight=False,
            markup=False,
        )
    if found["deferred"]:
        console.print(f"  {found['deferred']} parts of batches wait for a later segment")
    table = Table(
        "operator", "keys", "rows in layers", "layers", "files kB", "largest group", "written by batches"
    )
    for name, figures in found["operators"].items():
        table.add_row(
            Text(name),
            f"{figures['keys']:,}",
            f"{figures['rows']:,}",
            str(figures["layers"]),
            f"{figures['bytes'] / 1024:,.0f}",
            f"{figures['largest_group']} ({figures['largest']:,} keys)",
            ", ".join(map(str, figures["batches"])),
        )
    console.print(table)
    if groups:
        columns = ("group", "keys", "kB", "layers", "last batch", "replica")
        for name, figures in found["operators"].items():
            detail = Table(*columns, title=Text(name), title_justify="left")
            for row in figures["by_group"]:
                detail.add_row(*[str(row[k]) for k in ("group", "keys", "kb", "layers", "batch", "replica")])
            console.print(detail)
