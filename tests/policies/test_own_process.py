"""A policy in a process of its own answers as it does here."""

import os
from dataclasses import dataclass, replace

from penstock.core import Decision
from penstock.policies import Autopilot, Static
from penstock.policies.own_process import OwnProcess
from penstock.testing.equality import same
from penstock.testing.policy_suite import example_observations


def local():
    """A policy that no other process can import."""

    @dataclass(frozen=True)
    class Local:
        name: str = "Local"

        def start(self):
            return 0

        def step(self, state, observation):
            return state + 1, Decision.keep(f"in process {os.getpid()}")

    return Local()


def answers(policy, count=6):
    state, found = policy.start(), []
    for observation in example_observations(count):
        observation = replace(
            observation, stages=tuple(replace(s, trigger=1.0, overhead_time=0.1) for s in observation.stages)
        )
        state, decision = policy.step(state, observation)
        found.append(decision)
    return found


def test_it_answers_as_the_policy_itself_does_and_goes_when_it_is_closed():
    plain = Autopilot(target=5.0, limits=(1, 4), learn=2.0)
    apart = OwnProcess(plain)
    try:
        assert same(answers(apart), answers(plain))
        process = apart.thinker._process
        assert process is not None
        assert apart.thinker.cpu > 0
    finally:
        apart.close()
    assert process.poll() is not None


def test_a_policy_that_the_process_cannot_know_thinks_here():
    apart = OwnProcess(local())
    found = answers(apart, 3)
    apart.close()
    assert {d.reason for d in found} == {f"in process {os.getpid()}"}
    assert apart.thinker.problem


def test_a_process_that_dies_is_done_without():
    apart = OwnProcess(Static(executors=2))
    answers(apart, 1)
    apart.thinker._process.kill()
    apart.thinker._process.wait()
    assert len(answers(apart, 2)) == 2
    apart.close()
