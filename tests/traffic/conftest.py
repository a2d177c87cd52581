"""Where the recorded traces are."""

import os
from pathlib import Path

import pytest


@pytest.fixture
def recorded():
    """The folder of real traces, or a skip that says how to get it."""
    beside = Path(__file__).resolve().parents[3] / "shared" / "data"
    folder = Path(os.environ.get("PENSTOCK_DATA", beside))
    if not folder.is_dir():
        pytest.skip("no recorded traces here; set PENSTOCK_DATA to their folder")
    return folder
