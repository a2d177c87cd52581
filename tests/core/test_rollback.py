import pytest

from penstock.core import Change, Controller, Decision, Guards, Knob, RollbackRule
from penstock.core.capacity import Capacity
from penstock.core.errors import PenstockError
from penstock.core.journal import MemoryJournal
from penstock.core.metrics import Metric
from penstock.core.observation import Latency, Observation, StageObservation
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
