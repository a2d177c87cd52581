import pytest

from penstock.apps import wordcount
from penstock.apps.flow_app import OPTIONS, run_app
from penstock.apps.summary import Option, Summary
from penstock.cli.run import parse
from penstock.core.errors import PenstockError

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
