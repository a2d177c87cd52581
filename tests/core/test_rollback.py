from dataclasses import replace
from math import isnan, nan

import pytest

from penstock.core import Change, Controller, Decision, Guards, Knob, RollbackRule
from penstock.core.capacity import Capacity
from penstock.core.errors import PenstockError
from penstock.core.journal import MemoryJournal
from penstock.core.metrics import Metric
from penstock.core.observation import Latency, Observation, StageObservation
from penstock.core.rollback import BadChange, Probation, RollbackState, _verdict, begin, judge
from penstock.policies import Static
from penstock.testing import ScriptedPlant


def answering(latency_of, rate_of=lambda step: 100.0):
    """A plant whose latency depends on its workers."""

    def script(step, plant):
        workers = plant.setting(Knob.WORKERS, "op", 2)
        stage = StageObservation(
            "op", Capacity.steady(2), arrival_rate=rate_of(step), tuples_out=50.0 + workers
        )
        return Observation(float(step), 1.0, (stage,), latency=Latency(mean=latency_of(workers)))

    return ScriptedPlant(script)


def run(plant, rule, steps=30, wanted=4):
    journal = MemoryJournal()
    loop = Controller(plant, _From(3, wanted), Guards(rollback=rule), journal)
    for _ in range(steps):
        loop.step()
    return [c.value for d in plant.decisions for c in d.changes], journal


class _From(Static):
    """Asks for a number of workers from a step on."""

    def __init__(self, start, wanted):
        object.__setattr__(self, "workers", {"op": wanted})
        object.__setattr__(self, "executors", None)
        object.__setattr__(self, "settings", ())
        object.__setattr__(self, "name", "From")
        object.__setattr__(self, "_from", start)

    __slots__ = ("_from",)

    def step(self, state, observation):
        if observation.time < self._from:
            return state, Decision.keep("not yet")
        return super().step(state, observation)


RULE = RollbackRule(settle=2.0, samples=3)


def test_a_change_that_made_the_target_worse_is_undone_and_remembered():
    changes, journal = run(answering(lambda n: 0.1 * n), RULE)
    assert changes == [4, 2]  # and never 4 again, although the policy wants it at every step
    undone = [r for r in journal.records if r["kind"] == "decision" and r.get("mode") == "rollback"]
    assert "latency_mean went from 0.2 to 0.4" in undone[0]["reason"]
    assert any("undone before" in n for r in journal.records for n in r.get("notes", ()))


def test_a_change_that_helped_stays():
    assert run(answering(lambda n: 1.0 / n), RULE)[0] == [4]


def test_there_is_no_verdict_when_the_load_moved():
    changes, journal = run(answering(lambda n: 0.1 * n, lambda step: 100.0 if step < 4 else 200.0), RULE)
    assert changes == [4]
    assert any("load moved" in n for r in journal.records for n in r.get("notes", ()))


def test_there_is_no_verdict_after_a_burst_though_the_load_is_as_before_by_then():
    """A burst leaves a backlog, and rows that waited in it are late for long: more workers are not to blame."""
    changes, journal = run(answering(lambda n: 0.1 * n, lambda step: 1000.0 if step == 4 else 100.0), RULE)
    assert changes == [4]
    assert any("load moved" in n for r in journal.records for n in r.get("notes", ()))


def overloaded(backlog_of):
    """A plant whose rows are late by a backlog, of seconds of arrivals, that more workers only let grow more slowly."""

    def script(step, plant):
        workers = Capacity.steady(plant.setting(Knob.WORKERS, "op", 2))
        stage = StageObservation("op", workers, arrival_rate=100.0, backlog=100.0 * backlog_of(step))
        return Observation(float(step), 1.0, (stage,), latency=Latency(mean=1.0 + step))

    return ScriptedPlant(script)


@pytest.mark.parametrize("grown", [4, 1])
def test_a_growth_is_not_undone_where_a_backlog_was_worked_off_but_a_shrinking_is(grown):
    # Small enough at first that the shrinking passes too, and at the end that only what was before tells of it.
    plant = overloaded(lambda step: 1.0 if step in (1, 2, 3) or step >= 9 else 5.0)
    changes, journal = run(plant, RULE, steps=12, wanted=grown)
    assert changes == ([4] if grown == 4 else [1, 2])
    said = [n for r in journal.records for n in r.get("notes", ()) if "backlog was worked off" in n]
    assert len(said) == (grown == 4)


def test_a_growth_under_a_backlog_is_undone_where_the_guard_against_backlogs_is_off():
    journal = MemoryJournal()
    plant = overloaded(lambda step: 5.0)
    loop = Controller(plant, _From(3, 4), Guards(rollback=RULE, catch_up=None), journal)
    for _ in range(12):
        loop.step()
    assert [c.value for d in plant.decisions for c in d.changes] == [4, 2]


def test_a_growth_that_did_not_raise_throughput_is_undone():
    rule = RollbackRule(metric=Metric.THROUGHPUT, gain=0.1, settle=2.0)
    assert run(answering(lambda n: 0.1), rule)[0] == [4, 2]  # 52 -> 54 is less than a tenth more


def test_the_memory_ends_when_the_load_changes():
    changes, _ = run(answering(lambda n: 0.1 * n, lambda step: 100.0 if step < 20 else 150.0), RULE, steps=40)
    assert changes[:3] == [4, 2, 4]


def test_no_verdict_before_the_capacity_has_arrived():
    plant = answering(lambda n: 0.1 * n)
    plant._delay = 10.0
    changes, _ = run(plant, RULE, steps=12)
    assert changes == [4]


def test_a_metric_without_a_direction_cannot_be_judged():
    with pytest.raises(PenstockError, match="no better direction"):
        RollbackRule(metric=Metric.ARRIVAL_RATE)


def test_undoing_restores_what_was_there():
    change = Change(Knob.WORKERS, "op", 4)
    assert run(answering(lambda n: 0.1 * n), RULE)[0][-1] == 2 != change.value


@pytest.mark.parametrize("wrong", [{"samples": 0}, {"settle": -0.5}, {"load_change": 0.0}])
def test_a_rule_without_samples_time_or_tolerance_is_refused(wrong):
    with pytest.raises(
        PenstockError, match=r"^A rollback rule needs samples >= 1, settle >= 0 and load_change > 0\.$"
    ):
        RollbackRule(**wrong)
    assert RollbackRule(samples=1, settle=0.0).samples == 1


def verdict(rule, before, after, load=(100.0, 100.0), grows=True, peak=0.0):
    """What becomes of a change from 2 to 4 workers, by the metric and the load before and after it."""
    change = Change(Knob.WORKERS, "op", 4)
    undo = (Change(Knob.WORKERS, "op", 2),)
    probation = Probation((change,), undo, grows, 0.0, before, load[0], 0.0, peak, (after,), (load[1],))
    state, decision, note = _verdict(rule, RollbackState(), probation, now=50.0)
    return decision is not None, note, state.bad


@pytest.mark.parametrize(
    ("metric", "before", "after", "gain", "undone"),
    [
        (Metric.LATENCY_MEAN, 0.2, 0.21, None, False),  # a tenth worse is allowed
        (Metric.LATENCY_MEAN, 0.2, 0.23, None, True),
        (Metric.LATENCY_MEAN, 0.2, 0.19, 0.1, True),  # a growth must bring a tenth
        (Metric.LATENCY_MEAN, 0.2, 0.15, 0.1, False),
        (Metric.THROUGHPUT, 100.0, 112.0, 0.1, False),
        (Metric.THROUGHPUT, 100.0, 80.0, None, True),
        (Metric.LATENCY_MEAN, 0.0, 0.3, None, True),  # nothing to compare with: any rise counts
        (Metric.LATENCY_MEAN, 0.0, 0.0, None, False),
        (Metric.THROUGHPUT, 0.0, 5.0, None, False),
        (Metric.LATENCY_MEAN, 0.25, 0.5, -1.0, False),  # just what is needed is enough
    ],
)
def test_a_verdict_is_by_the_share_that_the_metric_gained(metric, before, after, gain, undone):
    found, note, _ = verdict(RollbackRule(metric=metric, gain=gain), before, after)
    assert found == undone
    assert found or not note  # what stays is not talked about


def test_shrinking_needs_no_gain():
    rule = RollbackRule(gain=0.5)
    assert verdict(rule, 0.2, 0.2)[0]
    assert not verdict(rule, 0.2, 0.2, grows=False)[0]


@pytest.mark.parametrize(
    ("load", "peak", "moved"),
    [
        ((100.0, 120.0), 0.0, False),
        ((100.0, 121.0), 0.0, True),
        ((100.0, 79.0), 0.0, True),
        ((0.5, 0.55), 0.0, False),
        ((0.5, 0.7), 0.0, True),
        ((0.0, 0.1), 0.0, True),
        ((nan, 100.0), 0.0, False),
        ((100.0, nan), 0.0, False),
        ((100.0, 100.0), 200.0, False),
        ((100.0, 100.0), 201.0, True),
    ],
)
def test_a_load_that_moved_by_more_than_the_rule_allows_ends_the_probation_without_a_verdict(
    load, peak, moved
):
    undone, note, bad = verdict(RULE, 0.2, 0.4, load, peak=peak)
    assert undone != moved
    assert ("no verdict" in note) == moved
    assert [b.until for b in bad] == ([] if moved else [50.0 + RULE.memory])


def test_what_is_undone_is_named():
    change = Change(Knob.WORKERS, "op", 4), Change(Knob.WORKERS, "sink", 3)
    probation = Probation(change, change, True, 0.0, 0.2, 100.0, 0.0, 0.0, (0.4,), (100.0,))
    _, decision, note = _verdict(RULE, RollbackState(), probation, now=1.0)
    assert f"after {change[0]}, {change[1]}, a gain of -100% where -10% is needed" in decision.reason
    assert note == "rollback"


def seen(time, observed, latency=0.2, stage="op"):
    """What a plant shows whose stage works with so many of four workers."""
    of = StageObservation(stage, Capacity(4, 4, observed), arrival_rate=100.0)
    return Observation(float(time), 1.0, (of,), latency=Latency(mean=latency))


def on_probation(begun=100.0):
    change, undo = Change(Knob.WORKERS, "op", 4), Change(Knob.WORKERS, "op", 2)
    return RollbackState(probation=Probation((change,), (undo,), True, begun, 0.2, 100.0))


def test_the_probation_begins_when_all_capacity_is_there():
    waiting, decision, note = judge(RULE, on_probation(), seen(105, observed=3))
    assert (decision, note) == (None, "")
    assert isnan(waiting.probation.arrived)
    arrived, decision, note = judge(RULE, waiting, seen(110, observed=4))
    assert (decision, note) == (None, "")
    assert arrived.probation.arrived == 110.0


def test_capacity_that_never_comes_ends_the_probation_after_a_while():
    rule = RollbackRule(patience=60.0)
    still, _, note = judge(rule, on_probation(), seen(160, observed=2))
    assert still.probation is not None
    assert note == ""
    over, decision, note = judge(rule, still, seen(161, observed=2))
    assert (over.probation, decision) == (None, None)
    assert note == "op workers 4 did not arrive in 60 s; no verdict on it"
    assert over.metric == (0.2, 0.2)  # what was measured is kept


def test_a_place_that_is_gone_is_not_waited_for():
    arrived, _, _ = judge(RULE, on_probation(), seen(105, observed=1, stage="another"))
    assert arrived.probation.arrived == 105.0


@pytest.mark.parametrize(
    ("change", "metric", "probation"),
    [
        (Change(Knob.WORKERS, "op", 4), (0.2,), True),
        (Change(Knob.WORKERS, "op", 2), (0.2,), False),  # as it was
        (Change(Knob.WORKERS, "gone", 4), (0.2,), False),
        (Change(Knob.SHEDDING, "op", 0.5), (0.2,), False),
        (Change(Knob.WORKERS, "op", 4), (), False),  # nothing to compare with
    ],
)
def test_only_a_change_that_can_be_undone_and_judged_is_put_on_probation(change, metric, probation):
    stage = StageObservation("op", Capacity.steady(2), arrival_rate=100.0, shedding=0.1)
    now = Observation(7.0, 1.0, (stage,), latency=Latency(mean=0.2))
    before = RollbackState(metric=metric, probation=on_probation().probation)
    state = begin(before, now, (change,), grows=True)
    assert state.metric == metric
    assert (state.probation is not None) == probation
    if probation:
        assert (state.probation.begun, state.probation.undo) == (7.0, (Change(Knob.WORKERS, "op", 2),))


def test_a_rule_may_watch_one_place():
    rule = RollbackRule(metric=Metric.LATENCY_MEAN, where="op")
    stages = (
        StageObservation("op", Capacity.steady(2), latency=Latency(mean=0.9)),
        StageObservation("more", Capacity.steady(2), latency=Latency(mean=0.1)),
    )
    assert judge(rule, RollbackState(), Observation(1.0, 1.0, stages))[0].metric == (0.9,)


def test_the_memory_of_a_bad_change_ends_with_its_time():
    bad = BadChange(Knob.WORKERS, "op", 4, load=100.0, until=50.0)
    state = RollbackState(bad=(bad,))
    assert judge(RULE, state, seen(49, 4))[0].bad == (bad,)
    assert judge(RULE, state, seen(50, 4))[0].bad == ()


def test_samples_are_taken_from_the_settling_on_and_the_last_one_brings_the_verdict():
    state = on_probation(begun=100.0)
    verdicts = {}
    for time in range(101, 110):
        state, decision, note = judge(RULE, state, seen(time, 4, latency=0.4 if time != 104 else nan))
        verdicts[time] = decision is not None
        assert note == ("rollback" if decision is not None else "")
    # All there at 101, settled at 103; 104 has no latency: samples of 103, 105 and 106.
    assert [time for time, undone in verdicts.items() if undone] == [106]
    assert state.probation is None
    assert [b.value for b in state.bad] == [4]


def test_the_highest_load_of_a_probation_is_kept():
    state, _, _ = judge(RULE, on_probation(), replace(seen(101, 4), stages=loaded(150.0)))
    state, _, _ = judge(RULE, state, replace(seen(102, 4), stages=loaded(90.0)))
    assert state.probation.peak == 150.0
    state, _, _ = judge(
        RULE, state, replace(seen(102.5, 4), stages=loaded(300.0))
    )  # all there, not settled yet
    assert state.probation.peak == 300.0


def loaded(rate):
    return (StageObservation("op", Capacity.steady(4), arrival_rate=rate),)
