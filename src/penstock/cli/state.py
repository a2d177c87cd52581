"""``penstock state``: what a checkpoint holds, and how a flow that changed goes on from it."""

import json
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.table import Table

state_app = typer.Typer(help="Look into the state of a flow.")


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(state_app, name="state")


@state_app.callback(invoke_without_command=True)
def _state(context: typer.Context) -> None:
    """Look into the state of a flow."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@state_app.command(name="inspect")
def inspect(
    checkpoint: Path = typer.Argument(..., help="The checkpoint folder of a flow."),
    groups: bool = typer.Option(False, "--groups", help="List every key group."),
    as_json: bool = typer.Option(False, "--json", help="Print as JSON."),
) -> None:
    """Show the operators, key groups, sizes and versions of a checkpoint; it is only read, also while a flow runs."""
    from penstock.spark.flow.inspection import inspect_checkpoint

    found = inspect_checkpoint(checkpoint)
    if as_json:
        typer.echo(json.dumps(found, indent=1))
    else:
        _print(found, groups, Console())


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
            name,
            f"{figures['keys']:,}",
            f"{figures['rows']:,}",
            str(figures["layers"]),
            f"{figures['bytes'] / 1024:,.0f}",
            f"{figures['largest_group']} ({figures['largest']:,} keys)",
            ", ".join(map(str, figures["batches"])),
        )
    console.print(table)
    if groups:
        for name, figures in found["operators"].items():
            detail = Table(
                "group", "keys", "kB", "layers", "last batch", "replica", title=name, title_justify="left"
            )
            for row in figures["by_group"]:
                detail.add_row(*[str(row[k]) for k in ("group", "keys", "kb", "layers", "batch", "replica")])
            console.print(detail)
