import pickle
import threading
from dataclasses import dataclass, replace

import pytest

from penstock.core import Change, Controller, Decision, Guards, Knob, RollbackRule
from penstock.core.batched_plant import BatchedPlant, BatchReport
from penstock.core.capacity import Capacity
from penstock.core.controller import run
from penstock.core.journal import Journal, MemoryJournal
from penstock.core.observation import Observation, StageObservation
from penstock.core.plant import Applied
from penstock.policies import Static, Threshold
from penstock.testing import ScriptedPlant
from penstock.testing.policy_suite import example_observations
from waiting import PATIENCE, until


@dataclass(frozen=True)
class Raises:
    every: int = 2
    name: str = "Raises"

    def start(self) -> int:
        return 0

    def step(self, state: int, observation: Observation) -> tuple[int, Decision]:
        if int(observation.time) % self.every == 0:
            raise ZeroDivisionError("a bug")
        return state + 1, Decision.keep(f"step {state}")


def test_a_step_observes_decides_guards_applies_and_records():
    journal = MemoryJournal()
    plant = ScriptedPlant(example_observations())
    step = Controller(plant, Static(workers={"panes": 5}), Guards(), journal).step()
    assert [str(c) for c in step.applied.changes] == ["panes workers 5"]
    assert [r["kind"] for r in journal.records] == ["run", "observation", "decision", "reconfiguration"]
    assert journal.records[-1]["changes"] == [["workers", "panes", 5, 2]]


def test_a_policy_that_raises_is_recorded_and_the_loop_goes_on():
    journal, told = MemoryJournal(), []
    loop = Controller(ScriptedPlant(example_observations()), Raises(), journal=journal, notify=told.append)
    for _ in range(6):
        assert loop.step() is not None
    assert loop.state.policy == 3  # every second step failed; the good ones kept their state
    assert len(journal.texts("warning")) == 3
    assert told == ["The policy Raises failed: ZeroDivisionError: a bug"]  # once on the terminal


def test_a_plant_that_fails_to_apply_is_recorded_and_asked_again():
    journal = MemoryJournal()
    plant = ScriptedPlant(example_observations(), fail_apply=[0, 1])
    loop = Controller(plant, Static(workers={"panes": 5}), Guards(cooldown=100), journal)
    steps = [loop.step() for _ in range(4)]
    assert [s.applied is not None for s in steps] == [False, False, True, False]
    assert len(journal.texts("warning")) == 2
    assert "could not apply panes workers 5" in journal.texts("warning")[0]


def test_a_plant_that_cannot_be_observed_costs_the_step_only():
    journal = MemoryJournal()
    loop = Controller(ScriptedPlant(example_observations(), fail_observe=[1]), Static(), journal=journal)
    assert [loop.step() is None for _ in range(3)] == [False, True, False]
    assert len(journal.texts("warning")) == 1


def test_a_dry_run_decides_and_records_but_does_not_act():
    journal, plant = MemoryJournal(), ScriptedPlant(example_observations())
    loop = Controller(plant, Static(workers={"panes": 5}), Guards(cooldown=3), journal, dry_run=True)
    wishes = [len(loop.step().decision.changes) for _ in range(6)]
    assert not plant.decisions
    assert wishes == [1, 0, 0, 1, 0, 0]
    assert {r["mode"] for r in journal.records if r["kind"] == "decision"} == {"dry-run"}


def test_a_paused_loop_observes_but_does_not_act_until_it_resumes():
    plant = ScriptedPlant(example_observations())
    loop = Controller(plant, Static(workers={"panes": 5}))
    loop.pause()
    loop.step()
    assert not plant.decisions
    loop.resume()
    loop.step()
    assert len(plant.decisions) == 1


def test_a_loop_continues_from_a_pickled_state():
    script = example_observations(20)
    whole = Controller(ScriptedPlant(script), Threshold(), Guards(cooldown=5))
    decisions = [whole.step().decision for _ in script]
    first = Controller(ScriptedPlant(script), Threshold(), Guards(cooldown=5))
    for _ in range(10):
        first.step()
    second = Controller(
        first.plant, Threshold(), Guards(cooldown=5), state=pickle.loads(pickle.dumps(first.state))
    )
    assert [second.step().decision for _ in range(10)] == decisions[10:]


def test_running_on_a_virtual_clock_steps_every_period_and_ends_with_the_plant():
    plant = ScriptedPlant(example_observations(5))
    assert run(Controller(plant, Static()), plant, period=1.0, until=100.0) == 5
    plant = ScriptedPlant(example_observations(50))
    assert run(Controller(plant, Static()), plant, period=2.0, until=10.0) == 5


def test_growth_waits_for_executors_that_are_on_their_way():
    plant = ScriptedPlant(example_observations(12), arrives_after=4.0)
    loop = Controller(plant, Threshold(knob=Knob.EXECUTORS, high=0.01, low=0.0))
    for _ in range(12):
        loop.step()
    assert [d.changes[0].value for d in plant.decisions] == [3, 4, 5]


def test_a_journal_that_cannot_be_written_does_not_stop_the_loop():
    class Full(Journal):
        def put(self, record):
            raise OSError(28, "No space left on device")

    told = []
    plant = ScriptedPlant(example_observations())
    loop = Controller(plant, Static(workers={"panes": 5}), journal=Full(), notify=told.append)
    assert loop.step().applied is not None
    loop.step()
    assert len(told) == 1
    assert "No space left" in told[0]


def test_a_decision_about_a_place_that_does_not_exist_does_not_stop_the_loop():
    change = Change(Knob.WORKERS, "nowhere", 3)
    for guards in (Guards(), Guards(total_workers=4, max_ratio=0.5, rollback=RollbackRule())):
        step = Controller(ScriptedPlant(example_observations()), Static(), guards).step()
        assert step is not None
        loop = Controller(ScriptedPlant(example_observations()), Wishes((change,)), guards)
        assert loop.step() is not None


@dataclass(frozen=True)
class Wishes:
    changes: tuple
    name: str = "Wishes"

    def start(self) -> None:
        return None

    def step(self, state: None, observation: Observation) -> tuple[None, Decision]:
        return None, Decision(self.changes, "wished")


class Hangs:
    """A policy that answers when the test says so."""

    name = "Hangs"

    def __init__(self):
        self.asked, self.go = threading.Event(), threading.Event()
        self.seen = []

    def start(self):
        return None

    def step(self, state, observation):
        self.seen.append(observation)
        self.asked.set()
        self.go.wait()
        return state, Decision((Change(Knob.WORKERS, "op", 3),), "at last")


class Batches(BatchedPlant):
    """A plant of one stage; each batch is told by its utilisation."""

    def __init__(self):
        super().__init__(room=1000)
        self.workers, self.number = 1, 0

    def report(self, figures, newest):
        self.number += 1
        stage = StageObservation("op", Capacity.steady(self.workers), utilisation=figures, tuples_in=10.0)
        return BatchReport(Observation(float(self.number), 1.0, (stage,)))

    def apply(self, decision):
        self.workers = int(decision.changes[0].number)
        return Applied(decision.changes)


def observations(journal):
    return [r for r in journal.records if r["kind"] == "observation"]


def test_a_policy_that_hangs_delays_neither_batches_nor_the_journal():
    plant, policy, journal = Batches(), Hangs(), MemoryJournal()
    controller = Controller(plant, policy, journal=journal, period=0.0).start()
    plant.put(0.5)
    assert policy.asked.wait(PATIENCE)
    for _ in range(50):
        plant.put(0.5)  # returns at once, however long the policy thinks
    until(lambda: len(observations(journal)) == 51, "every observation in the journal")
    assert plant.workers == 1
    policy.go.set()
    until(lambda: plant.workers == 3, "the late decision")
    controller.stop()
    assert not controller.running


def test_a_policy_that_never_answers_does_not_keep_a_controller_from_stopping():
    plant, policy, journal = Batches(), Hangs(), MemoryJournal()
    controller = Controller(plant, policy, journal=journal, period=0.0).start()
    plant.put(0.5)
    assert policy.asked.wait(PATIENCE)
    plant.put(0.5)
    controller.stop()
    assert len(observations(journal)) == 2
    assert not journal.texts("decision")


def test_a_policy_that_does_not_answer_is_told_of_once(monkeypatch):
    monkeypatch.setattr("penstock.core.controller.PATIENCE", 0.0)
    plant, policy, told = Batches(), Hangs(), []
    controller = Controller(plant, policy, period=0.0, notify=told.append).start()
    plant.put(0.5)
    assert policy.asked.wait(PATIENCE)
    plant.put(0.5)
    until(lambda: told, "a warning")
    plant.put(0.5)
    controller.stop()
    assert len(told) == 1
    assert "has not answered" in told[0]


def test_a_policy_decides_on_the_mean_of_all_batches_since_its_last_decision():
    plant, policy = Batches(), Hangs()
    policy.go.set()
    controller = Controller(plant, policy, journal=MemoryJournal())
    for utilisation in (0.9, 0.0, 0.9, 0.0):
        plant.put(utilisation)
    controller.step()
    assert policy.seen[0].stage("op").utilisation == pytest.approx(0.45)
    assert policy.seen[0].stage("op").tuples_in == 40
    assert policy.seen[0].period == 4


@dataclass(frozen=True)
class Says:
    """A policy with one answer to everything."""

    answer: object
    name: str = "Says"

    def start(self) -> int:
        return 0

    def step(self, state, observation):
        return self.answer() if callable(self.answer) else self.answer


@pytest.mark.parametrize(
    "answer",
    [
        "four workers, please",
        None,
        (0, "four"),
        lambda: (0, Decision(("four",), "as I said")),
        (0, 4),
        lambda: (0, Decision((Change(Knob.WORKERS, "panes", float("nan")),), "who knows")),
        lambda: (0, Decision((Change(Knob.WORKERS, "panes", "4"),), "a word")),
    ],
)
def test_nonsense_costs_the_decision_and_nothing_else(answer):
    journal, plant = MemoryJournal(), ScriptedPlant(example_observations())
    controller = Controller(plant, Says(answer), journal=journal)
    steps = [controller.step() for _ in range(3)]
    assert not plant.decisions
    assert {s.mode for s in steps} == {"failed"}
    assert len(journal.texts("warning")) == 3
    assert controller.state.policy == 0


def test_a_wish_beyond_what_the_plant_could_give_is_cut_down():
    plant = Batches()
    plant.report = lambda figures, newest: BatchReport(
        Observation(1.0, 1.0, (StageObservation("op", Capacity.steady(1, limit=2)),))
    )
    plant.put(0.5)
    wish = Decision((Change(Knob.WORKERS, "op", 300_000),), "more")
    Controller(plant, Says((0, wish))).step()
    assert plant.workers == 2


def test_without_a_policy_everything_is_observed_and_nothing_decided():
    journal, plant = MemoryJournal(), Batches()
    controller = Controller(plant, journal=journal, period=0.0).start()
    for _ in range(5):
        plant.put(0.5)
    controller.stop()
    assert [r["kind"] for r in journal.records[1:]] == ["observation"] * 5


def test_batches_under_an_older_plan_are_recorded_but_not_decided_on():
    journal, plant, policy = MemoryJournal(), Batches(), Hangs()
    policy.go.set()
    made = plant.report
    plant.report = lambda figures, newest: replace(made(figures, newest), current=figures < 1)
    controller = Controller(plant, policy, journal=journal)
    plant.put(5.0)
    assert controller.step() is None
    plant.put(0.5)
    controller.step()
    assert [o.stage("op").utilisation for o in policy.seen] == [0.5]
    assert len(observations(journal)) == 2


def test_an_inbox_that_is_full_drops_the_oldest_and_says_so():
    journal, plant = MemoryJournal(), Batches()
    for _ in range(1003):
        plant.put(0.5)
    Controller(plant, journal=journal).step()
    assert len(observations(journal)) == 1000
    assert "3 batches were not recorded" in journal.texts()[0]


def test_a_listener_that_raises_costs_a_warning():
    journal = MemoryJournal()
    controller = Controller(
        ScriptedPlant(example_observations()), Static(workers={"panes": 5}), journal=journal
    )
    controller.observed.add(lambda observation: 1 / 0)
    controller.stepped.add(lambda step: 1 / 0)
    assert controller.step().applied is not None
    assert len([t for t in journal.texts() if "ZeroDivisionError" in t]) == 2


def test_a_plant_looks_after_its_capacity_before_each_observation_and_observing_does_not():
    class Tended(ScriptedPlant):
        calls = ""

        def maintain(self):
            self.calls += "m"
            if len(self.calls) > 2:
                raise RuntimeError("the cluster is gone")

        def observe(self):
            self.calls += "o"
            return super().observe()

    plant, journal = Tended(example_observations()), MemoryJournal()
    controller = Controller(plant, Static(), journal=journal)
    controller.step()
    controller.step()
    assert plant.calls == "momo"
    assert "the cluster is gone" in journal.texts()[0]


def test_a_started_controller_looks_at_a_plant_without_batches_every_period():
    journal = MemoryJournal()
    controller = Controller(
        ScriptedPlant(example_observations()), Static(workers={"panes": 5}), journal=journal, period=0.01
    ).start()
    until(lambda: len(journal.texts("decision")) >= 3, "three decisions")
    controller.stop()
    assert len(observations(journal)) >= 3
    assert len([r for r in journal.records if r["kind"] == "reconfiguration"]) == 1
