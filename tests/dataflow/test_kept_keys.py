"""An operator that changes a key without saying so is found at the first row, however many replicas there are."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from penstock.core.errors import PenstockError
from penstock.dataflow.firing import need_any
from penstock.dataflow.graph import Graph
from penstock.dataflow.operators import operator
from penstock.dataflow.reference import Reference
from penstock.dataflow.running_figures import running_count
from penstock.testing.flow_run import start_in_process

WORDS = {"words": pa.table({"word": ["the", "The", "cat"]})}


@operator()
def lower(rows, output):
    output.emit({"word": pc.utf8_lower(rows.column("word"))})


@operator(grain="key")
def lower_by_row(rows, output):
    for row in rows:
        output.emit({"word": row["word"].lower()})


@operator(keys="word", state={"n": int}, output={"word": str, "n": int})
def count(rows, state, output):
    output.emit({"word": rows.column("word"), "n": running_count(rows.slots, state["n"])})


@operator()
def same(rows, output):
    output.emit(rows)


def flow(*operators):
    graph = Graph("words")
    stream = graph.source("words", {"word": str})
    for one in operators:
        stream = stream.through(one)
    stream.sink("out")
    return graph


CHANGED = r"Operator '{}' changes the key \(word\) of the rows it gives out on port 'out', here to 'the'; say so with"


@pytest.mark.parametrize("operators", [(lower, count), (lower_by_row, count), (lower, same, count)])
def test_lower_case_and_then_count_is_refused_with_one_replica(operators, tmp_path):
    sentence = CHANGED.format(operators[0].label)
    with pytest.raises(PenstockError, match=sentence):
        start_in_process(flow(*operators), tmp_path).feed(WORDS)
    with pytest.raises(PenstockError, match=sentence):
        Reference(flow(*operators)).run(WORDS)


@operator(keys="word", state={"n": int}, output={"word": str})
def lower_by_key(rows, state, output):
    output.emit({"word": pc.utf8_lower(rows.column("word"))})


@pytest.mark.parametrize(
    "between", [lower.composed(output={"word": str}), lower_by_key], ids=["stateless", "keyed"]
)
def test_a_change_between_two_operators_of_the_same_key_is_found_too(between, tmp_path):
    with pytest.raises(PenstockError, match=CHANGED.format(between.label)):
        start_in_process(flow(count, between, count), tmp_path).feed(WORDS)


def test_a_change_that_is_declared_counts_right_with_any_number_of_replicas(tmp_path):
    graph = flow(lower.composed(changes="word"), count)
    assert Reference(graph).run(WORDS)["out"].to_pylist() == [
        {"word": "the", "n": 1},
        {"word": "the", "n": 2},
        {"word": "cat", "n": 1},
    ]
    run = start_in_process(graph, tmp_path, groups=8)
    run.rescale(replicas={"count": 3})
    run.feed(WORDS)
    assert run.totals.results == 3


def test_rows_given_out_twice_left_out_or_late_keep_their_keys():
    @operator()
    def twice(rows, output):
        at = np.repeat(np.arange(len(rows)), 2)[::-1]
        output.emit(rows.table.take(pa.array(at)), at=rows.positions[at])

    @operator(keys="word", state={"n": int}, need=need_any(**{"in": 2}))
    def in_pairs(rows, state, output):
        output.emit(rows)

    reference = Reference(flow(same, twice, in_pairs, count))
    for batch in (["a", "b"], ["a"], ["b", "b", "c"]):
        reference.run({"words": pa.table({"word": batch})})
    totals = reference.run({"words": pa.table({"word": ["a", "b", "c"]})})["out"].to_pylist()
    assert [r["n"] for r in totals if r["word"] == "a"] == [5, 6]
