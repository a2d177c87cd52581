"""The ``penstock`` command: one module a subcommand, loaded when it is used."""

import sys
from importlib import import_module

import typer
from rich.console import Console

from penstock import __version__
from penstock.core.errors import PenstockError

app = typer.Typer(
    name="penstock",
    help="Elastic, burst-tolerant stream processing on Apache Spark.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)

#: Each module has a function ``register(app)`` that adds its commands.
COMMANDS = ("autoscale", "bench", "doctor", "papers", "report", "run", "simulate", "state", "trace")


@app.callback(invoke_without_command=True)
def _root(version: bool = typer.Option(False, "--version", help="Print the version and exit.")) -> None:
    if version:
        typer.echo(f"penstock {__version__}")
        raise typer.Exit


for _name in COMMANDS:
    import_module(f"penstock.cli.{_name}").register(app)


def main() -> None:
    """Run the command line; a user's mistake ends with one sentence and code 2."""
    try:
        app()
    except PenstockError as error:
        Console(stderr=True, soft_wrap=True).print(f"penstock: {error}", style="red", markup=False)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
