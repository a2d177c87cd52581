"""``penstock report`` and ``penstock watch``: the page of a run, as a file and live."""

from dataclasses import asdict
from pathlib import Path

import typer

from penstock.cli.json_text import json_text


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command(name="report")(report)
    app.command(name="watch")(watch)


def report(
    journal: Path = typer.Argument(..., help="The journal of a run, a .jsonl file."),
    html: Path | None = typer.Option(
        None, "--html", help="The page to write: report.html, or none with --json, unless named."
    ),
    target: float | None = typer.Option(
        None, help="The response target in seconds, where the journal has none."
    ),
    as_json: bool = typer.Option(False, "--json", help="Print the figures as JSON."),
) -> None:
    """Write the page of a run as one file: load, capacity, response against target, every decision with its reason."""
    from penstock.page.document import quality_of, story_of, write_page

    running = (story := story_of(journal, target)).quality
    quality = quality_of(story, journal)
    if html is None and not as_json:
        html = Path("report.html")
    if html is not None:
        write_page(story, journal, html)
    if as_json:
        peak = {"core_seconds": running.core_seconds, "static_peak_core_seconds": running.static_peak}
        typer.echo(json_text({**asdict(quality), **peak}))
    else:
        typer.echo(
            f"{html}: {quality.observations} observations, {quality.reconfigurations} reconfigurations"
        )


def watch(
    journal: Path = typer.Argument(..., help="The journal of a run that is over, or that still goes on."),
    page: str = typer.Option(
        "127.0.0.1:8765", help="Where to serve the page, HOST:PORT; port 0 takes a free one."
    ),
    target: float | None = typer.Option(
        None, help="The response target in seconds, where the journal has none."
    ),
) -> None:
    """Serve the page of a journal and follow it as it grows, until Ctrl-C."""
    import threading

    from penstock.core.errors import PenstockError
    from penstock.core.stores import is_store
    from penstock.page.document import name_of
    from penstock.page.follow import JournalFollower
    from penstock.page.server import PageServer
    from penstock.page.story import Story

    if is_store(journal):
        raise PenstockError("watch follows a file; use penstock report for a journal in an object store.")
    story = Story(name_of(journal), target)
    follower = JournalFollower(journal, story)
    follower.look()
    server = PageServer(page, story)
    follower.start()  # whether the run still goes on is known before anybody asks
    server.start()
    typer.echo(f"{journal} at {server.address} (Ctrl-C ends it)")
    try:
        threading.Event().wait()
    finally:
        follower.close()
        server.close(run_ended=False)
