"""The ``penstock`` command: one module a subcommand, loaded when it is used."""

import sys
from importlib import import_module
from importlib.metadata import entry_points

import typer

from penstock import __version__
from penstock.cli.ending import end_with
from penstock.core.errors import PenstockError

app = typer.Typer(
    name="penstock",
    help="Elastic, burst-tolerant stream processing on Apache Spark.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help: loading what draws boxes around it takes as long as all the rest
)

#: Each module has a function ``register(app)`` that adds its commands.
COMMANDS = ("autoscale", "doctor", "report", "run", "simulate", "state", "trace")

#: Commands of the package ``penstock-lab``, which come through an entry point where it is installed.
LAB_COMMANDS = ("bench", "papers")


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    version: bool = typer.Option(False, "--version", help="Print the version and exit."),
) -> None:
    if version:
        typer.echo(f"penstock {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def _absent(name: str) -> None:
    @app.command(name=name, context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
    def absent() -> None:
        """Experiments around Penstock; not part of this installation."""
        raise PenstockError(
            f"penstock {name} is part of penstock-lab, which is not installed: clone the repository and run make setup."
        )


for _name in COMMANDS:
    import_module(f"penstock.cli.{_name}").register(app)
_added = {point.name: point for point in entry_points(group="penstock.commands")}
for _point in _added.values():
    _point.load()(app)
for _name in LAB_COMMANDS:
    if _name not in _added:
        _absent(_name)


def main() -> None:
    """Run the command line; a user's mistake ends with one sentence and code 2."""
    try:
        sys.exit(app(standalone_mode=False))
    except PenstockError as error:
        end_with(str(error))
    except (KeyboardInterrupt, typer.Abort):
        sys.exit(130)
    except Exception as error:
        # Of what typer says of words that it does not take, the class has another name before 0.26 and before 0.27.2.
        if not hasattr(error, "format_message"):
            raise
        end_with(error.format_message())
