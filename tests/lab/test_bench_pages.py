"""Pages that ``penstock bench`` writes."""

import pytest
from typer.testing import CliRunner

from penstock.cli import app
from penstock_lab.benches import elastic_paced
from penstock_lab.results import ResultsPage


@pytest.fixture
def bench(tmp_path, monkeypatch):
    """Runs a part of a benchmark whose runs took an hour at some time."""

    def add(page: ResultsPage, kept, quick):
        page.seconds += 3_600.0
        page.claim("it runs", "yes", "yes", True)

    monkeypatch.setattr(elastic_paced, "add", add)

    def run(*words):
        result = CliRunner().invoke(app, ["bench", "elastic", "--part", "paced", "-o", str(tmp_path), *words])
        assert result.exit_code == 0, result.output
        return {path.name for path in tmp_path.iterdir() if path.is_file()}

    return run


def test_a_quick_look_leaves_the_page_of_whole_runs_as_it_is(bench, tmp_path):
    assert bench() == {"elastic.md", "elastic.parts.json"}
    before = (tmp_path / "elastic.md").read_text()
    assert bench("--quick") > {"elastic.md", "elastic-quick.md"}
    assert (tmp_path / "elastic.md").read_text() == before
    assert "--quick" not in (tmp_path / "elastic.parts.json").read_text()


def test_a_page_that_is_printed_again_has_the_seconds_of_its_runs(bench, tmp_path):
    bench("--minutes", "0")
    assert "in 3600 s" in (tmp_path / "elastic.md").read_text()
