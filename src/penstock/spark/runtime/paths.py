"""Folders that the driver and all executors share."""

import os
from pathlib import Path

from penstock.core.errors import PenstockError

#: Readers of Spark and Arrow pass over names that begin with an underscore, so what waits is not seen.
STAGING = "_staging"


def local_path(path: str | Path, what: str) -> str:
    """A path on a file system that all workers share and that can rename; object stores are refused."""
    text = str(path)
    if text.startswith("file:"):
        text = "/" + text.removeprefix("file:").lstrip("/")
    if "://" in text:
        raise PenstockError(
            f"The {what} folder '{text}' is not on a mounted file system; name a folder that the driver and all executors can mount."
        )
    return str(Path(text).absolute())


def make_folder(folder: Path, what: str) -> None:
    """Create a folder, or say in one sentence why that cannot be done."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / f".write-{os.getpid()}"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise PenstockError(
            f"Cannot write to the {what} folder '{folder}' ({error.strerror}); name a folder you may write to."
        ) from None
