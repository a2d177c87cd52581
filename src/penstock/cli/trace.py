"""``penstock trace``: generate, describe and fit traces."""

import typer


def register(app: typer.Typer) -> None:
    """Add the commands."""
