from itertools import combinations, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core import Knob
from penstock.core.errors import PenstockError
from penstock.policies import PipelinedFission
from penstock.policies.pipelined_fission import RegionWork, configurations, plan, regions_of
from penstock.policies.pipelines import partition
from penstock.testing.policy_suite import example_observations


def brute(weights, parts):
    best = float("inf")
    for count in range(parts):
        for cuts in combinations(range(1, len(weights)), count):
            edges = [0, *cuts, len(weights)]
            best = min(best, max(sum(weights[a:b]) for a, b in pairwise(edges)))
    return best


@given(st.lists(st.floats(0, 10), min_size=1, max_size=7), st.integers(1, 7))
def test_a_partition_is_the_best_one(weights, parts):
    heaviest, starts = partition(weights, parts, 0.0)
    assert len(starts) <= parts
    edges = [*starts, len(weights)]
    assert max(sum(weights[a:b]) for a, b in pairwise(edges)) == pytest.approx(heaviest)
    assert heaviest == pytest.approx(brute(weights, parts))


@st.composite
def flows(draw):
    names = "abc"[: draw(st.integers(1, 3))]
    return [
        RegionWork(n, tuple(draw(st.lists(st.floats(0.1, 5), min_size=1, max_size=3))), draw(st.floats(0.1, 2)), draw(st.booleans()))
        for n in names
    ]  # fmt: skip


@given(flows(), st.integers(1, 7), st.floats(0, 0.5), st.floats(0, 0.5))
def test_a_plan_is_the_best_that_fits(regions, threads, switching, replication):
    made = plan(regions, threads, 4, switching, replication)
    best = float("inf")

    def search(i, left, worst):
        nonlocal best
        if i == len(regions):
            best = min(best, worst)
            return
        for cost, used, _ in configurations(regions[i], left, 4, switching, replication):
            search(i + 1, left - used, max(worst, cost))

    search(0, threads, 0.0)
    assert made.cost == pytest.approx(best)


def test_selectivity_moves_the_work_upstream():
    heavy_first = plan([RegionWork("a", (1.0,), 1.0, True), RegionWork("b", (0.1,), 0.1, True)], 8)
    replicas = {n: k for n, (_, k) in heavy_first.configs}
    assert replicas["a"] > replicas["b"]


def test_the_policy_sets_its_plan_once():
    policy, seen = PipelinedFission(threads=6), example_observations()[0]
    state, decision = policy.step(policy.start(), seen)
    assert decision.changes
    assert {c.knob for c in decision.changes} <= {Knob.PIPELINES, Knob.WORKERS}
    assert not policy.step(state, seen)[1].changes
    assert [r.name for r in regions_of(seen)] == ["chain", "sink"]


def test_too_few_threads_are_named():
    _, decision = PipelinedFission(threads=1).step(PipelinedFission().start(), example_observations()[0])
    assert not decision.feasible
    with pytest.raises(PenstockError):
        PipelinedFission(threads=0)
