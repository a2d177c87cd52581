from math import isnan, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core import Change, Knob
from penstock.core.capacity import Capacity
from penstock.core.changes_made import settling_time, steps_to_converge
from penstock.core.control_quality import figures, resources, times_of_changes
from penstock.core.journal import MemoryJournal
from penstock.core.metrics import Metric
from penstock.core.observation import Latency, Observation, StageObservation
from penstock.core.plant import Applied


def journal_of(workers, latencies, changes=()):
    journal = MemoryJournal()
    for i, (n, latency) in enumerate(zip(workers, latencies, strict=True)):
        stage = StageObservation("op", Capacity.steady(n), utilisation=1.8 / n, tuples_out=10.0)
        journal.observation(Observation(float(i + 1), 1.0, (stage,), latency=Latency(mean=latency)))
    for time, before, after in changes:
        change = Change(Knob.WORKERS, "op", after)
        journal.reconfiguration(time, Applied((change,)), {change: before})
    return journal.tables()


def test_figures_of_a_run_worked_out_by_hand():
    tables = journal_of([1, 1, 4, 4, 2], [0.9, 1.1, 0.2, 0.1, 0.3], [(2.0, 1, 4), (4.0, 4, 2)])
    got = figures(tables, target=0.5)
    assert got.duration == 5
    assert got.reconfigurations == 2
    assert got.reconfigurations_per_minute == pytest.approx(24)
    assert (got.violations, got.violation_share) == (2, pytest.approx(0.4))
    assert got.amplitude == pytest.approx(2.5)  # 3 and 2
    assert got.settling_time == pytest.approx(2.0)  # one burst of changes from 2 to 4
    assert got.resource_seconds == pytest.approx(12)
    assert got.overshoot == pytest.approx((0 + 0 + 1 + 1 + 0) / 5)  # two workers would have been enough
    assert got.latency_mean == pytest.approx(0.52)


def test_changes_far_apart_settle_at_once():
    assert figures(journal_of([1, 2], [1, 1], [(0.0, 1, 2), (100.0, 2, 3)])).settling_time == 0


def test_throughput_is_violated_from_below():
    got = figures(journal_of([1, 1], [1, 1]), metric=Metric.THROUGHPUT, target=11.0)
    assert got.violations == 2


def test_an_empty_journal_has_figures():
    got = figures(MemoryJournal().tables(), target=1.0)
    assert (got.reconfigurations, got.violations, got.resource_seconds) == (0, None, 0)


def test_frequency_counts_in_tenths_of_a_gigahertz():
    journal = MemoryJournal()
    changes = (Change(Knob.WORKERS, "op", 4), Change(Knob.FREQUENCY, "op", 1.6))
    journal.reconfiguration(1.0, Applied(changes), {changes[0]: 1, changes[1]: 2.0})
    assert figures(journal.tables()).amplitude == pytest.approx(5.0)  # 3 replicas and 4 steps of frequency


def test_a_new_routing_alone_is_a_rebalance_and_shedding_is_neither():
    journal = MemoryJournal()
    journal.reconfiguration(1.0, Applied((Change(Knob.ROUTING, "op", (0, 1)),)))
    journal.reconfiguration(2.0, Applied((Change(Knob.WORKERS, "op", 2), Change(Knob.ROUTING, "op", (0, 1)))))
    journal.reconfiguration(3.0, Applied((Change(Knob.SHEDDING, "op", 0.5),)))
    got = figures(journal.tables())
    assert (got.reconfigurations, got.rebalances) == (1, 1)


def changed(journal, time, source, **workers):
    changes = tuple(Change(Knob.WORKERS, where, n) for where, n in workers.items())
    journal.reconfiguration(time, Applied(changes), dict.fromkeys(changes, 1), source)


def test_a_change_that_was_decided_and_took_effect_counts_once():
    journal = MemoryJournal()
    for start in (0.0, 10.0, 20.0):
        changed(journal, start + 1.0, "policy", op=2 + start)
        changed(journal, start + 2.5, "took effect", op=2 + start)
    got = figures(journal.tables())
    assert got.reconfigurations == 3
    assert got.settling_time == 0


def test_a_change_that_was_decided_for_a_pipeline_and_took_effect_on_its_region_counts_once():
    journal = MemoryJournal()
    changed(journal, 1.0, "policy", **{"chain/0": 2, "chain/1": 2})
    changed(journal, 2.5, "took effect", chain=2)
    assert figures(journal.tables()).reconfigurations == 1


def test_decisions_that_one_batch_brings_are_one_change_and_those_by_hand_count_too():
    journal = MemoryJournal()
    changed(journal, 1.0, "policy", op=2)
    changed(journal, 2.0, "policy", op=3)
    changed(journal, 3.0, "took effect", op=3)
    changed(journal, 9.0, "took effect", op=4)  # nobody decided it
    changed(journal, 11.0, "policy", op=5)  # its batch never came
    assert figures(journal.tables()).reconfigurations == 3


def test_time_that_two_observations_cover_counts_once():
    """A first batch of a minute, reported 21.7 s after another had covered the time before."""
    journal = MemoryJournal()
    stage = StageObservation("op", Capacity.steady(2))
    for time, period in ((42.6, 42.6), (64.3, 64.3), (65.3, 1.0)):
        journal.observation(Observation(time, period, (stage,)))
    got = figures(journal.tables())
    assert got.duration == pytest.approx(65.3)
    assert got.resource_seconds == pytest.approx(2 * 65.3)
    assert got.mean_resources == pytest.approx(2)


@pytest.mark.parametrize(
    ("count", "slots", "cores"), [(2, 8.0, 4.0), (2, nan, 1.0), (0, 1.0, 0.0), (3, 3.0, 1.5)]
)
def test_executors_count_with_all_of_their_cores(count, slots, cores):
    share = Capacity.steady(0.5)
    stage = StageObservation("q", Capacity.steady(count), cpu_share=share)
    assert resources(Observation(1.0, 1.0, (stage,), executors=Capacity.steady(count), slots=slots)) == cores


@given(
    st.lists(st.tuples(st.floats(0.0, 50), st.floats(0.01, 100), st.integers(1, 8)), min_size=1, max_size=12),
    st.integers(1, 3),
)
def test_core_seconds_never_exceed_the_most_workers_times_the_duration(steps, in_turn):
    journal, now = MemoryJournal(), 0.0
    for pause, period, workers in steps:
        now += pause
        stages = (
            StageObservation(f"op {n}", Capacity.steady(workers), pool="workers") for n in range(in_turn)
        )
        journal.observation(Observation(now, period, tuple(stages)))
    got = figures(journal.tables())
    most = max(workers for _, _, workers in steps)
    assert got.resource_seconds <= most * got.duration * (1 + 1e-9)
    assert got.duration <= now + max(period for _, period, _ in steps) + 1e-6


def test_workers_that_stages_have_in_common_count_once_and_others_each():
    journal = MemoryJournal()
    stages = (("panes", 3, "a"), ("windows", 2, "a"), ("count", 1, "b"), ("alone", 1, ""), ("too", 1, ""))
    journal.observation(
        Observation(1.0, 1.0, tuple(StageObservation(s, Capacity.steady(n), pool=p) for s, n, p in stages))
    )
    assert figures(journal.tables()).resource_seconds == pytest.approx(3 + 1 + 1 + 1)


def test_workers_in_common_exceed_what_the_busiest_stage_needs_and_no_more():
    def overshoot(pool):
        journal = MemoryJournal()
        stages = (
            StageObservation(str(n), Capacity.steady(2), pool=pool, utilisation=rho) for n, rho in enumerate((1.0, 0.1))
        )  # fmt: skip
        journal.observation(Observation(1.0, 1.0, tuple(stages)))
        return figures(journal.tables()).overshoot

    assert (overshoot("workers"), overshoot("")) == (0.0, pytest.approx(1 / 3))


def test_a_second_run_in_the_same_journal_counts_by_its_own_clock():
    journal = MemoryJournal()
    stage = StageObservation("op", Capacity.steady(2))
    for time in (1.0, 2.0, 1.0, 2.0):
        journal.observation(Observation(time, 1.0, (stage,)))
    assert figures(journal.tables()).resource_seconds == 8


def test_where_nothing_was_measured_there_is_no_share_of_violations():
    unknown = float("nan")
    assert figures(journal_of([1], [unknown]), target=0.5).violations is None
    assert isnan(figures(journal_of([1, 1], [unknown, unknown]), target=0.5).violation_share)
    assert isnan(figures(journal_of([1, 1], [0.1, 0.9])).violation_share)
    assert figures(journal_of([1, 1, 1], [0.1, 0.9, unknown]), target=0.5).violation_share == 0.5


def test_a_policy_that_pauses_between_its_changes_takes_as_many_steps_to_converge_as_it_makes():
    pausing = [100.0, 115.0, 130.0]  # a change every 15 s, then calm
    assert steps_to_converge(pausing, [90.0], quiet=30.0) == 3
    assert settling_time(pausing, gap=5.0) == 0  # each of them is a burst of its own


def test_only_the_changes_until_it_is_calm_belong_to_a_step_of_the_load():
    assert steps_to_converge([10.0, 20.0, 200.0, 210.0], [5.0], quiet=30.0) == 2
    assert steps_to_converge([150.0, 160.0], [5.0], quiet=30.0) == 2  # it may begin late
    assert steps_to_converge([1.0], [5.0], quiet=30.0) == 0  # before the step


def test_steps_to_converge_are_a_mean_over_the_steps_of_the_load_and_end_with_the_next_one():
    restless = [float(t) for t in range(0, 200, 10)]
    assert steps_to_converge(restless, [0.0, 100.0], quiet=30.0) == 10
    assert steps_to_converge([10.0, 110.0, 120.0], [0.0, 100.0], quiet=30.0) == 1.5


def test_a_load_without_steps_has_nothing_to_converge_to():
    assert isnan(steps_to_converge([10.0], [], quiet=30.0))


def test_times_of_changes_are_those_at_which_they_took_effect():
    journal = journal_of([1, 2], [1, 1], [(2.0, 1, 2), (4.0, 2, 3)])
    assert times_of_changes(journal) == [2.0, 4.0]
