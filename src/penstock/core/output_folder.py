"""The folder that a command writes its results to."""

from pathlib import Path

from penstock.core.errors import PenstockError


def output_folder(path: Path) -> Path:
    """The folder, made where it is missing; one sentence where it cannot be written to."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise PenstockError(
            f"Cannot write to '{path}' ({error.strerror}); name another folder with --output."
        ) from None
    return path
