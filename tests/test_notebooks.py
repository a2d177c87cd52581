"""The notebooks run from the first cell to the last, and print what a reader is promised."""

import runpy
from pathlib import Path

import pytest

from paths_in_code import in_folder

ROOT = Path(__file__).parent.parent

PROMISED = {
    "best-offers": "trips are beaten by none",
    "choosing-a-policy": "core-seconds",
    "elastic-flow": "(1800, 'the')]",
}


def test_each_notebook_is_tried():
    assert {path.stem for path in (ROOT / "notebooks").glob("*.ipynb")} == set(PROMISED)


@pytest.mark.parametrize("name", PROMISED)
def test_a_notebook_runs(name, spark, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = runpy.run_path(str(ROOT / "scripts" / "run-notebooks"))["run"]
    document = run(ROOT / "notebooks" / f"{name}.ipynb", lambda source: in_folder(source, tmp_path))
    said = "".join(
        "".join(output.get("text", []))
        for cell in document["cells"]
        if cell["cell_type"] == "code"
        for output in cell["outputs"]
    )
    assert PROMISED[name] in said
