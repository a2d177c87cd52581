"""Autopilot: a safe start, the cheapest candidate that is fit, a reason in words, and a guard."""

from dataclasses import replace

import pytest

from penstock.core import Knob
from penstock.core.errors import PenstockError
from penstock.core.metrics import Metric
from penstock.core.observation import Latency
from penstock.policies import Autopilot, Ds2, Static
from penstock.policies.autopilot.autopilot import _spare
from penstock.sim import SparkCosts, SparkLike, load
from penstock.sim.closed_loop import run_policy

COSTS = SparkCosts(row_cost=0.005, arrives_after=4.0)


def steps(policy, spec="poisson:rate=400", seconds=400.0, seed=1, change=None):
    """Every (time, state, decision, executors) of a run on the simulated plant."""
    stream = load(spec, seconds, seed)
    plant, state, found, time = SparkLike(stream.arrivals, COSTS, 2, 16, seed), policy.start(), [], 5.0
    while time <= seconds:
        plant.wait_until(time)
        seen = plant.observe()
        seen = change(seen) if change else seen
        state, decision = policy.step(state, seen)
        plant.apply(decision)
        found.append((time, state, decision, seen.executors.planned))
        time += 5.0
    return found


def test_it_starts_with_the_most_and_then_leads_by_rehearsals():
    found = steps(Autopilot(target=5.0, limits=(1, 16), learn=120.0))
    assert found[0][2].number(Knob.EXECUTORS) == 16
    assert {planned for time, _, _, planned in found if 10 < time <= 120} == {16}
    assert found[-1][3] <= 5  # two cores' work
    assert found[-1][1].leader


def test_the_reason_compares_candidates_in_words():
    reason = steps(Autopilot(target=5.0, limits=(1, 16), learn=60.0))[-1][2].reason
    assert "% late and" in reason
    assert "core-seconds a minute" in reason


def test_of_the_candidates_given_the_cheapest_that_is_fit_leads():
    few = Autopilot(
        target=5.0,
        limits=(1, 16),
        learn=60.0,
        candidates=(
            Static(executors=1, name="one"),
            Static(executors=4, name="four"),
            Static(executors=9, name="nine"),
        ),
    )
    assert steps(few)[-1][1].leader == "four"


def test_where_nothing_is_fit_the_peak_leads():
    policy = Autopilot(target=5.0, limits=(1, 16), learn=60.0, candidates=(Static(executors=1, name="one"),))
    assert steps(policy)[-1][1].leader == "Maximum"


def test_the_guard_takes_the_control_back_when_reality_and_rehearsal_part():
    policy = Autopilot(target=5.0, limits=(1, 16), learn=60.0, probation=60.0)

    def slow(seen):
        return replace(seen, latency=Latency(mean=30.0)) if seen.time > 200 else seen

    found = steps(policy, seconds=300.0, change=slow)
    assert all(p == 16 for time, _, _, p in found if 245 < time < 280)
    assert any("in time" in d.reason for _, _, d, _ in found)


def test_the_guard_counts_on_where_a_step_saw_no_batch_end():
    """In an overload batches outlast a period, and every second step knows no response."""
    policy = Autopilot(target=5.0, limits=(1, 16), learn=60.0, probation=60.0)

    def slow(seen):
        if seen.time <= 200:
            return seen
        told = Latency() if seen.time % 10 else Latency(mean=30.0)
        return replace(seen, latency=told, stages=tuple(replace(s, latency=told) for s in seen.stages))

    found = steps(policy, seconds=300.0, change=slow)
    assert any("in time" in d.reason for _, _, d, _ in found)


def test_late_rows_are_counted_where_the_plant_tells_them_by_query():
    """As attached queries do: nothing was ever late, and rehearsals could be late by half as much again as was asked."""
    policy = Autopilot(target=5.0, limits=(1, 16), learn=60.0)

    def by_query(seen):
        told = Latency(9.0, 8.0, 12.0, 13.0, 14.0)
        return replace(seen, latency=Latency(), stages=tuple(replace(s, latency=told) for s in seen.stages))

    budget = steps(policy, seconds=100.0, change=by_query)[-1][1].budget
    assert budget.late > 0.5 * budget.rows > 0


def test_queries_that_share_the_executors_are_rehearsed_together():
    def twice(seen):
        other = replace(seen.stages[0], name="other")
        return replace(seen, stages=(*seen.stages, other))

    policy = Autopilot(target=5.0, limits=(1, 16), learn=60.0)
    alone, both = (steps(policy, seconds=300.0, change=change)[-1][2] for change in (None, twice))
    assert both.predicted[Metric.EXECUTORS] >= 2 * alone.predicted[Metric.EXECUTORS] - 1


@pytest.mark.parametrize("spec", ["steps:rate=200,factor=3", "map2:rate=300,dispersion=100"])
def test_it_meets_the_target_for_much_less_than_the_peak(spec):
    stream = load(spec, 1200.0, 2)
    outcomes = {
        p.name: run_policy(SparkLike(stream.arrivals, COSTS, 16, 16, 1), p, 5.0, 1200.0, metric=Metric.LATENCY_MEAN, target=5.0)
        for p in (Autopilot(target=5.0, limits=(1, 16)), Static(executors=16))
    }  # fmt: skip
    assert outcomes["Autopilot"].quality.violation_share <= 0.05
    assert outcomes["Autopilot"].core_seconds < 0.6 * outcomes["Static"].core_seconds


def test_names_of_candidates_must_differ():
    with pytest.raises(PenstockError, match="same name"):
        Autopilot(candidates=(Ds2(knob=Knob.EXECUTORS), Ds2(knob=Knob.EXECUTORS)))


def test_a_record_that_stands_alone_leaves_half_of_its_lead_to_spare():
    calm = ((0, 2.0), (1, 2.0), (2, 2.0))
    assert _spare(calm, 180.0) == 1.0
    assert _spare(((0, 2.0), (1, 8.0), (2, 4.0)), 180.0) == pytest.approx(1.25)
    assert _spare((*calm, (3, 6.0)), 190.0) == pytest.approx(3.0)  # this minute breaks the record
    assert _spare((), 0.0) == 1.0
