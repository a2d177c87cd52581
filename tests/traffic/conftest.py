"""Where the recorded traces are."""

import pytest

from penstock_lab.data import data_folder


@pytest.fixture
def recorded():
    """The folder of real traces, or a skip that says how to get it."""
    folder = data_folder()
    if not folder.is_dir():
        # Recorded data stays out of the repository; generated streams are tested everywhere.
        pytest.skip("no recorded traces here; set PENSTOCK_DATA to their folder")
    return folder
