import io
import json
import subprocess
import sys
from math import inf, nan
from types import SimpleNamespace

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, StreamingQueryException
from rich.console import Console
from typer.testing import CliRunner

from penstock.apps import wordcount
from penstock.apps.flow_app import OPTIONS, run_app
from penstock.apps.summary import Option, Summary
from penstock.cli import app
from penstock.cli.run import parse
from penstock.core.errors import PenstockError
from waiting import PATIENCE

KNOWN = {"rate": Option("5", "rows a second"), "source": Option("synthetic", "where rows come from")}


def test_options_not_given_have_their_defaults():
    assert parse("app", KNOWN, ["--rate=7"]) == {"rate": "7", "source": "synthetic"}


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--rat", "7"], "Unknown option of app 'rat'; did you mean 'rate'"),
        (["--rate"], "--rate of app needs a value"),
        (["7"], "'7' is not an option of app"),
    ],
)
def test_wrong_options_are_told(words, sentence):
    with pytest.raises(PenstockError, match=sentence):
        parse("app", KNOWN, words)


def test_a_summary_is_the_same_as_json():
    told = Summary("wordcount", {"rows": 3}, ("word", "count"), [("a", 2)], ["note"]).as_json()
    assert told == {"app": "wordcount", "rows": 3, "answer": [{"word": "a", "count": 2}], "notes": ["note"]}
    assert "show" in wordcount.OPTIONS


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"policy": "meed"}, "Unknown policy 'meed'; did you mean 'Mead'"),
        ({"policy": "mead", "target": "soon"}, "--target must be a number of seconds above 0, not 'soon'"),
        ({"source": "kafka"}, "source of an application 'kafka'"),
    ],
)
def test_wrong_values_are_told_before_spark_starts(given, sentence):
    options = {name: option.default for name, option in OPTIONS.items()} | given
    with pytest.raises(PenstockError, match=sentence):
        run_app(lambda spark, scratch: None, 1.0, options)


def test_a_summary_shows_words_in_brackets_as_they_are():
    told = io.StringIO()
    words = [("[/b]", 1), ("[error]", 2), (":bomb:", 3)]
    summary = Summary("logs", {"folder": "/runs/[red]"}, ("[what]", "count"), words, ["see [/x]"])
    summary.print(Console(file=told, width=80))
    for shown in ("/runs/[red]", "[/b]", "[error]", ":bomb:", "[what]", "[/x]"):
        assert shown in told.getvalue()


def summed_up(*figures):
    """``penstock run wordcount --json`` where the run ends with these figures, or with an error."""

    def end(seconds, options):
        if isinstance(figures[0], Exception):
            raise figures[0]
        return Summary("wordcount", figures[0])

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(wordcount, "main", end)
        return CliRunner().invoke(app, ["run", "wordcount", "--json"])


def test_figures_that_are_no_numbers_are_null_in_json():
    told = summed_up({"latency_mean": nan, "latency_p95": [inf, 1.5]}).stdout
    assert json.loads(told)["latency_mean"] is None
    assert json.loads(told)["latency_p95"] == [None, 1.5]


JAVA = SimpleNamespace(_target_id="o1", getMessage=lambda: "Could not parse Master URL: 'nowhere'")
FAILED = SimpleNamespace(_target_id="o1", getMessage=lambda: "Job aborted due to stage failure: Task 0")


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (Py4JJavaError("An error occurred\n", JAVA), "Could not parse Master URL: 'nowhere'"),
        (AnalysisException("\n[X] No source: [kafka].\nSQLSTATE"), "[X] No source: [kafka]."),
    ],
)
def test_what_spark_refuses_is_its_first_line_and_code_1(error, said):
    done = summed_up(error)
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr == f"penstock: Spark refuses: {said}\n"


@pytest.mark.parametrize(
    "error", [Py4JJavaError("", FAILED), StreamingQueryException("[STREAM_FAILED] x"), ZeroDivisionError()]
)
def test_an_error_of_a_query_that_ran_keeps_its_stack(error):
    assert summed_up(error).exception is error


@pytest.mark.spark
@pytest.mark.long
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["wordcount", "--master", "nowhere"], "See whether --master is one"),
        (["wordcount", "--master", "local[x]"], "Could not parse Master URL: 'local[x]'"),
        (["skyline", "--source", "kafka"], "kafka"),
        (["skyline", "--source", "parquet", "--source-options", "path=.", "--minimize", "a"], "chema"),
    ],
)
def test_spark_refuses_masters_and_sources_in_one_line(words, said, tmp_path):
    call = [sys.executable, "-m", "penstock", "run", *words, "--seconds", "1"]
    done = subprocess.run(call, capture_output=True, text=True, timeout=PATIENCE, check=False, cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith("penstock: Spark refuses: ")
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1
