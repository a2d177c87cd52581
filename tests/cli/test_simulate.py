import json
import re

import pytest
from typer.testing import CliRunner

from penstock.cli import app
from penstock.core.errors import PenstockError


def run(*arguments):
    return CliRunner().invoke(app, ["simulate", *arguments])


def never(jobs, progress):
    for job in jobs:
        job.policy_object()
    raise AssertionError("it runs")


def test_every_policy_gets_a_row_on_the_same_stream():
    done = run("--seconds", "60", "-p", "Static", "-p", "Threshold", "-p", "Static:executors=2", "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert [r["policy"] for r in found["policies"]] == ["Static", "Threshold", "Static:executors=2"]
    assert all(r["core_seconds"] > 0 for r in found["policies"])


def test_the_table_and_the_plot_are_made(tmp_path):
    done = run("--seconds", "60", "--plot", str(tmp_path / "p.png"), "--trace", "steps:rate=200,factor=3")
    assert done.exit_code == 0, done.output
    assert "Threshold" in done.stdout
    assert (tmp_path / "p.png").stat().st_size > 10_000


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["--plant", "moon"], "moon"),
        (["-p", "Crystal"], "Crystal"),
        (["-p", "Threshold:higher=2"], "higher"),
        (["--trace", "no.csv"], "no.csv"),
        (["--set", "nope=1"], "nope"),
        (["--metric", "beauty"], "beauty"),
        (["--metric", "utilisation", "--target", "0.8"], "not in seconds"),
        (["--seconds", "0"], "A load of 0 seconds"),
        (["--seconds", "4"], "has to last 10 s"),
        (["--seconds", "5"], "has to last 10 s"),
        (["--warm-up", "16"], "has to last 25 s"),
        (["--target", "inf"], "The target must be a number above 0 seconds, not inf"),
    ],
)
def test_mistakes_are_named_in_one_sentence(arguments, word, monkeypatch):
    monkeypatch.setattr("penstock.cli.simulate.run_jobs", never)
    done = run("--seconds", "20", *arguments)
    assert isinstance(done.exception, PenstockError)
    assert word in str(done.exception)


@pytest.mark.parametrize(
    ("option", "place", "reason"),
    [
        ("--plot", "folder", "Is a directory"),
        ("--plot", "file/p.png", "Not a directory|File exists"),
        ("--plot", "p.nonsense", "end its name in .png"),
        ("--html", "folder", "Is a directory"),
        ("--html", "file/p.html", "Not a directory|File exists"),
    ],
)
def test_a_place_that_cannot_be_written_is_refused_before_anything_runs(
    tmp_path, monkeypatch, option, place, reason
):
    monkeypatch.setattr("penstock.cli.simulate.run_jobs", never)
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    done = run("--seconds", "20", "-p", "Static", option, str(tmp_path / place))
    assert isinstance(done.exception, PenstockError)
    assert re.search(reason, str(done.exception))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file", "folder"]


def test_the_folder_of_a_plot_is_made(tmp_path):
    done = run("--seconds", "20", "-p", "Static", "--plot", str(tmp_path / "new" / "p.png"))
    assert done.exit_code == 0, done.output
    assert [p.name for p in (tmp_path / "new").iterdir()] == ["p.png"]


def test_arrivals_by_the_clock_are_a_load_as_they_are(tmp_path):
    file = tmp_path / "t.csv"
    file.write_text("arrival\n" + "".join(f"{1_700_000_000 + i / 50}\n" for i in range(1501)))
    done = run("--trace", str(file), "-p", "Static", "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["seconds"] == pytest.approx(30.0)
