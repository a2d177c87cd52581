"""The code of README and tutorial runs: Python blocks one after another, calls of ``penstock simulate`` as they stand."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from paths_in_code import in_folder
from penstock.cli import app
from waiting import until

ROOT = Path(__file__).parent.parent
PAGES = ("README.md", "docs/tutorial.md")


def blocks(page, language):
    """The blocks of a page; those that need a broker are tried by the tests of Kafka."""
    found = re.findall(rf"^```{language}\n(.*?)^```", (ROOT / page).read_text(), re.MULTILINE | re.DOTALL)
    return [block for block in found if "kafka.bootstrap.servers" not in block]


def more_offers(folder, at):
    """Two more seconds of offers."""
    folder.mkdir(exist_ok=True)
    rng = np.random.default_rng(1)
    begin = 1_700_000_000_000_000 + at * 2_000_000
    times = pa.array((np.arange(2_000) * 1_000 + begin).tolist(), pa.timestamp("us", "UTC"))
    columns = {
        "event_time": times,
        "price": rng.random(2_000),
        "rating": rng.integers(1, 6, 2_000).astype(float),
    }
    pq.write_table(pa.table(columns), folder / f"{at}.parquet")


@pytest.mark.parametrize("page", PAGES)
def test_the_python_blocks_of_a_page_run(page, spark, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    said = {"__name__": "a page"}
    try:
        for at, block in enumerate(blocks(page, "python")):
            more_offers(tmp_path / "offers", at)
            exec(compile(in_folder(block, tmp_path), page, "exec"), said)
            for run in filter(_active, _runs(said)):
                until(
                    lambda run=run: run.progress, f"a look at {run}", unless=lambda run=run: not _active(run)
                )
                run.stop()  # the next block has all slots of the session
    finally:
        for run in _runs(said):
            if _active(run):
                run.stop()
        for query in spark.streams.active:
            query.stop()
    assert any("window_start" in pq.read_schema(f).names for f in (tmp_path / "results").rglob("*.parquet"))


def _active(run):
    return run.is_active if hasattr(run, "is_active") else run.active


def _runs(said):
    return [v for v in said.values() if hasattr(v, "page_address")]


@pytest.mark.parametrize("page", PAGES)
def test_the_simulations_of_a_page_run(page):
    calls = [
        line
        for block in blocks(page, "sh")
        for line in block.splitlines()
        if line.startswith("penstock simulate")
    ]
    assert calls
    for call in calls:
        result = CliRunner().invoke(app, shlex.split(call)[1:])
        assert result.exit_code == 0, result.output


def test_the_reference_is_made_from_the_code(tmp_path):
    subprocess.run([sys.executable, str(ROOT / "scripts" / "make-reference"), str(tmp_path)], check=True)
    commands, names = (tmp_path / "commands.md").read_text(), (tmp_path / "python.md").read_text()
    assert "## `penstock watch`" in commands
    assert "## `penstock run demo`" in commands
    assert "`--page`" in commands
    assert "### `PreferenceQuery`" in names
    assert "#### `PreferenceQuery.start`" in names
