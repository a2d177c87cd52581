import pytest

from penstock.core.errors import PenstockError
from penstock.dataflow.explain import explain
from penstock.dataflow.graph import Graph
from penstock.dataflow.layout import make_layout
from penstock.dataflow.operators import operator
from penstock.dataflow.plan import Plan
from penstock.dataflow.regions import find_regions

ROW = {"k": int, "j": int, "v": float}


def stateless(**given):
    return operator(**given)(lambda rows, output: None)


def keyed(*keys, **given):
    return operator(keys=keys, state={"n": int}, **given)(lambda rows, state, output: None)


def stateful(**given):
    return operator(stateful=True, state={"n": int}, **given)(lambda rows, state, output: None)


def chain(*operators):
    graph = Graph("chain")
    stream = graph.source("rows", ROW)
    for at, one in enumerate(operators):
        stream = stream.through(one, name=f"o{at}")
    stream.sink("end")
    return graph


def shape(graph):
    return [(r.operators, r.kind, r.keys) for r in find_regions(graph)]


def test_a_partitioned_operator_takes_the_stateless_ones_before_and_after_it_that_carry_its_key():
    graph = chain(stateless(), keyed("k"), stateless(), keyed("k", "j"))
    assert shape(graph) == [(("o0", "o1", "o2", "o3"), "partitioned", ("k",))]


def test_keys_must_contain_the_keys_of_the_region():
    assert [s[0] for s in shape(chain(keyed("k", "j"), keyed("k")))] == [("o0",), ("o1",)]


def test_a_stateless_operator_without_the_key_stays_outside():
    graph = chain(stateless(output={"word": str}), keyed("word"))
    assert shape(graph) == [(("o0",), "stateless", ()), (("o1",), "partitioned", ("word",))]


def test_only_the_compatible_end_of_a_stateless_chain_joins_the_parallel_region():
    graph = chain(stateless(output={"word": str}), stateless(), keyed("word"))
    assert [s[0] for s in shape(graph)] == [("o0",), ("o1", "o2")]


def test_an_operator_that_changes_the_key_ends_the_region():
    graph = chain(keyed("k"), stateless(changes=["k"]), keyed("k"))
    assert [s[0] for s in shape(graph)] == [("o0",), ("o1",), ("o2",)]


def test_stateful_operators_make_a_region_with_one_replica():
    graph = chain(stateless(), stateful(), stateless(), keyed("k"))
    regions = find_regions(graph)
    assert shape(graph) == [(("o0", "o1"), "stateful", ()), (("o2", "o3"), "partitioned", ("k",))]
    with pytest.raises(PenstockError, match="'o0' is stateful and has one replica"):
        Plan.first(regions, 16).changed(regions, replicas={"o1": 2})


def test_branches_and_joins_end_regions():
    graph = Graph("diamond")
    start = graph.source("rows", ROW).through(keyed("k"), name="a")
    left, right = start.through(keyed("k"), name="b"), start.through(keyed("k"), name="c")
    left.through(keyed("k", inputs=["x", "y"]), right, name="d").sink("end")
    assert [s[0] for s in shape(graph)] == [("a",), ("b",), ("c",), ("d",)]


def test_a_stateless_region_with_replicas_has_tasks_of_its_own_and_one_replica_puts_it_back():
    graph = chain(stateless(output={"word": str}), keyed("word"), stateful())
    regions = find_regions(graph)
    plan = Plan.first(regions, 16).changed(regions, replicas={"o0": 3})
    first, second, _ = make_layout(graph, regions, plan).pipelines
    assert (first.fused, first.replicas, first.level, second.level) == (False, 3, 1, 2)
    back = make_layout(graph, regions, plan.changed(regions, replicas={"o0": 1})).pipelines[0]
    assert (back.fused, back.level) == (True, 0)


def test_stateless_regions_ride_and_others_stand_on_levels():
    graph = chain(stateless(output={"word": str}), keyed("word"), stateful())
    regions = find_regions(graph)
    plan = Plan.first(regions, 16, {"o1": 3})
    layout = make_layout(graph, regions, plan)
    assert [(p.name, p.fused, p.level, p.segment) for p in layout.pipelines] == [
        ("o0/0", True, 0, 0),
        ("o1/0", False, 1, 0),
        ("o2/0", False, 2, 0),
    ]
    assert layout.workers(0, 1) == 3
    late = make_layout(graph, regions, plan.changed(regions, overlap={"o2": True}))
    assert [(p.segment, p.level) for p in late.pipelines] == [(0, 0), (0, 1), (1, 1)]


def test_splitting_a_region_puts_its_later_pipelines_a_batch_behind():
    graph = chain(keyed("k"), keyed("k"), keyed("k"))
    regions = find_regions(graph)
    plan = Plan.first(regions, 16).changed(regions, pipelines={"o0": (0, 1, 2)})
    layout = make_layout(graph, regions, plan)
    assert [(p.operators, p.segment, p.level) for p in layout.pipelines] == [
        (("o0",), 0, 1),
        (("o1",), 1, 1),
        (("o2",), 2, 1),
    ]
    assert Plan.from_json(plan.to_json()) == plan


@pytest.mark.parametrize("starts", [(), (1,), (0, 0), (0, 3), (0, 2, 1)])
def test_pipelines_must_begin_at_rising_places_from_zero(starts):
    graph = chain(keyed("k"), keyed("k"), keyed("k"))
    regions = find_regions(graph)
    with pytest.raises(PenstockError, match="rising places from 0"):
        Plan.first(regions, 16).changed(regions, pipelines={"o0": starts})


def test_explain_tells_regions_pipelines_replicas_and_stages(tmp_path):
    graph = chain(stateless(output={"word": str}), keyed("word"), stateful())
    regions = find_regions(graph)
    plan = Plan.first(regions, 16, {"o1": 3}).changed(regions, overlap={"o2": True})
    text = explain(graph, plan, tmp_path / "flow.svg")
    assert "region o1: partitioned by word, 3 replicas" in text
    assert "stage 0: read sources, run o0/0, route by key group" in text
    assert "stage 1 of segment 1 (batch k-1, from files): o2/0 x1" in text
    picture = (tmp_path / "flow.svg").read_text()
    assert picture.startswith("<svg")
    assert "o1" in picture
