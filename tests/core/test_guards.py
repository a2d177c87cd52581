from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core import Bound, Change, Decision, Guards, Knob, RollbackRule
from penstock.core.allocation import fit
from penstock.core.capacity import Capacity
from penstock.core.errors import PenstockError
from penstock.core.guards import GuardState, check, register
from penstock.core.observation import KeyLoad, Observation, RegionObservation, StageObservation
from penstock.core.rollback import RollbackState


def at(time=0.0, planned=4, observed=None, backlog=0.0, rate=100.0, limit=float("inf")):
    workers = Capacity(planned, planned, planned if observed is None else observed, limit)
    return Observation(time, 1.0, (StageObservation("op", workers, arrival_rate=rate, backlog=backlog),))


def want(count, where="op"):
    return Decision((Change(Knob.WORKERS, where, count),), "wanted")


def passed(guards, count, state=None, **seen):
    _, verdict = check(guards, state or GuardState(), at(**seen), want(count))
    return verdict.decision.number(Knob.WORKERS, "op", default=-1), verdict.notes


def test_a_change_that_changes_nothing_is_dropped_without_a_word():
    assert passed(Guards(), 4) == (-1, ())


def test_bounds_hold_a_wish_inside():
    guards = Guards(bounds=(Bound(Knob.WORKERS, 2, 6),))
    assert passed(guards, 9)[0] == 6
    assert passed(guards, 1)[0] == 2
    assert passed(guards, 9, planned=6) == (-1, ("op workers 9 limited to 6 by the bounds",))


def test_bounds_of_one_place_leave_others_alone():
    seen = Observation(0.0, 1.0, tuple(StageObservation(n, Capacity.steady(4)) for n in ("op", "other")))
    wish = Decision(tuple(Change(Knob.WORKERS, n, 9) for n in ("op", "other")), "more")
    made = check(Guards(bounds=(Bound(Knob.WORKERS, 1, 2, "other"),)), GuardState(), seen, wish)[1].decision
    assert [str(c) for c in made.changes] == ["op workers 9", "other workers 2"]


def test_bounds_of_a_region_hold_its_stages():
    guards = Guards(bounds=(Bound(Knob.CPU_SHARE, 0.2, 0.5, "a"),))
    made, _ = left(guards, two_regions(0.0, 0.0), *(Change(Knob.CPU_SHARE, n, 0.9) for n in ("a-0", "b-0")))
    assert made == {(Knob.CPU_SHARE, "a-0"): 0.5, (Knob.CPU_SHARE, "b-0"): 0.9}


def test_a_bound_of_a_place_that_is_not_there_is_refused_with_the_known_ones():
    guards = Guards(bounds=(Bound(Knob.WORKERS, 1, 2, "opp"),))
    with pytest.raises(PenstockError, match="Unknown stage or region 'opp'; did you mean 'op'"):
        passed(guards, 9)
    check(guards, GuardState(), at(), Decision.keep("nothing to do"))  # what fails can still be recorded
    check(guards, GuardState(), Observation(0.0, 1.0, ()), want(9))  # nothing is known before a query starts


def test_the_limit_of_the_plant_is_a_bound():
    assert passed(Guards(), 9, limit=5)[0] == 5


def test_contradicting_bounds_are_refused():
    with pytest.raises(PenstockError, match="contradict"):
        Bound(Knob.WORKERS, 3, 2)


def test_at_most_so_much_change_per_step():
    assert passed(Guards(max_ratio=0.5), 20)[0] == 6
    assert passed(Guards(max_ratio=0.5), 0)[0] == 2
    assert passed(Guards(max_ratio=0.1), 20, planned=1)[0] == 2  # one whole worker is always allowed
    assert passed(Guards(max_step={Knob.WORKERS: 1}), 20)[0] == 5


def test_cooldown_holds_the_next_change_of_the_same_place_back():
    guards = Guards(cooldown=10)
    state = register(guards, GuardState(), at(time=5), want(6).changes)
    count, notes = passed(guards, 8, state, time=14)
    assert count == -1
    assert "cooldown" in notes[0]
    assert passed(guards, 8, state, time=15)[0] == 8


def test_shrinking_may_have_a_longer_cooldown():
    guards = Guards(cooldown=1, cooldown_shrink=30)
    state = register(guards, GuardState(), at(time=0), want(6).changes)
    assert passed(guards, 8, state, time=5)[0] == 8
    assert passed(guards, 2, state, time=5)[0] == -1


def test_no_growth_while_capacity_is_still_arriving():
    count, notes = passed(Guards(), 6, observed=2)
    assert count == -1
    assert "2 of 4 have arrived" in notes[0]
    assert passed(Guards(), 3, observed=2)[0] == 3
    assert passed(Guards(wait_for_arrivals=False), 6, observed=2)[0] == 6


def test_no_shrinking_while_a_backlog_is_worked_off():
    count, notes = passed(Guards(catch_up=2.0), 2, backlog=201)
    assert count == -1
    assert "backlog of 201" in notes[0]
    assert passed(Guards(catch_up=2.0), 2, backlog=199)[0] == 2
    assert passed(Guards(catch_up=2.0), 8, backlog=1e6)[0] == 8
    assert passed(Guards(catch_up=None), 2, backlog=1e6)[0] == 2


def test_a_stage_that_tells_no_backlog_does_not_shrink_while_those_before_it_have_one():
    seen = at(backlog=1e6)
    before = replace(seen.stages[0], downstream=("after",))
    after = StageObservation("after", Capacity.steady(4))
    for stage, held in ((after, True), (replace(after, backlog=0.0), False)):
        both = replace(seen, stages=(before, stage))
        made = check(Guards(), GuardState(), both, want(2, "after"))[1].decision.changes
        assert bool(made) is not held


def test_executors_are_not_released_while_any_stage_has_a_backlog():
    seen = replace(at(backlog=1e6), executors=Capacity.steady(4))
    decision = Decision((Change(Knob.EXECUTORS, "", 2),), "wanted")
    assert not check(Guards(), GuardState(), seen, decision)[1].decision.changes


def test_so_many_changes_an_hour():
    guards, state = Guards(max_changes_per_hour=2), GuardState()
    for time in (0, 100):
        state = register(guards, state, at(time=time), want(5).changes)
    assert passed(guards, 8, state, time=3599)[0] == -1
    assert passed(guards, 8, state, time=3600)[0] == 8


def test_shedding_is_never_held_back():
    guards = Guards(cooldown=100, max_changes_per_hour=0)
    decision = Decision((Change(Knob.SHEDDING, "op", 0.2),), "overload")
    state = register(guards, GuardState(), at(), decision.changes)
    assert check(guards, state, at(time=1), Decision((Change(Knob.SHEDDING, "op", 0.5),), ""))[
        1
    ].decision.changes


def test_all_stages_together_stay_below_the_common_limit():
    stages = tuple(StageObservation(n, Capacity.steady(2)) for n in "ab")
    decision = Decision((Change(Knob.WORKERS, "a", 9), Change(Knob.WORKERS, "b", 3)), "more")
    _, verdict = check(Guards(total_workers=8), GuardState(), Observation(0, 1, stages), decision)
    assert [str(c) for c in verdict.decision.changes] == ["a workers 6"]  # b keeps its two
    assert "reduced in proportion" in verdict.notes[-1]


@given(
    planned=st.integers(0, 20), observed=st.integers(0, 20), wanted=st.integers(0, 40), backlog=st.floats(0, 1e6),
    time=st.floats(0, 1e5), last=st.floats(0, 1e5), low=st.integers(0, 5), width=st.integers(0, 20),
)  # fmt: skip
def test_whatever_is_wanted_what_passes_is_allowed(
    planned, observed, wanted, backlog, time, last, low, width
):
    guards = Guards(bounds=(Bound(Knob.WORKERS, low, low + width),), max_ratio=0.5, cooldown=60)
    state = register(guards, GuardState(), at(time=last), want(1).changes)
    count, _ = passed(guards, wanted, state, time=time, planned=planned, observed=observed, backlog=backlog)
    if count < 0:
        return
    assert count != planned
    assert abs(count - planned) <= max(1, planned // 2)
    assert time - last >= 60
    assert not (count > planned and planned > observed)
    assert not (count < planned and backlog > 200)


def keyed(planned=4, backlog=0.0, **capacity):
    stage = StageObservation(
        "op",
        Capacity.steady(planned, **capacity),
        arrival_rate=100.0,
        backlog=backlog,
        keys=KeyLoad((0.5, 0.5), routing=(0, 3)),
        frequency=Capacity.steady(1.0),
    )
    other = StageObservation("other", Capacity.steady(1))
    return Observation(0.0, 1.0, (stage, other))


def left(guards, observation, *changes):
    _, verdict = check(guards, GuardState(), observation, Decision(changes, "wanted"))
    return {(c.knob, c.where): c.value for c in verdict.decision.changes}, verdict.notes


TWO = (Change(Knob.WORKERS, "op", 2), Change(Knob.ROUTING, "op", (0, 1)))


def test_a_routing_that_came_with_a_refused_change_of_workers_is_not_applied():
    made, notes = left(Guards(), keyed(backlog=10_000.0), *TWO)
    assert made == {}
    assert "op routing (0, 1) dropped: it came with op workers 2" in notes
    assert left(Guards(), keyed(), *TWO)[0] == {(c.knob, c.where): c.value for c in TWO}


def test_other_places_go_on_where_one_is_held_back():
    growth = Change(Knob.WORKERS, "other", 3)
    assert left(Guards(), keyed(backlog=10_000.0), *TWO, growth)[0] == {(Knob.WORKERS, "other"): 3}


def test_what_was_meant_for_more_workers_than_are_left_is_not_applied():
    eight = (
        Change(Knob.WORKERS, "op", 8),
        Change(Knob.ROUTING, "op", (0, 7)),
        Change(Knob.FREQUENCY, "op", 0.5),
    )
    assert left(Guards(), keyed(limit=5), *eight)[0] == {(Knob.WORKERS, "op"): 5}
    assert left(Guards(total_workers=7), keyed(), *eight)[0] == {(Knob.WORKERS, "op"): 6}
    assert len(left(Guards(), keyed(), *eight)[0]) == 3


def test_a_routing_stands_where_the_workers_are_already_there():
    changes = (Change(Knob.WORKERS, "op", 4), Change(Knob.ROUTING, "op", (1, 2)))
    assert left(Guards(), keyed(backlog=10_000.0), *changes)[0] == {(Knob.ROUTING, "op"): (1, 2)}


def test_shedding_works_whatever_becomes_of_the_workers():
    changes = (Change(Knob.WORKERS, "op", 2), Change(Knob.SHEDDING, "op", 0.5))
    assert left(Guards(), keyed(backlog=10_000.0), *changes)[0] == {(Knob.SHEDDING, "op"): 0.5}


def two_regions(busy_backlog, idle_backlog):
    """Two regions of one pipeline each; the second has no arrivals to speak of."""
    stages = (
        StageObservation("a-0", Capacity.steady(4), region="a", arrival_rate=100.0, backlog=busy_backlog),
        StageObservation("b-0", Capacity.steady(4), region="b", backlog=idle_backlog),
    )
    regions = (RegionObservation("a", Capacity.steady(4)), RegionObservation("b", Capacity.steady(4)))
    return Observation(0.0, 1.0, stages, regions=regions)


@pytest.mark.parametrize(
    ("region", "backlogs", "shrinks"),
    [
        ("a", (201.0, 0.0), False),
        ("a", (199.0, 1e6), True),  # what waits for another region is not this one's
        ("b", (1e6, 0.0), True),
        ("b", (0.0, 1.0), False),  # nobody knows how fast it is worked off
    ],
)
def test_each_region_is_held_by_its_own_backlog(region, backlogs, shrinks):
    wish = Decision((Change(Knob.WORKERS, region, 2),), "wanted")
    verdict = check(Guards(catch_up=2.0), GuardState(), two_regions(*backlogs), wish)[1]
    assert bool(verdict.decision.changes) == shrinks


def test_a_change_is_remembered_by_knob_and_place():
    state = GuardState()
    for time, where in ((1.0, "op"), (2.0, "other"), (3.0, "op")):
        state = register(Guards(), state, at(time=time), want(5, where).changes)
    assert state.last(Knob.WORKERS, "op") == 3.0
    assert state.last(Knob.WORKERS, "other") == 2.0
    assert state.last(Knob.CPU_SHARE, "op") == float("-inf")
    assert len(state.changed) == 2


def test_an_hour_has_3600_seconds():
    state = register(Guards(), GuardState(), at(time=0.0), want(5).changes)
    assert register(Guards(), state, at(time=3599.0), want(6).changes).hour == (0.0, 3599.0)
    assert register(Guards(), state, at(time=3600.0), want(6).changes).hour == (3600.0,)


def test_what_is_applied_goes_on_probation_unless_it_is_said_otherwise():
    guards = Guards(rollback=RollbackRule())
    known = GuardState(rollback=RollbackState(metric=(0.2,)))
    grown = register(guards, known, at(), want(5).changes)
    assert grown.rollback.probation.grows
    assert not register(guards, known, at(), want(3).changes).rollback.probation.grows
    for nothing in (
        register(guards, grown, at(), want(6).changes, on_probation=False),
        register(Guards(), known, at(), want(6).changes),
    ):
        assert nothing.rollback.probation is None
        assert nothing.rollback.metric == (0.2,)
    shed = (Change(Knob.SHEDDING, "op", 0.5),)
    assert register(guards, grown, at(), shed).rollback == grown.rollback


@pytest.mark.parametrize(
    ("now", "wish", "waits"),
    [((0,), (0, 2), 5.0), ((0, 2), (0,), 50.0), ((0, 1), (0, 2), 5.0)],
)
def test_pipelines_grow_and_shrink_by_their_number(now, wish, waits):
    """A shrinking may have to wait longer than a growth, or than a change that is neither."""
    region = RegionObservation("a", Capacity.steady(1), ("x", "y", "z"), now)
    stage = StageObservation("a-0", Capacity.steady(1), region="a")
    change = Change(Knob.PIPELINES, "a", wish)
    guards = Guards(cooldown=5.0, cooldown_shrink=50.0)
    state = register(guards, GuardState(), Observation(0.0, 1.0, (stage,), regions=(region,)), (change,))
    for time, passes in ((waits - 1, False), (waits, True)):
        seen = Observation(time, 1.0, (stage,), regions=(region,))
        verdict = check(guards, state, seen, Decision((change,), ""))[1]
        assert bool(verdict.decision.changes) == passes, (time, verdict.notes)


def test_a_backlog_below_one_row_is_none():
    assert passed(Guards(catch_up=2.0), 2, backlog=0.5, rate=0.01)[0] == 2
    assert passed(Guards(catch_up=2.0), 2, backlog=1.0, rate=0.01)[0] == -1
    assert passed(Guards(catch_up=2.0), 2, backlog=200.0)[0] == 2  # just what may wait


def test_a_region_and_its_pipelines_stand_or_fall_together():
    """The second change is of the region's pipeline: it is not made where the region's own is refused."""
    stage = StageObservation("a-0", Capacity.steady(4), region="a", cpu_share=Capacity.steady(1.0))
    other = StageObservation("b-0", Capacity.steady(4), region="b", cpu_share=Capacity.steady(1.0))
    region = RegionObservation("a", Capacity.steady(4))
    seen = Observation(10.0, 1.0, (stage, other), regions=(region,))
    state = register(Guards(), GuardState(), seen, (Change(Knob.WORKERS, "a", 3),))
    wish = (
        Change(Knob.WORKERS, "a", 6),
        Change(Knob.CPU_SHARE, "a-0", 0.5),
        Change(Knob.CPU_SHARE, "b-0", 0.5),
        Change(Knob.SHEDDING, "a", 0.1),
    )
    verdict = check(Guards(cooldown=100.0), state, seen, Decision(wish, "wanted"))[1]
    assert set(verdict.decision.changes) == {wish[2], wish[3]}
    assert len(verdict.notes) == 2  # why the first was refused, and that the second went with it


def test_all_that_was_said_of_one_place_is_told():
    seen = keyed(planned=4)
    wish = Decision((Change(Knob.WORKERS, "op", 20), Change(Knob.CPU_SHARE, "op", 9.0)), "wanted")
    guards = Guards(bounds=(Bound(Knob.WORKERS, 1, 10), Bound(Knob.CPU_SHARE, 0, 2)), max_ratio=0.5)
    notes = " / ".join(check(guards, GuardState(), seen, wish)[1].notes)
    assert "the bounds" in notes
    assert "the largest step" in notes


@pytest.mark.parametrize("change", [Change(Knob.SHEDDING, "op", 0.9), Change(Knob.ROUTING, "op", (1, 1, 0))])
def test_the_largest_step_is_of_resources(change):
    kept = check(Guards(max_ratio=0.01), GuardState(), keyed(planned=4), Decision((change,), ""))[1]
    assert kept.decision.changes == (change,)
    assert kept.notes == ()


def split_regions():
    """A source, a region of 4 replicas in two pipelines, and one of 2 in one: 10 workers in all."""
    regions = (
        RegionObservation("in", Capacity.steady(1), kind="source"),
        RegionObservation("a", Capacity.steady(4), pipelines=(0, 1)),
        RegionObservation("b", Capacity.steady(2)),
    )
    return Observation(0.0, 1.0, (), regions=regions)


WORKERS_A, SPLIT_B = Change(Knob.WORKERS, "a", 6), Change(Knob.PIPELINES, "b", (0, 1, 2))


@pytest.mark.parametrize(
    ("limit", "wanted", "made"),
    [
        (14, (WORKERS_A,), {(Knob.WORKERS, "a"): 6}),
        (12, (WORKERS_A,), {(Knob.WORKERS, "a"): 5}),  # 12 and 2 in proportion are 10 and 2
        (14, (SPLIT_B,), {(Knob.PIPELINES, "b"): (0, 1, 2)}),
        (13, (SPLIT_B,), {}),  # the replicas of a split region count for each of its pipelines
        (18, (WORKERS_A, SPLIT_B), {(Knob.WORKERS, "a"): 6, (Knob.PIPELINES, "b"): (0, 1, 2)}),
        (14, (WORKERS_A, SPLIT_B), {(Knob.WORKERS, "a"): 6}),  # without the split there is room
        (12, (WORKERS_A, SPLIT_B), {(Knob.WORKERS, "a"): 5}),
    ],
)
def test_a_common_limit_counts_replicas_times_pipelines(limit, wanted, made):
    assert left(Guards(total_workers=limit), split_regions(), *wanted)[0] == made


def test_what_goes_with_a_number_of_workers_is_dropped_where_the_common_limit_left_another():
    shares = Change(Knob.CPU_SHARE, "a", 0.5)
    made, notes = left(Guards(total_workers=12), split_regions(), WORKERS_A, shares)
    assert made == {(Knob.WORKERS, "a"): 5}
    assert "a cpu_share 0.5 dropped: it was meant for 6 workers" in notes
    made, _ = left(Guards(total_workers=14), split_regions(), WORKERS_A, shares)
    assert made == {(Knob.WORKERS, "a"): 6, (Knob.CPU_SHARE, "a"): 0.5}


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"cooldown": -1.0}, "cooldown is negative"),
        ({"cooldown_shrink": -0.1}, "cooldown is negative"),
        ({"max_ratio": 0.0}, "max_ratio must be above 0"),
    ],
)
def test_guards_that_make_no_sense_are_told(given, says):
    with pytest.raises(PenstockError, match=says):
        Guards(**given)
    Guards(cooldown=0.0, cooldown_shrink=0.0, max_ratio=0.1)


def test_a_wish_without_a_limit_is_told_nothing():
    assert left(Guards(total_workers=14), split_regions(), WORKERS_A)[1] == ()
    assert passed(Guards(), 5, limit=5) == (5, ())


def test_the_limit_of_the_plant_is_told_in_its_own_words():
    workers = Capacity(4, 4, 4, 5, "the 5 slots of the application")
    seen = Observation(0.0, 1.0, (StageObservation("op", workers),))
    verdict = check(Guards(), GuardState(), seen, want(9))[1]
    assert verdict.notes == ("op workers 9 limited to 5 by the 5 slots of the application",)


def test_workers_of_a_place_that_nobody_reports_count_one_each():
    assert left(Guards(total_workers=12), split_regions(), Change(Knob.WORKERS, "new", 2))[0] == {
        (Knob.WORKERS, "new"): 2
    }
    made, notes = left(Guards(total_workers=11), split_regions(), Change(Knob.WORKERS, "new", 6))
    assert "16 workers wanted" in notes[0]
    assert made[Knob.WORKERS, "new"] == fit([8, 2, 6], 11)[2]


def test_a_region_of_two_pipelines_gets_whole_replicas_of_an_odd_number_of_workers():
    made, _ = left(Guards(total_workers=11), split_regions(), WORKERS_A)
    assert all(count == int(count) for (knob, _), count in made.items() if knob is Knob.WORKERS)


def test_what_goes_with_workers_that_the_common_limit_left_alone_stays():
    shares = Change(Knob.CPU_SHARE, "b", 0.5)
    wanted = (WORKERS_A, Change(Knob.WORKERS, "b", 1), shares)
    made, notes = left(Guards(total_workers=11), split_regions(), *wanted)
    assert made == {(Knob.WORKERS, "a"): 5, (Knob.WORKERS, "b"): 1, (Knob.CPU_SHARE, "b"): 0.5}
    assert "dropped" not in " / ".join(notes)


def test_all_that_was_said_is_told_whoever_said_it():
    guards = Guards(total_workers=12, bounds=(Bound(Knob.WORKERS, 1, 7),))
    _, notes = left(guards, split_regions(), Change(Knob.WORKERS, "a", 9))
    assert "limited to 7 by the bounds" in notes[0]
    assert "12 allowed in all" in notes[1]
    cut = (Change(Knob.WORKERS, "a", 9), Change(Knob.PIPELINES, "a", (0, 1, 2)))
    _, notes = left(Guards(bounds=(Bound(Knob.WORKERS, 1, 7),)), split_regions(), *cut)
    assert "limited to 7 by the bounds" in notes[0]
    assert "dropped: it was meant for more" in notes[1]


@pytest.mark.parametrize(
    "changes",
    [
        (Change(Knob.WORKERS, "op", 3), Change(Knob.WORKERS, "nowhere", 9)),
        (Change(Knob.ROUTING, "op", (1, 0, 1)),),
        (Change(Knob.CPU_SHARE, "op", 0.5), Change(Knob.ROUTING, "op", (1, 0, 1))),
    ],
)
def test_only_more_of_a_resource_is_a_growth(changes):
    known = GuardState(rollback=RollbackState(metric=(0.2,)))
    state = register(Guards(rollback=RollbackRule()), known, keyed(planned=4), changes)
    assert not state.rollback.probation.grows
