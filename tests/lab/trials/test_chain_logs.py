"""MEAD's log analysis: what its operators do to lines."""

import pickle

import pyarrow as pa

from penstock_lab.trials.chain_logs import SAMPLE, operators


def run(lines):
    batch = pa.RecordBatch.from_arrays([pa.array(lines, pa.string())], ["value"])
    for operator in operators(20):
        batch = pickle.loads(pickle.dumps(operator.function))(batch)
    return batch.to_pydict()


def test_events_are_counted_by_component_and_malformed_lines_are_dropped():
    told = run([*SAMPLE, None, ""])
    assert told["component"] == ["CRON", "sshd"]
    assert told["events"] == [1, 3]
    assert all(hits >= 0 for hits in told["hits"])


def test_no_lines_give_no_counts():
    assert run([]) == {"component": [], "events": [], "hits": []}


def test_more_patterns_find_at_least_as_much():
    few, many = operators(5)[1].function, operators(50)[1].function
    batch = pa.RecordBatch.from_arrays(
        [pa.array(["sshd"] * 2), pa.array(["Invalid user x7 from 1", "root 13"])], ["component", "text"]
    )
    assert sum(few(batch)["hits"].to_pylist()) <= sum(many(batch)["hits"].to_pylist())
