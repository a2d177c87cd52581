"""``penstock autoscale``: a user's unmodified program, scaled from outside."""

import json
import subprocess
import sys
import textwrap

import pytest
from typer.testing import CliRunner

from penstock.cli import app
from penstock.core.errors import PenstockError
from penstock.core.journal import read


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


def test_an_unmodified_program_is_watched_and_keeps_its_arguments_and_exit_code(tmp_path):
    script = tmp_path / "user.py"
    script.write_text(
        textwrap.dedent("""
        import sys, time
        from pyspark.sql import SparkSession

        spark = (SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
                 .config("spark.driver.bindAddress", "127.0.0.1").config("spark.driver.host", "127.0.0.1").getOrCreate())
        stream = spark.readStream.format("rate").option("rowsPerSecond", 100).load()
        query = stream.writeStream.format("noop").queryName("mine").trigger(processingTime="1 second").start()
        end = time.monotonic() + 60  # a busy machine may need long for the first batch
        while time.monotonic() < end and not any(p["numInputRows"] for p in query.recentProgress):
            time.sleep(0.1)
        time.sleep(float(sys.argv[2]))
        query.stop()
        spark.stop()
        sys.exit(3)
        """)
    )
    journal = tmp_path / "journal.jsonl"
    done = subprocess.run(
        [sys.executable, "-c", "from penstock.cli import main; main()", "autoscale", "--period", "0.5", "--journal", str(journal),
         str(script), "--seconds", "3"],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 3, done.stderr
    assert done.stderr.count("local mode") == 1, "the reason is told once"
    tables = read(journal)
    assert set(tables.stages["stage"]) == {"mine"}
    assert tables.stages["tuples_in"].sum() > 100
    assert any("local mode" in text for text in tables.warnings["text"])
    assert json.loads(journal.read_text().splitlines()[0])["plant"] == "spark"
