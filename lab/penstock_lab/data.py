"""Where recorded traces and data sets are, if they are there: they are not part of the repository."""

import os
from pathlib import Path

VARIABLE = "PENSTOCK_DATA"


def data_folder() -> Path:
    """The folder that ``PENSTOCK_DATA`` names, or ``../shared/data`` beside the checkout; it may not exist."""
    named = os.environ.get(VARIABLE)
    return Path(named) if named else Path(__file__).resolve().parents[3] / "shared" / "data"
