"""``penstock papers``: the experiments of the papers in the simulator, published figures and ours side by side."""

import json
import time
from importlib import import_module
from pathlib import Path
from typing import Any

import typer
from rich.console import Console

from penstock.core.errors import PenstockError, unknown
from penstock.core.output_folder import output_folder


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="papers")(papers)


def papers(
    name: str = typer.Argument(
        "all", help="elastic-ppq, elastic-logs, ppq, mead, mpc, joker, policies, or all."
    ),
    scale: float = typer.Option(
        1.0, help="Length of the streams: 1 is the full experiment, 0.1 a quick look."
    ),
    as_json: bool = typer.Option(False, "--json", help="Print the results as JSON."),
    output: Path = typer.Option(
        Path("penstock-runs/papers"), "--output", "-o", help="Folder for pages and plots."
    ),
) -> None:
    """Run the papers' experiments and print paper and ours in the same tables, each claim checked."""
    from penstock_lab.papers import PAPERS
    from penstock_lab.results import announce

    if name != "all" and name not in PAPERS:
        raise unknown("paper", name, [*PAPERS, "all"])
    if not 0 < scale <= 10:
        raise PenstockError(
            f"The scale {scale:g} is impossible; give a number above 0, 1 for the full experiment."
        )
    output_folder(output)
    found: list[dict[str, Any]] = []
    for paper in PAPERS if name == "all" else [name]:
        start = time.perf_counter()
        announce(f"{paper}: {PAPERS[paper][1]}")
        report = import_module(f"penstock_lab.papers.{PAPERS[paper][0]}").run(scale=scale, folder=output)
        report.seconds = time.perf_counter() - start
        (output / f"{paper}.md").write_text(report.as_markdown())
        found.append(report.as_json())
        if not as_json:
            console = Console()
            report.print(console if console.is_terminal else Console(width=140))
    if as_json:
        typer.echo(json.dumps(found if name == "all" else found[0], indent=1))
