import pytest

from penstock.core import Capacity, Change, Knob, Metric, Observation, StageObservation
from penstock.core.control_quality import figures
from penstock.core.journal import MemoryJournal
from penstock.core.observation import Latency
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
    assert (got.reconfigurations, got.violations, got.resource_seconds) == (0, 0, 0)


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
