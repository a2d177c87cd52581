import threading

from penstock.core import Controller
from penstock.core.clock import WallClock
from penstock.core.controller import run
from penstock.core.plant import Clock
from penstock.policies import Static
from penstock.testing import ScriptedPlant
from penstock.testing.policy_suite import example_observations
from waiting import PATIENCE


def test_a_wait_lasts_until_its_time():
    clock = WallClock()
    assert isinstance(clock, Clock)
    assert clock.wait_until(clock.now() + 0.05)
    assert clock.now() >= 0.05


def test_a_time_that_is_over_is_not_waited_for():
    clock = WallClock()
    assert clock.wait_until(clock.now() - 2 * PATIENCE)
    assert clock.now() < PATIENCE


def test_stopping_ends_a_wait_and_the_loop_at_once():
    clock, plant = WallClock(), ScriptedPlant(example_observations(50))
    stopper = threading.Timer(0.1, clock.stop)
    stopper.start()
    run(Controller(plant, Static()), clock, period=2 * PATIENCE, until=20 * PATIENCE)
    assert clock.now() < PATIENCE
    stopper.join()
