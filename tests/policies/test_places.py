"""Policies that are told a place: stages and regions are found by name, anything else is refused with the known names."""

from dataclasses import replace

import pytest

from penstock.core import Change, Knob
from penstock.core.capacity import Capacity
from penstock.core.errors import PenstockError
from penstock.core.observation import Observation, RegionObservation, StageObservation
from penstock.policies import Dhalion, Ds2, Fuzzy, Hpa, Mead, Mpc, RuleBased, Spl, Static, Threshold
from penstock.policies.places import stages_at
from penstock.policies.threshold import CPU_LEVELS


def stage(name, utilisation, region=""):
    return StageObservation(
        name,
        Capacity.steady(2),
        region=region,
        arrival_rate=900.0,
        tuples_in=900.0,
        tuples_out=900.0,
        busy_time=utilisation,
        utilisation=utilisation,
        cpu_share=Capacity.steady(0.7),
    )


def trading():
    """A flow: its regions have one pipeline, and ``match`` two."""
    return Observation(
        1.0,
        1.0,
        (
            stage("parser/0", 0.1, "parser"),
            stage("match/0", 0.95, "match"),
            stage("match/1", 0.97, "match"),
            stage("algotrader/0", 0.99, "algotrader"),
        ),
        tuple(RegionObservation(n, Capacity.steady(2)) for n in ("parser", "match", "algotrader")),
        executors=Capacity.steady(2),
    )


def decide(policy, seen=None):
    return policy.step(policy.start(), seen or trading())[1]


def places_of(policy):
    return {change.where for change in decide(policy).changes}


@pytest.mark.parametrize("where", ["algotrader", "algotrader/0"])
@pytest.mark.parametrize("kind", [Threshold, RuleBased, Ds2, Hpa, Dhalion])
def test_a_stage_is_found_by_its_name_and_by_its_region(kind, where):
    seen = replace(trading(), stages=tuple(replace(s, service_time=0.004) for s in trading().stages))
    policy = kind(where=where)
    # Where a region's pipelines have the same replicas, the place is the region.
    assert {c.where for c in decide(policy, seen).changes} <= {"algotrader/0", "algotrader"}
    assert "algotrader/0" in decide(policy, seen).reason


def test_a_region_stands_for_all_its_pipelines():
    assert places_of(Threshold(where="match")) == {"match/0", "match/1"}


@pytest.mark.parametrize(
    "policy",
    [
        Threshold(where="algotradr"),
        Threshold(where="algotradr", knob=Knob.EXECUTORS),
        RuleBased(where="algotradr"),
        RuleBased(where="algotradr", knob=Knob.EXECUTORS),
        Spl(where="algotradr"),
        Ds2(where="algotradr"),
        Hpa(where="algotradr", knob=Knob.EXECUTORS),
        Dhalion(where="algotradr"),
        Mpc(stages=("algotradr",)),
        Static(workers={"algotradr": 3}),
        Static(settings=(Change(Knob.CPU_SHARE, "algotradr", 0.5),)),
        Fuzzy(panes="algotradr", windows="match/0"),
        Mead(targets={"algotradr": 0.2}),
        Mead(demands={"algotradr": 0.2}),
    ],
    ids=lambda p: p.name,
)
def test_any_other_name_is_refused_with_the_known_ones(policy):
    with pytest.raises(PenstockError, match=r"'algotradr'; did you mean 'algotrader'"):
        decide(policy)


def test_a_name_that_resembles_nothing_is_refused_with_all_that_are_known():
    with pytest.raises(PenstockError, match=r"algotrader, algotrader/0, match, match/0, match/1, parser"):
        stages_at(trading(), "zzz")


def test_no_name_is_refused_before_the_plant_shows_a_stage():
    assert stages_at(Observation(1.0, 1.0), "later") == ()
    assert decide(Threshold(where="later"), Observation(1.0, 1.0)).reason
    assert not decide(Static(workers={"later": 2}), Observation(1.0, 1.0)).changes


def test_executors_go_by_the_named_place_alone():
    calm = Threshold(knob=Knob.EXECUTORS, where="parser", limits=(1, 8))
    assert decide(calm).number(Knob.EXECUTORS, "", 2) == 1
    assert decide(replace(calm, where="match")).number(Knob.EXECUTORS, "", 2) == 3
    rules = RuleBased(knob=Knob.EXECUTORS, limits=(1, 8))
    assert decide(replace(rules, where="parser")).number(Knob.EXECUTORS, "", 2) == 1
    assert decide(replace(rules, where="match")).number(Knob.EXECUTORS, "", 2) == 3


def test_a_fixed_share_of_a_region_is_that_of_its_pipelines():
    policy = Static(workers={"match": 3}, settings=(Change(Knob.CPU_SHARE, "match", 0.5),))
    assert [str(c) for c in decide(policy).changes] == [
        "match workers 3",
        "match/0 cpu_share 0.5",
        "match/1 cpu_share 0.5",
    ]


def test_levels_of_shares_are_moved_in_the_named_region_alone():
    policy = Threshold(knob=Knob.CPU_SHARE, levels=CPU_LEVELS, where="algotrader")
    assert [str(c) for c in decide(policy).changes] == ["algotrader/0 cpu_share 0.85"]


@pytest.mark.parametrize(
    "policy",
    [
        Ds2(knob=Knob.EXECUTORS, restart=0.0),
        Hpa(knob=Knob.EXECUTORS),
        Threshold(knob=Knob.EXECUTORS),
        RuleBased(knob=Knob.EXECUTORS),
        Dhalion(knob=Knob.EXECUTORS),
        Spl(knob=Knob.EXECUTORS, interval=1.0),
    ],
    ids=lambda policy: policy.name,
)
def test_queries_that_share_executors_count_together(policy):
    """Each of two queries at 0.6 of all slots seemed to have enough."""
    queries = tuple(
        StageObservation(
            name, Capacity.steady(4), arrival_rate=480.0, service_time=0.005, utilisation=0.6, tuples_in=480.0
        )
        for name in ("first", "second")
    )
    seen = Observation(1.0, 1.0, queries, executors=Capacity.steady(4), slots=4.0)
    _, decision = policy.step(policy.start(), seen)
    assert decision.number(Knob.EXECUTORS, "", 4) > 4
