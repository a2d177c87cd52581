import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from penstock.cli import app
from penstock.core.errors import PenstockError
from penstock.models import fit_map2


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    times = np.cumsum(fit_map2(0.01, dispersion=30.0).sample(8000, np.random.default_rng(0)))
    path = tmp_path / "trace.csv"
    path.write_text("arrival\n" + "\n".join(f"{t:.6f}" for t in times) + "\n")
    return path


def test_the_json_tells_models_errors_and_predictions(trace: Path) -> None:
    result = CliRunner().invoke(app, ["trace", "fit", str(trace), "--best", "2", "--json"])
    assert result.exit_code == 0, result.output
    found = json.loads(result.output)
    assert found["count"] == 7999
    assert found["rate"] == pytest.approx(100.0, rel=0.2)
    assert len(found["models"]) == 2
    assert found["models"][0]["order"] == len(found["models"][0]["D0"])
    assert {"scv", "autocorrelation", "bicovariance", "response"} <= set(found["models"][0]["errors"])
    row = next(r for r in found["response"] if r["utilisation"] == 0.7)
    assert 0.5 < row["map"]["mean"] / row["simulated"]["mean"] < 2.0
    assert row["mg1"]["mean"] < 0.3 * row["simulated"]["mean"]


def test_the_table_and_the_plot_are_made(trace: Path, tmp_path: Path) -> None:
    plot = tmp_path / "fit.png"
    result = CliRunner().invoke(app, ["trace", "fit", str(trace), "--last", "3000", "--plot", str(plot)])
    assert result.exit_code == 0, result.output
    assert "3,000 inter-arrival times" in result.output.replace("\n", " ")
    assert "MAP/PH/1" in result.output
    assert plot.stat().st_size > 10_000


def test_a_short_trace_says_how_long_it_must_be(tmp_path: Path) -> None:
    path = tmp_path / "short.csv"
    path.write_text("arrival\n1.0\n2.0\n")
    result = CliRunner().invoke(app, ["trace", "fit", str(path)])
    assert isinstance(result.exception, PenstockError)
    assert "at least 100" in str(result.exception)


def test_a_place_where_no_plot_can_be_written_is_told(trace: Path) -> None:
    result = CliRunner().invoke(
        app, ["trace", "fit", str(trace), "--last", "500", "--plot", "/nowhere/at/all.png"]
    )
    assert isinstance(result.exception, PenstockError)
