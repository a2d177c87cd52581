"""``penstock autoscale``: a user's unmodified program, scaled from outside."""

import builtins
import json
import os
import subprocess
import sys
import textwrap
from math import inf
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from locked import lock
from penstock.cli import app
from penstock.core.errors import PenstockError
from penstock.core.journal import read
from penstock.spark.attach import script
from penstock.spark.attach.settings import Settings
from waiting import PATIENCE, until


def run(*arguments):
    return CliRunner().invoke(app, ["autoscale", *arguments])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--executors", "many"], "no bounds"),
        (["--executors", "5:2"], "contradict"),
        (["--cpu", "x"], "no CPU shares"),
        (["--policy", "thresold"], "did you mean 'Threshold'"),
        ([], "no program"),
    ],
)
def test_mistakes_are_found_before_the_program_runs(options, words, tmp_path):
    script = tmp_path / "never.py"
    if options:
        script.write_text("raise SystemExit(7)")
    result = run(*options, str(script))
    assert isinstance(result.exception, PenstockError)
    assert words in str(result.exception)


def test_a_program_that_cannot_be_looked_at_or_opened_is_told_with_the_reason(tmp_path, monkeypatch):
    locked = lock(monkeypatch, tmp_path / "locked")
    (tmp_path / "mine.py").write_text("raise SystemExit(7)")

    def refused(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(script.Path, "open", refused)
    for program in (locked, tmp_path / "mine.py"):
        result = run(str(program))
        assert isinstance(result.exception, PenstockError)
        assert "cannot be read (Permission denied); check the path and its permissions." in str(
            result.exception
        )


def test_the_autoscaler_stays_as_long_as_the_program_however_long_no_query_runs(tmp_path, monkeypatch):
    made, program = {}, tmp_path / "user.py"
    program.write_text("import time\nwhile not made:\n    time.sleep(0.01)\n")

    class Recorded:
        def __init__(self, *given, **options):
            made.update(options, made=True)

        def start(self):
            return self

        def stop(self):
            made["stopped"] = True

    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "pyspark-shell")
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    monkeypatch.setattr(builtins, "made", made, raising=False)
    monkeypatch.setattr(script, "Autoscaler", Recorded)
    session = SimpleNamespace(sparkContext=SimpleNamespace(_jsc=1))
    monkeypatch.setattr(script.SparkSession, "_instantiatedSession", session)
    script.run_script(program, [], Settings(executors=None), None)
    assert made == {"linger": inf, "made": True, "stopped": True}


def rows_seen(journal):
    seen = read(journal).stages if journal.exists() else {}
    return seen["tuples_in"].sum() if "tuples_in" in seen else 0


@pytest.mark.long
def test_an_unmodified_program_is_watched_and_keeps_its_arguments_and_exit_code(tmp_path):
    script = tmp_path / "user.py"
    script.write_text(
        textwrap.dedent("""
        import sys, time
        from pathlib import Path
        from pyspark.sql import SparkSession

        spark = (SparkSession.builder.config("spark.ui.enabled", "false")
                 .config("spark.driver.bindAddress", "127.0.0.1").config("spark.driver.host", "127.0.0.1").getOrCreate())
        stream = spark.readStream.format("rate").option("rowsPerSecond", 100).load()
        query = stream.writeStream.format("noop").queryName("mine").trigger(processingTime="1 second").start()
        while not Path(sys.argv[2]).exists():
            time.sleep(0.1)
        query.stop()
        spark.stop()
        sys.exit(3)
        """)
    )
    journal = tmp_path / "journal.jsonl"
    child = subprocess.Popen(
        [sys.executable, "-c", "from penstock.cli import main; main()", "autoscale", "--period", "0.5", "--journal", str(journal),
         "--master", "local[2]", "--page", "127.0.0.1:0", "--metrics", "127.0.0.1:0",
         str(script), "--until", str(tmp_path / "enough")],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        until(
            lambda: rows_seen(journal) > 100,
            "a hundred rows in the journal",
            unless=lambda: child.poll() is not None,
        )
        (tmp_path / "enough").touch()
        _, told = child.communicate(timeout=PATIENCE)
    finally:
        child.kill()
    assert child.returncode == 3, told
    assert told.count("local mode") == 1, "the reason is told once"
    for words in (
        " on local[2]: policy Threshold, 1 to 8 executors, no target",
        f"journal: {journal}",
        "page: http://127.0.0.1:",
        "metrics: http://127.0.0.1:",
        "waiting for the first rows",
        "first rows of mine",
    ):
        assert f"{words}" in told
    assert told.index("waiting for the first rows") < told.index("first rows of mine")
    tables = read(journal)
    assert set(tables.stages["stage"]) == {"mine"}
    assert any("local mode" in text for text in tables.warnings["text"])
    assert json.loads(journal.read_text().splitlines()[0])["plant"] == "spark"
    reported = CliRunner().invoke(app, ["report", str(journal), "--html", str(tmp_path / "page.html")])
    assert reported.exit_code == 0, reported.output
    assert "<title>Query mine - Penstock</title>" in (tmp_path / "page.html").read_text()


def test_a_program_that_names_no_master_runs_on_the_cluster_that_is_named(cluster, tmp_path):
    script = tmp_path / "user.py"
    script.write_text(
        textwrap.dedent("""
        import sys, time
        from pathlib import Path
        from pyspark.sql import SparkSession

        spark = SparkSession.builder.getOrCreate()
        stream = spark.readStream.format("rate").option("rowsPerSecond", 100).load()
        query = stream.writeStream.format("noop").queryName("mine").start()
        while not Path(sys.argv[1]).exists():
            time.sleep(0.1)
        query.stop()
        spark.stop()
        """)
    )
    config = {**cluster.session_config(), "spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1"}
    submit = " ".join(f"--conf '{k}={v}'" for k, v in config.items())
    journal = tmp_path / "journal.jsonl"
    child = subprocess.Popen(
        [sys.executable, "-m", "penstock", "autoscale", "--master", cluster.master, "--executors", "1:2", "--period", "0.5",
         "--journal", str(journal), str(script), str(tmp_path / "enough")],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYSPARK_SUBMIT_ARGS": f"{submit} pyspark-shell"},
    )  # fmt: skip
    try:
        until(lambda: rows_seen(journal) > 0, "rows", unless=lambda: child.poll() is not None)
        (tmp_path / "enough").touch()
        _, told = child.communicate(timeout=PATIENCE)
    finally:
        child.kill()
    assert child.returncode == 0, told
    assert f" on {cluster.master}: policy Threshold, 1 to 2 executors" in told
    assert read(journal).observations["executors_observed"].max() >= 1
