"""``penstock report``: one page about one run, from its journal."""

import json
from dataclasses import asdict
from pathlib import Path

import typer


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="report")(report)


def report(
    journal: Path = typer.Argument(..., help="The journal of a run, a .jsonl file."),
    html: Path = typer.Option(Path("report.html"), "--html", help="The page to write."),
    target: float | None = typer.Option(
        None, help="The response target in seconds, where the journal has none."
    ),
    as_json: bool = typer.Option(False, "--json", help="Print the figures as JSON."),
) -> None:
    """Write a self-contained page: load and capacity, response against target, every decision with its reason."""
    from penstock.core.journal import read
    from penstock.report.page import static_peak, write_page

    quality = write_page(journal, html, target)
    used, peak = static_peak(read(journal))
    if as_json:
        figures = {k: v if v == v else None for k, v in asdict(quality).items()}
        typer.echo(json.dumps({**figures, "core_seconds": used, "static_peak_core_seconds": peak}, indent=1))
    else:
        typer.echo(
            f"{html}: {quality.observations} observations, {quality.reconfigurations} reconfigurations"
        )
