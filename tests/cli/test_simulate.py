import json

import pytest
from typer.testing import CliRunner

from penstock.cli import app
from penstock.core.errors import PenstockError


def run(*arguments):
    return CliRunner().invoke(app, ["simulate", *arguments])


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
    ],
)
def test_mistakes_are_named_in_one_sentence(arguments, word):
    done = run("--seconds", "20", *arguments)
    assert isinstance(done.exception, PenstockError)
    assert word in str(done.exception)
