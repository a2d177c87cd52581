"""``penstock trace`` from the outside."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from penstock.cli import app
from penstock.cli.trace import MODEL_NAMES, SHAPE_FORMS
from penstock.core.errors import PenstockError
from penstock.traffic.spec import MODELS, SHAPES
from penstock.traffic.trace import read_trace

RUN = CliRunner()


def test_the_help_names_every_model_and_shape():
    assert set(MODEL_NAMES) == set(MODELS)
    shapes = {form.partition(":")[0]: form for form in SHAPE_FORMS}
    assert set(shapes) == set(SHAPES)
    for name, (_, numbers) in SHAPES.items():
        assert all(f"{number}=" in shapes[name] for number in numbers)


def _trace(*arguments):
    result = RUN.invoke(app, ["trace", *map(str, arguments)], catch_exceptions=True)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def test_generate_and_describe_the_example_of_the_manual(tmp_path):
    file = tmp_path / "t.parquet"
    made = _trace(
        "generate", "--model", "map2", "--rate", 10000, "--dispersion", 1000, "--seconds", 60, "--seed", 1, "-o", file
    )  # fmt: skip
    assert made.exit_code == 0
    found = json.loads(_trace("describe", file, "--json").stdout)
    assert found["count"] == len(read_trace(file))
    assert found["rate"] == pytest.approx(10_000, rel=0.15)
    assert found["scv"] == pytest.approx(5.0, rel=0.15)
    assert found["dispersion"]["1"] == pytest.approx(918, rel=0.5)
    assert found["verdict"] == "moderate"
    assert found["late_share"] == 0.0


def test_the_same_seed_gives_the_same_file(tmp_path):
    for name in ("a.csv", "b.csv"):
        _trace(
            "generate",
            "--model",
            "self-similar",
            "--dims",
            2,
            "--keys",
            3,
            "--seconds",
            2,
            "--seed",
            5,
            "-o",
            tmp_path / name,
        )
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()


def test_disorder_keys_and_attributes_are_written(tmp_path):
    file = tmp_path / "t.csv.gz"
    _trace(
        "generate",
        "--delay",
        "bursty",
        "--delay-mean",
        0.2,
        "--keys",
        5,
        "--dims",
        2,
        "--seconds",
        5,
        "-o",
        file,
    )
    trace = read_trace(file)
    assert trace.event_time is not None
    assert trace.payload.column_names == ["key", "a0", "a1"]
    found = json.loads(_trace("describe", file, "--json").stdout)
    assert found["late_share"] > 0.1


def test_a_trace_is_replayed_faster(tmp_path):
    _trace("generate", "--rate", 100, "--seconds", 20, "-o", tmp_path / "a.csv")
    _trace("generate", "--replay", tmp_path / "a.csv", "--speed", 4, "--seconds", 5, "-o", tmp_path / "b.csv")
    a, b = read_trace(tmp_path / "a.csv"), read_trace(tmp_path / "b.csv")
    assert b.arrival == pytest.approx(a.arrival / 4.0)


def test_describe_speaks_and_draws(tmp_path):
    _trace("generate", "--seconds", 20, "--delay-mean", 0.1, "-o", tmp_path / "t.parquet")
    shown = _trace("describe", tmp_path / "t.parquet", "--plot", tmp_path / "t.png")
    assert "verdict: no bursts" in shown.stdout
    assert "late tuples" in shown.stdout
    assert (tmp_path / "t.png").stat().st_size > 20_000


@pytest.mark.parametrize(
    "arguments",
    [
        ("generate", "--rate", "-1"),
        ("generate", "--rate", "nan"),
        ("generate", "--model", "map2", "--dispersion", "0.5"),
        ("generate", "--model", "self-similar", "--hurst", "1.2"),
        ("generate", "--model", "maps"),
        ("generate", "--seconds", "0"),
        ("generate", "--seed", "-1"),
        ("generate", "--shape", "step:at=5"),
        ("generate", "--speed", "2"),
        ("generate", "--replay", "nowhere.csv"),
        ("generate", "--rate", "0.000001", "--seconds", "1"),
    ],
)
def test_impossible_parameters_write_nothing(tmp_path, arguments):
    with pytest.raises(PenstockError):
        _trace(*arguments, "-o", tmp_path / "t.parquet")
    assert list(tmp_path.iterdir()) == []


def test_a_mistake_is_one_sentence_and_code_2(tmp_path):
    program = Path(sys.executable).with_name("penstock")
    file = tmp_path / "unsorted.csv"
    file.write_text("arrival\n2\n1\n")
    for arguments in (
        ["trace", "describe", str(file)],
        ["trace", "describe", str(tmp_path / "missing.parquet")],
        ["trace", "generate", "--rate", "-3", "-o", str(tmp_path / "t.csv")],
        ["trace", "generate", "-o", str(tmp_path / "no" / "such" / "folder" / "t.csv")],
    ):
        done = subprocess.run(
            [str(program), *arguments],
            capture_output=True,
            text=True,
            env=os.environ | {"COLUMNS": "400"},
            check=False,
        )
        assert done.returncode == 2
        assert done.stdout == ""
        assert done.stderr.startswith("penstock: ")
        assert len(done.stderr.strip().splitlines()) == 1
