"""``penstock --help`` is there at once: what computes is loaded by the command that needs it."""

import subprocess
import sys

import pytest
import typer

from penstock.cli import main
from waiting import PATIENCE

CODE = """
import sys
from penstock.cli import app
app(["--help"], standalone_mode=False)
heavy = {"numpy", "scipy", "numba", "pyarrow", "pyspark", "pandas", "matplotlib", "multiprocessing", "rich.markdown"} & set(sys.modules)
assert not heavy, heavy
"""


def test_the_help_loads_nothing_that_computes():
    done = subprocess.run(
        [sys.executable, "-c", CODE], capture_output=True, text=True, check=False, timeout=PATIENCE
    )
    assert done.returncode == 0, done.stderr
    for command in ("autoscale", "doctor", "report", "run", "simulate", "state", "trace"):
        assert command in done.stdout


@pytest.mark.parametrize(("word", "code"), [("--version", 0), ("--nobody", 2)])
def test_commands_end_in_the_same_way_with_a_typer_that_has_no_public_name_for_its_errors(
    word, code, monkeypatch, capsys
):
    monkeypatch.delattr(typer, "exceptions", raising=False)
    monkeypatch.setattr(sys, "argv", ["penstock", word])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == code
    told = capsys.readouterr().err
    assert told.startswith("penstock: No such option") if code else told == ""
