"""Queries, flows and attached queries are started with the same words, and their handles do the same things."""

import inspect

import pytest

import penstock
from penstock.spark.attach.autoscaler import Autoscaler
from penstock.spark.flow.flow import Flow
from penstock.spark.flow.run import FlowRun
from penstock.spark.query.preference_query import PreferenceQuery
from penstock.spark.query.run import QueryRun

STARTS = {"query": PreferenceQuery.start, "flow": Flow.start, "attach": penstock.attach}


def words(start) -> dict[str, object]:
    return {name: p.default for name, p in inspect.signature(start).parameters.items()}


@pytest.mark.parametrize("kind", STARTS)
def test_one_word_and_one_default_for_one_thing(kind):
    shared = {
        "policy": None,
        "guards": None,
        "period": 5.0,
        "dry_run": False,
        "journal": None,
        "metrics": None,
        "name": None,
    }
    assert shared.items() <= words(STARTS[kind]).items()


@pytest.mark.parametrize("kind", ["query", "flow"])
def test_what_penstock_runs_itself_has_a_trigger_and_outputs(kind):
    own = {
        "trigger": "1 second",
        "available_now": False,
        "output": None,
        "dead_letters": None,
        "gather": None,
    }
    assert own.items() <= words(STARTS[kind]).items()
    assert "checkpoint" in words(STARTS[kind])


@pytest.mark.parametrize("handle", [QueryRun, FlowRun, Autoscaler])
def test_every_handle_can_be_rescaled_watched_paused_and_ended(handle):
    does = (
        "rescale",
        "progress",
        "listen",
        "pause",
        "resume",
        "stop",
        "await_termination",
        "metrics_address",
    )
    assert [name for name in does if not hasattr(handle, name)] == []


def test_spark_connect_is_refused_in_one_sentence_that_says_what_works():
    """Frames of Spark Connect are known by the module of their class; its server is no part of these tests."""
    frame = type("DataFrame", (), {"__module__": "pyspark.sql.connect.dataframe", "isStreaming": True})()
    query = penstock.PreferenceQuery(penstock.skyline_of(penstock.minimize("a")), time="t", window="1 second")
    flow = penstock.Flow("words")
    flow.source("words", {"word": str}, frame).through(_same).sink("out")
    for refused in (
        lambda: query.start(frame, output="o", checkpoint="c"),
        lambda: flow.start(output="o", checkpoint="c"),
        lambda: penstock.spark.session(existing=frame),
    ):
        with pytest.raises(penstock.PenstockError, match=r"this is Spark Connect.*evaluate\(frame\.toArrow"):
            refused()


@penstock.operator(output={"word": str})
def _same(rows, output):
    output.emit({"word": rows.column("word")})
