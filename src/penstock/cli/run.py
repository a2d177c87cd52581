"""``penstock run APP``: the applications.

An application is a module ``penstock.apps.NAME`` with::

    HELP: str                                 what it does, in one line
    OPTIONS: Mapping[str, Option]             its own options by name without dashes, with default and help
    def main(seconds: float, options: Mapping[str, str]) -> Summary

``options`` holds every name of OPTIONS, as text (defaults filled in). ``main`` ends after ``seconds`` (0: until the
source is used up or Ctrl-C) and also on KeyboardInterrupt, and gives its summary in each case.
"""

from collections.abc import Mapping, Sequence
from importlib import import_module
from math import inf
from types import ModuleType

import typer
from rich.console import Console

from penstock.apps.summary import Option, Summary
from penstock.cli.ending import end_with
from penstock.cli.json_text import json_text
from penstock.core.errors import PenstockError, unknown

#: The applications, each a module of ``penstock.apps``.
APPS = ("demo", "skyline", "wordcount", "finance", "network", "trading", "logs")

#: Errors of queries that ran: where in the code they come from says more than their first line.
_OF_A_RUN = ("PythonException", "StreamingQueryException")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        name="run",
        context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
        help=f"Run an application: {', '.join(APPS)}. Its own options follow; --options lists them.",
    )(run)


def run(
    context: typer.Context,
    name: str = typer.Argument(..., help="Which application: " + ", ".join(APPS)),
    seconds: float | None = typer.Option(
        None,
        min=0.0,
        help="End after so many seconds (30, or where the input has an end: there); 0: at the input's end or Ctrl-C.",
    ),
    as_json: bool = typer.Option(False, "--json", help="Print the summary as JSON."),
    list_options: bool = typer.Option(
        False, "--options", help="List the application's own options and exit."
    ),
) -> None:
    """Run an application."""
    if name not in APPS:
        raise unknown("application", name, APPS)
    module = import_module(f"penstock.apps.{name}")
    if list_options:
        _tell_options(name, module)
        return
    if seconds is not None and not seconds < inf:
        raise PenstockError(f"--seconds takes a number of seconds, not {seconds}.")
    options = parse(name, module.OPTIONS, context.args)
    if seconds is None:
        from penstock.apps.flow_app import ends

        seconds = 0.0 if ends(options) else 30.0
    try:
        summary: Summary = module.main(seconds, options)
    except Exception as error:
        if (refusal := _refusal(error)) is None:
            raise
        end_with(f"Spark refuses: {refusal}", code=1)
    if as_json:
        typer.echo(json_text(summary.as_json()))
    else:
        summary.print(Console())


def _refusal(error: Exception) -> str | None:
    """The first line of what Spark says of options it cannot work with; None: no such error, its stack is wanted."""
    kind = type(error)
    if kind.__module__.partition(".")[0] not in ("pyspark", "py4j") or kind.__name__ in _OF_A_RUN:
        return None
    java = getattr(error, "java_exception", None)
    said = str(error) if java is None else str(java.getMessage() or java.toString())
    if "stage failure" in said:
        return None
    first = next(filter(None, map(str.strip, said.splitlines())), kind.__name__)
    # What spark-submit said of the reason was kept off the terminal together with its banner.
    exited = "JAVA_GATEWAY_EXITED" in first
    return f"{first} See whether --master is one, and what penstock doctor says of Java." if exited else first


def parse(app: str, known: Mapping[str, Option], words: Sequence[str]) -> dict[str, str]:
    """The application's options from the words that follow, defaults filled in.

    >>> parse("x", {"rate": Option("100", "rows a second")}, ["--rate", "5"])
    {'rate': '5'}
    >>> parse("x", {"rate": Option("100", "rows a second")}, ["--rate=7"])
    {'rate': '7'}
    """
    options = {name: option.default for name, option in known.items()}
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if not word.startswith("--"):
            raise PenstockError(f"'{word}' is not an option of {app}; write --name value, see --options.")
        name, equals, value = word[2:].partition("=")
        if name not in known:
            raise unknown(f"option of {app}", name, known)
        if not equals:
            if not rest:
                raise PenstockError(f"The option --{name} of {app} needs a value; write --{name} VALUE.")
            value = rest.pop(0)
        options[name] = value
        if _is_number(known[name].default) and not _is_number(value):
            raise PenstockError(f"--{name} of {app} takes a number of zero or more, not '{value}'.")
    return options


def _is_number(text: str) -> bool:
    """Whether a text is a number that an application can use."""
    try:
        return 0 <= float(text) <= 1e9
    except ValueError:
        return False


def _tell_options(name: str, module: ModuleType) -> None:
    typer.echo(f"{name}: {module.HELP}")
    for option, described in module.OPTIONS.items():
        typer.echo(f"  --{option:<16}{described.help} (default {described.default or 'none'})")
