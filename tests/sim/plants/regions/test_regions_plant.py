import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.capacity import Knob
from penstock.core.decision import Change, Decision
from penstock.core.errors import PenstockError
from penstock.policies import Organic
from penstock.policies.catalog import policy_named
from penstock.sim.closed_loop import run_policy
from penstock.sim.plant_catalog import simulated_plant
from penstock.sim.plants.regions.groups import regrouped
from penstock.sim.plants.regions.region_graph import (
    FlowCosts,
    RegionGraph,
    RegionOperator,
    SimulatedRegion,
    chain,
)
from penstock.sim.plants.regions.regions_plant import RegionsPlant
from penstock.sim.plants.regions.steady_flow import flow
from penstock.testing import check_plant

FREE = FlowCosts(entry=0.0, transfer=0.0, replication=0.0, skew=0.0)


def four(cost=1e-6):
    return chain(RegionOperator("read", 1e-8), [tuple(RegionOperator(f"m{i}", cost) for i in range(4))])


def test_it_keeps_the_contract_of_a_plant():
    p = RegionsPlant(four(), offered=lambda t: 50_000.0)
    check_plant(p, lambda s: p.wait_until(p.now() + s), Decision((Change(Knob.WORKERS, "r1", 3),), "a test"))


def test_without_overheads_the_flow_is_that_of_the_slowest_thread():
    assert flow(four(), {"source": ((0,), 1), "r1": ((0,), 1)}, FREE).rate == pytest.approx(250_000)
    assert flow(four(), {"source": ((0,), 1), "r1": ((0, 2), 1)}, FREE).rate == pytest.approx(500_000)
    even = FlowCosts(entry=0, transfer=0, replication=0, skew=0, groups=270)
    assert flow(four(), {"source": ((0,), 1), "r1": ((0, 2), 5)}, even).rate == pytest.approx(2_500_000)


def test_more_threads_than_cores_share_them():
    few = FlowCosts(entry=0, transfer=0, replication=0, skew=0, groups=240, cores=4, smt=0.5)
    rates = [flow(four(), {"source": ((0,), 1), "r1": ((0,), k)}, few).rate for k in (4, 8, 16)]
    assert rates[1] < 1.6 * rates[0]
    assert rates[2] == pytest.approx(rates[1], rel=0.05)


def test_selectivities_multiply_along_the_graph():
    graph = RegionGraph(
        (
            SimulatedRegion("in", (RegionOperator("read", 0.0),), "source", ("a",)),
            SimulatedRegion(
                "a",
                (RegionOperator("x", 1e-6, 4.0), RegionOperator("y", 1e-6, 0.5)),
                "partitioned",
                ("b", "c"),
            ),
            SimulatedRegion("b", (RegionOperator("z", 1e-6),)),
            SimulatedRegion("c", (RegionOperator("z", 1e-6),)),
        )
    )
    assert graph.volumes() == {"in": 1.0, "a": 1.0, "b": 2.0, "c": 2.0}
    made = flow(graph, {r.name: ((0,), 1) for r in graph}, FREE)
    assert made.rate == pytest.approx(1 / 5e-6)


def test_what_comes_in_gets_through_or_waits():
    p = RegionsPlant(four(), offered=lambda t: 400_000.0 if t < 5 else 100_000.0, noise=0.0)
    through = 0.0
    for t in range(1, 21):
        p.wait_until(float(t))
        seen = p.observe()
        through += seen.stage("source.0").tuples_in
    assert through + p.backlog == pytest.approx(5 * 400_000 + 15 * 100_000, rel=1e-6)


def test_a_change_pauses_and_then_shows():
    p = RegionsPlant(four(), noise=0.0)
    p.wait_until(5.0)
    before = p.observe().region("r1").throughput
    done = p.apply(Decision((Change(Knob.WORKERS, "r1", 2),), "a test"))
    assert done.pause > 0
    assert done.moved == 135
    p.wait_until(12.0)
    p.observe()
    p.wait_until(13.0)
    assert p.observe().region("r1").throughput > 1.8 * before


def test_organic_adaptation_scales_a_region_and_joint_is_best():
    def speedup(order):
        p = RegionsPlant(four(2e-6))
        base = p.steady.rate
        run_policy(p, Organic(order=order), 1.0, 600.0)
        return p.steady.rate / base

    assert speedup("fusion") <= 4.0
    assert speedup("fusion-first") > speedup("fission") > speedup("fusion")


@given(st.lists(st.integers(0, 5), min_size=6, max_size=60), st.integers(1, 6))
def test_groups_end_within_one_of_each_other_and_move_only_as_needed(routing, replicas):
    new, moved = regrouped(tuple(routing), replicas)
    sizes = np.bincount(new, minlength=replicas)
    assert len(sizes) == replicas
    assert sizes.max() - sizes.min() <= 1
    assert moved == sum(a != b for a, b in zip(routing, new, strict=True))


def test_impossible_pipelines_are_refused():
    p = RegionsPlant(four())
    assert p.apply(Decision((Change(Knob.PIPELINES, "r1", (0, 7)),), "a test")).refused
    assert p.apply(Decision((Change(Knob.PIPELINES, "source", (0,)),), "a test")).refused


def test_graphs_are_checked():
    with pytest.raises(PenstockError, match="sources first"):
        RegionGraph(
            (
                SimulatedRegion("a", (RegionOperator("x", 1.0),)),
                SimulatedRegion("s", (RegionOperator("x", 1.0),), "source", ("a",)),
            )
        )


@pytest.mark.parametrize("name", ["Ds2", "Hpa", "Dhalion"])
def test_policies_for_workers_scale_the_replicas_of_a_region_to_what_is_offered(name):
    here = simulated_plant("regions").surroundings({"limit": 16.0}, period=1.0)
    plant = RegionsPlant(four(), offered=lambda t: 600_000.0 if t < 300 else 60_000.0)
    out = run_policy(plant, policy_named(name, here), 1.0, 300.0)
    assert plant.configs["r1"][1] >= 3  # one serves 250,000
    assert plant.backlog == pytest.approx(0.0, abs=6e4)
    assert not out.warnings  # nobody asked for replicas of the source
    most = plant.configs["r1"][1]
    run_policy(plant, policy_named(name, here), 1.0, 1200.0)
    assert plant.configs["r1"][1] < most


def test_the_pipeline_that_holds_the_flow_back_tells_how_much_input_waits():
    plant = RegionsPlant(four(), offered=lambda t: 500_000.0, noise=0.0)
    plant.wait_until(5.0)
    source, slow = plant.observe().stages
    assert source.downstream == (slow.name,)
    assert source.congestion == 0
    assert slow.congestion == pytest.approx(0.5, abs=0.1)  # it serves about half


def test_regions_tell_how_many_replicas_they_can_have():
    plant = RegionsPlant(four(), offered=lambda t: 50_000.0, most_replicas=4)
    plant.wait_until(1.0)
    assert plant.observe().region("r1").replicas.limit == 4
