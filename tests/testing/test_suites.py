"""The suites catch what they are meant to catch."""

from dataclasses import dataclass, field, replace

import pytest

from penstock.core import Change, Decision, Knob
from penstock.core.capacity import Capacity
from penstock.core.observation import Observation, StageObservation
from penstock.core.plant import Applied
from penstock.testing import ScriptedPlant, check_plant, check_policy
from penstock.testing.policy_suite import example_observations
from penstock.testing.recording import RecordingActuator


@dataclass(frozen=True)
class Remembers:
    """Keeps what it knows outside its state."""

    seen: list = field(default_factory=list)
    name: str = "Remembers"

    def start(self):
        return 0

    def step(self, state, observation):
        self.seen.append(1)
        return state, Decision.keep(f"{len(self.seen)}")


@dataclass(frozen=True)
class Silent:
    name: str = "Silent"

    def start(self):
        return 0

    def step(self, state, observation):
        return state, Decision()


@dataclass(frozen=True)
class MutatesState:
    name: str = "MutatesState"

    def start(self):
        return []

    def step(self, state, observation):
        state.append(1)
        return state, Decision.keep("x")


@dataclass(frozen=True)
class Fragile:
    name: str = "Fragile"

    def start(self):
        return 0

    def step(self, state, observation):
        return state, Decision.keep(f"{1 / observation.stages[0].arrival_rate:.2f}")


@dataclass(frozen=True)
class Misses:
    """Looks at nothing where the place does not exist."""

    where: str = ""
    name: str = "Misses"

    def start(self):
        return 0

    def step(self, state, observation):
        return state, Decision.keep("nothing to do")


@pytest.mark.parametrize(
    ("policy", "error"),
    [
        (Remembers(), AssertionError),
        (Silent(), AssertionError),
        (MutatesState(), AssertionError),
        (Fragile(), Exception),
        (Misses(), AssertionError),
    ],
)
def test_check_policy_catches(policy, error):
    with pytest.raises(error):
        check_policy(policy)


def script(step, plant):
    stage = StageObservation("op", Capacity.steady(1), arrival_rate=10.0, tuples_in=10.0, backlog=3.0)
    return Observation(plant.now() + 1e-9 * step, 1.0, (stage,))


class Careful(ScriptedPlant):
    """Refuses places it does not have."""

    def apply(self, decision):
        if any(c.where != "op" for c in decision.changes):
            return Applied(refused=tuple((c, "no such place") for c in decision.changes))
        return super().apply(decision)


DECISION = Decision((Change(Knob.WORKERS, "op", 3),), "test")


def check(plant, **options):
    check_plant(plant, lambda seconds: plant.wait_until(plant.now() + seconds), DECISION, **options)


def test_check_plant_passes_a_plant_that_keeps_the_contract():
    check(Careful(script, arrives_after=5.0), conserves=True)


def test_check_plant_catches_a_place_that_does_not_exist():
    with pytest.raises(AssertionError, match="does not exist"):
        check(ScriptedPlant(script))


def test_check_plant_catches_capacity_that_never_arrives():
    with pytest.raises(AssertionError, match="did not arrive"):
        check(Careful(script, arrives_after=1e9), arrives_within=20.0)


def test_check_plant_catches_time_that_stands_still():
    with pytest.raises(AssertionError, match="time stood still"):
        check(Careful(lambda step, plant: replace(script(0, plant), time=1.0)))


def test_check_plant_catches_lost_tuples():
    def losing(step, plant):
        seen = script(step, plant)
        return replace(seen, stages=(replace(seen.stages[0], tuples_in=7.0),))

    with pytest.raises(AssertionError, match="unaccounted"):
        check(Careful(losing), conserves=True)


def test_a_scripted_plant_shows_every_knob_that_was_set():
    plant = ScriptedPlant(example_observations())
    plant.observe()
    changes = (
        Change(Knob.WORKERS, "panes", 7), Change(Knob.CPU_SHARE, "panes", 0.5), Change(Knob.FREQUENCY, "panes", 1.5),
        Change(Knob.SHEDDING, "panes", 0.25), Change(Knob.PIPELINES, "chain", (0, 2)), Change(Knob.WORKERS, "chain", 3),
        Change(Knob.ROUTING, "windows", (1,) * 16), Change(Knob.EXECUTORS, "", 5),
    )  # fmt: skip
    plant.apply(Decision(changes, "all"))
    seen = plant.observe()
    assert all(seen.value(c.knob, c.where) == c.value for c in changes)
    assert seen.stage("chain/0").workers.observed == 3


def test_a_recording_actuator_remembers_and_delays():
    actuator = RecordingActuator(Knob.WORKERS, "op", value=2, arrives_after=3.0)
    actuator.set(5, now=1.0)
    assert actuator.capacity(2.0) == Capacity(5, 5, 2)
    assert actuator.capacity(4.0) == Capacity(5, 5, 5)
    actuator.set(1, now=5.0)
    assert actuator.capacity(5.0).observed == 1  # shrinking is immediate
    assert actuator.calls == [(1.0, 5), (5.0, 1)]
