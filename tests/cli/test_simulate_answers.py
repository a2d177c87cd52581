"""``penstock simulate`` answers: any trace, the whole catalog, a ranking, one sentence."""

import gzip
import json
import re
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from penstock.cli import app
from penstock.cli.simulation_jobs import SimulationJob, run_jobs
from penstock.core.errors import PenstockError
from penstock.sim.load import load
from penstock.sim.plant_catalog import simulated_plant

TIMES = np.cumsum(np.random.default_rng(1).exponential(1 / 50.0, 3000))


def run(*arguments):
    return CliRunner().invoke(app, [*map(str, arguments)])


def written(path):
    """The same arrivals in milliseconds since some moment, as Parquet, CSV or gzip."""
    stamps = np.rint(1e3 * (TIMES + 1_700_000_000)).astype(np.int64)
    text = "n,stamp\n" + "".join(f"{i},{s}\n" for i, s in enumerate(stamps))
    if path.suffix == ".parquet":
        pq.write_table(pa.table({"stamp": stamps, "n": np.arange(len(stamps))}), path)
    elif path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text)
    return path


@pytest.mark.parametrize("name", ["t.parquet", "t.csv", "t.csv.gz"])
def test_any_trace_by_column_and_unit(tmp_path, name):
    file = written(tmp_path / name)
    done = run("simulate", "--trace", file, "--column", "stamp", "--unit", "ms", "-p", "Static", "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["seconds"] == pytest.approx(TIMES[-1] - TIMES[0], abs=0.01)


def test_a_column_that_is_missing_is_told_with_the_options_that_exist(tmp_path):
    done = run("simulate", "--trace", written(tmp_path / "t.csv"))
    assert isinstance(done.exception, PenstockError)
    assert "--column" in str(done.exception)


def test_alone_it_compares_the_catalog_and_recommends():
    done = run("simulate", "--trace", "poisson:rate=300", "--seconds", "200", "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    names = [p["policy"] for p in found["policies"]]
    assert {"Static", "Threshold", "Ds2", "Hpa", "Dhalion", "Mead", "Autopilot"} <= set(names)
    advice = found["recommendation"]
    assert advice["policy"] == names[0]
    met = [p for p in found["policies"] if p["late"] <= 0.05]
    assert advice["core_seconds"] == min(p["core_seconds"] for p in met)
    assert advice["meets"] is True
    assert advice["policy"] in advice["sentence"]


def test_a_page_has_the_advice_the_figures_and_the_picture(tmp_path):
    page = tmp_path / "new" / "compare.html"
    done = run(
        "simulate",
        "--trace",
        "poisson:rate=300",
        "--seconds",
        "60",
        "-p",
        "Ds2",
        "-p",
        "Static",
        "--html",
        page,
    )
    assert done.exit_code == 0, done.output
    text = page.read_text()
    assert "class='advice'>Take " in text
    assert "data:image/png;base64," in text
    assert text.count("<tr>") == 3
    assert "http" not in text  # nothing is fetched


def test_where_nothing_keeps_the_target_it_says_so():
    done = run(
        "simulate",
        "--trace",
        "poisson:rate=2000",
        "--seconds",
        "60",
        "--set",
        "limit=2",
        "-p",
        "Static",
        "--json",
    )
    advice = json.loads(done.stdout)["recommendation"]
    assert advice["meets"] is False
    assert "None keeps" in advice["sentence"]


def test_a_fixed_setting_starts_where_it_stands():
    done = run(
        "simulate", "--trace", "poisson:rate=300", "--seconds", "60", "-p", "Static:executors=7", "--json"
    )
    (row,) = json.loads(done.stdout)["policies"]
    assert row["reconfigurations"] == 0
    assert row["core_seconds"] == pytest.approx(7 * 50.0)  # a tenth of the run is its start


@pytest.mark.parametrize("count", ["0", "32"])
def test_a_fixed_setting_that_cannot_be_had_is_refused(count):
    done = run(
        "simulate", "--trace", "poisson:rate=300", "--seconds", "60", "-p", f"Static:executors={count}"
    )
    assert isinstance(done.exception, PenstockError)
    assert f"Static wants {count} executors where 1 to 16 can be had" in str(done.exception)


def test_the_warm_up_is_left_out():
    arguments = ("simulate", "--trace", "poisson:rate=900", "--seconds", "200", "-p", "Ds2", "--json")
    whole = json.loads(run(*arguments, "--warm-up", "0").stdout)["policies"][0]
    later = json.loads(run(*arguments, "--warm-up", "100").stdout)["policies"][0]
    assert later["late"] < whole["late"]
    assert later["core_seconds"] < whole["core_seconds"]


def test_a_preference_sets_the_target():
    targets = []
    for word in ("latency", "balance", "cost"):
        done = run("simulate", "--seconds", "60", "-p", "Static", "--prefer", word, "--json")
        targets.append(json.loads(done.stdout)["target"])
    assert targets == sorted(targets)
    assert len(set(targets)) == 3
    assert isinstance(run("simulate", "--prefer", "beauty").exception, PenstockError)


def test_a_replayed_trace_is_kept_whole(tmp_path):
    file, out = tmp_path / "long.csv", tmp_path / "again.csv"
    times = np.arange(0.0, 200.0, 0.5)
    file.write_text("arrival\n" + "".join(f"{t}\n" for t in times))
    done = run("trace", "generate", "--replay", file, "--output", out, "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["count"] == len(times)
    short = run("trace", "generate", "--replay", file, "--output", out, "--seconds", "60", "--json")
    assert json.loads(short.stdout)["count"] == 120


def test_a_loop_needs_an_end(tmp_path):
    file = tmp_path / "t.csv"
    file.write_text("arrival\n0\n1\n2\n")
    done = run("trace", "generate", "--replay", file, "--output", tmp_path / "o.csv", "--loop")
    assert isinstance(done.exception, PenstockError)
    assert "--seconds" in str(done.exception)


@pytest.mark.parametrize(("word", "late"), [("latency", 0.01), ("balance", 0.05), ("cost", 0.10)])
def test_who_prefers_latency_has_an_autopilot_that_aims_at_fewer_late_tuples(monkeypatch, word, late):
    made = []
    monkeypatch.setattr("penstock.cli.simulate.run_jobs", lambda jobs, progress: made.extend(jobs) or [])
    run("simulate", "--seconds", "60", "-p", "Autopilot", "--prefer", word)
    (job,) = made
    assert job.policy_object().late == late


def test_what_is_done_is_told_on_a_terminal_where_runs_follow_each_other_too(monkeypatch, capsys):
    monkeypatch.setenv("FORCE_COLOR", "1")  # what makes the error output a terminal
    job = SimulationJob(
        "spark", dict(simulated_plant("spark").parameters), load("poisson:rate=50", 30.0), 0, "Static", 5.0, 5.0, "latency_mean", 0.0
    )  # fmt: skip
    assert [r.policy for r in run_jobs([job, replace(job, policy="Minimum")])] == ["Static", "Minimum"]
    told = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().err)
    assert "1 of 2: Static" in told
    assert "2 of 2: Minimum" in told
    run_jobs([job], progress=False)
    assert not capsys.readouterr().err
