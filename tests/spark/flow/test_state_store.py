import numpy as np
import pyarrow as pa
import pytest

from penstock.core.errors import PenstockError
from penstock.dataflow.graph import Graph
from penstock.dataflow.operators import operator
from penstock.dataflow.running_figures import running_count
from penstock.spark.flow.flow_state import FlowState
from penstock.spark.flow.inspection import inspect_flow
from penstock.spark.flow.state_store import FORGET_AFTER, LayerFile, OperatorState, runs
from penstock.testing.flow_run import start_in_process


def counter(ttl=None):
    @operator(keys="k", state={"n": int}, output={"k": int, "n": int}, ttl=ttl)
    def count(rows, state, output):
        output.emit({"k": rows.column("k"), "n": running_count(rows.slots, state["n"])})

    graph = Graph("count")
    graph.source("rows", {"k": int, "t": float}).through(count).sink("out")
    return graph


def rows(keys, at=0.0):
    keys = np.asarray(keys)
    return {"rows": pa.table({"k": keys, "t": np.full(len(keys), float(at))})}


def layers(run):
    return FlowState.from_json(run._latest.state).operators["count"].layers


def test_a_batch_writes_what_it_changed(tmp_path):
    run = start_in_process(counter(), tmp_path)
    run.feed(rows(np.arange(10_000)))
    run.feed(rows([3, 4]))
    assert [layer.rows for layer in layers(run)] == [10_000, 2]
    run.finish()


def test_layers_are_merged_with_those_that_are_no_larger(tmp_path):
    run = start_in_process(counter(), tmp_path)
    run.feed(rows(np.arange(1000)))
    run.feed(rows(np.arange(1000)))
    assert [layer.rows for layer in layers(run)] == [1000]
    run.feed(rows(np.arange(100)))
    run.feed(rows([1]))
    run.feed(rows([1]))
    assert [layer.rows for layer in layers(run)] == [1000, 100, 1]
    run.finish()


def test_a_batch_of_the_same_size_rewrites_no_more_of_a_larger_state(tmp_path):
    """What is written for the same batches grows with the logarithm of the state, not with the state."""
    written = {}
    for keys in (1_000, 64_000):
        run = start_in_process(counter(), tmp_path / str(keys))
        run.feed(rows(np.arange(keys)))
        random, total, seen = np.random.default_rng(1), 0, {layer.file for layer in layers(run)}
        for _ in range(40):
            run.feed(rows(random.integers(0, keys, 50)))
            total += sum(layer.rows for layer in layers(run) if layer.file not in seen)
            seen |= {layer.file for layer in layers(run)}
        assert len(layers(run)) <= 12
        written[keys] = total
        run.finish()
    assert written[64_000] < 3 * written[1_000]


def test_old_versions_and_merged_layers_leave_no_files(tmp_path):
    run = start_in_process(counter(), tmp_path)
    run.rescale(replicas={"count": 3})
    for turn in range(12):
        run.feed(rows(np.arange(500) + turn))
        run.rescale(replicas={"count": 1 + turn % 4})
    run.finish()
    kept = {path.name for path in (tmp_path / "checkpoint" / "penstock" / "state").iterdir()}
    needed = {name for n in (10, 11) for name in run._checkpoint.read(n).files}
    assert kept == needed


def test_expired_keys_are_dropped_at_the_next_merge(tmp_path):
    run = start_in_process(counter(ttl=("t", 10)), tmp_path)
    run.feed(rows(np.arange(100), at=0))
    run.feed(rows(np.arange(10), at=50))
    for _ in range(FORGET_AFTER):
        run.feed(rows([1], at=51))
    assert inspect_flow(tmp_path / "checkpoint")["operators"]["count"]["keys"] == 10
    run.finish()


def test_inspection_tells_groups_sizes_and_versions(tmp_path):
    run = start_in_process(counter(), tmp_path)
    run.feed(rows(np.arange(300)))
    run.feed(rows([7]))
    found = inspect_flow(tmp_path / "checkpoint")
    told = found["operators"]["count"]
    assert (found["batch"], found["versions"], found["groups"]) == (1, [0, 1], 16)
    assert (told["keys"], told["layers"], told["batches"]) == (300, 2, [0, 1])
    assert sum(g["keys"] for g in told["by_group"]) == 300
    run.finish()
    with pytest.raises(PenstockError, match="is not a checkpoint"):
        inspect_flow(tmp_path / "nowhere")


def test_a_layer_counts_for_fewer_groups_once_others_are_merged():
    state = OperatorState((LayerFile("a", (0, 1, 2, 3), 9, 0),))
    state = state.written(LayerFile("b", (0, 1), 4, 1), replaced=("a",))
    assert [(layer.file, layer.groups) for layer in state.layers] == [("a", (2, 3)), ("b", (0, 1))]
    state = state.written(LayerFile("c", (2, 3), 4, 2), replaced=("a",))
    assert [layer.file for layer in state.layers] == ["b", "c"]
    assert OperatorState.from_json(state.to_json()) == state
    assert runs((0, 1, 5)) == [(0, 2), (5, 6)]
