import pickle
from dataclasses import dataclass

from penstock.core import Change, Controller, Decision, Guards, Knob, Observation, RollbackRule
from penstock.core.controller import run
from penstock.core.journal import Journal, MemoryJournal
from penstock.policies import Static, Threshold
from penstock.testing import ScriptedPlant
from penstock.testing.policy_suite import example_observations


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
