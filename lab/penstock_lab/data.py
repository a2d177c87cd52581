"""Where recorded traces and data sets are, if they are there: they are not part of the repository."""

import os
from pathlib import Path

VARIABLE = "PENSTOCK_DATA"


def data_folder() -> Path:
    """The folder that ``PENSTOCK_DATA`` names, or ``../shared/data`` beside the checkout; it may not exist."""
    named = os.environ.get(VARIABLE)
    return Path(named) if named else Path(__file__).resolve().parents[3] / "shared" / "data"


def data_file(name: str) -> Path | None:
    """A file of the data folder, or None where it is not there."""
    path = data_folder() / name
    return path if path.exists() else None
