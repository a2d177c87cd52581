"""What ``penstock state inspect`` shows of flows and queries: sizes and values, also of checkpoints of 0.1."""

import json
import tarfile
from pathlib import Path

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from locked import lock
from penstock.cli import app
from penstock.core.errors import PenstockError
from penstock.dataflow.graph import Graph
from penstock.dataflow.operators import operator
from penstock.testing.flow_run import start_in_process


@pytest.fixture
def first_version(tmp_path):
    packed = Path(__file__).parents[2] / "data" / "checkpoints_0_1.tar.gz"
    with tarfile.open(packed) as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path


def inspected(*words):
    return CliRunner().invoke(app, ["state", "inspect", *map(str, words)], catch_exceptions=False).output


def test_values_of_a_flow_are_shown_key_by_key(first_version):
    folder = first_version / "flow-checkpoint"
    assert json.loads(inspected(folder, "--json"))["version"] == "0.1"
    rows = json.loads(inspected(folder, "--values", "count", "--json"))
    assert {r["key"]["word"]: r["state"]["n"] for r in rows} == {"tide": 5, "ebb": 3, "flow": 3}
    assert json.loads(inspected(folder, "--values", "count", "--where", "word=tide"))["state"] == {"n": 5}
    (hidden,) = json.loads(inspected(folder, "--values", "longest", "--where", "word=ebb", "--json"))
    assert list(hidden["state"]) == ["pickled bytes"]
    assert hidden["newest"] == 21.0
    (shown,) = json.loads(
        inspected(folder, "--values", "longest", "--where", "word=ebb", "--json", "--unpickle")
    )
    assert shown["state"] == {"longest": 21.0}
    with pytest.raises(PenstockError, match="Unknown operator with a state 'cuont'; did you mean 'count'"):
        inspected(folder, "--values", "cuont")


def test_a_query_is_shown_by_its_panes(first_version):
    folder = first_version / "query-checkpoint"
    assert "preference query: batch 2 by version 0.1" in inspected(folder)
    found = json.loads(inspected(folder, "--json"))
    assert found["totals"]["rows"] == 11
    pane = found["panes"][-1]
    rows = json.loads(inspected(folder, "--values", pane["pane"], "--json"))
    assert len(rows) == pane["rows"]
    assert all(pane["start"] <= r["at"] < pane["end"] for r in rows)
    with pytest.raises(PenstockError, match="takes the number of a pane"):
        inspected(folder, "--values", "count")


def test_waiting_tuples_timers_and_keys_of_layers_that_changed_are_shown(tmp_path):
    def flow(kind):
        @operator(
            keys="k",
            grain="key",
            state={"n": kind},
            time="t",
            on_timer=lambda key, state, output: None,
            output={"k": int},
        )
        def op(rows, state, output):
            state["n"] += 1
            state.timer(99.0)

        graph = Graph("timers")
        graph.source("rows", {"k": int, "t": float}).through(op, name="op").sink("out")
        return graph

    for number, kind in enumerate([pa.int32(), pa.int64()]):
        run = start_in_process(flow(kind), tmp_path, groups=8)
        run._next = number
        run.feed({"rows": pa.table({"k": pa.array([number, 7, 8, 9], pa.int64()), "t": [1.0] * 4})})
        run.finish()
    (row,) = json.loads(inspected(tmp_path / "checkpoint", "--values", "op", "--where", "k=7", "--json"))
    assert row == {"key": {"k": 7}, "state": {"n": 2}, "timer": 99.0}
    (old,) = json.loads(inspected(tmp_path / "checkpoint", "--values", "op", "--where", "k=0", "--json"))
    assert old["state"] == {"n": 1}


def test_a_checkpoint_that_cannot_be_looked_at_is_told_with_the_reason(tmp_path, monkeypatch):
    place = lock(monkeypatch, tmp_path / "locked")
    with pytest.raises(PenstockError, match=r"The checkpoint '.*' cannot be read \(Permission denied\)"):
        inspected(place)


def test_values_that_json_has_no_words_for_are_shown_as_text(tmp_path):
    @operator(keys="k", grain="key", state={"low": float, "high": float}, output={"k": int})
    def fixed(rows, state, output):
        state["low"], state["high"] = float("-inf"), float("nan")

    @operator(keys="k", grain="key", output={"k": int})
    def free(rows, state, output):
        state["seen"] = {("a", 1): float("inf"), None: [1.5, (float("nan"),)]}

    graph = Graph("odd")
    rows = graph.source("rows", {"k": int})
    rows.through(fixed).sink("fixed")
    rows.through(free).sink("free")
    run = start_in_process(graph, tmp_path, groups=8)
    run.feed({"rows": pa.table({"k": [7]})})
    run.finish()
    for words in ((), ("--json",)):

        def shown(*more, words=words):
            text = inspected(tmp_path / "checkpoint", "--values", *more, *words)
            found = json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
            return (found[0] if words else found)["state"]

        assert shown("fixed") == {"low": "-inf", "high": "nan"}
        assert shown("free", "--unpickle") == {"seen": {"('a', 1)": "inf", "null": [1.5, ["nan"]]}}


def test_names_of_operators_are_no_markup(tmp_path):
    @operator(keys="k", grain="key", state={"n": int}, output={"k": int})
    def count(rows, state, output):
        state["n"] += len(rows)

    graph = Graph("marked")
    graph.source("rows", {"k": int}).through(count, name="[red] x").sink("out")
    run = start_in_process(graph, tmp_path, groups=8)
    run.feed({"rows": pa.table({"k": [7]})})
    run.finish()
    shown = inspected(tmp_path / "checkpoint", "--groups")
    assert shown.count("[red] x") == 3, "of its region, its row and its key groups"
