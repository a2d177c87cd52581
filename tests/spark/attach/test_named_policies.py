"""Policies by name: what an attached query gets."""

import pytest

from penstock.core.capacity import Knob
from penstock.spark.attach.named_policies import POLICIES
from penstock.spark.attach.settings import Settings
from penstock.testing import check_policy


@pytest.mark.parametrize("name", sorted(POLICIES))
def test_every_named_policy_keeps_the_contract(name):
    check_policy(POLICIES[name](Settings(executors=(1, 4), target=3.0)))


def test_the_bounds_and_the_target_reach_the_policy():
    policy = POLICIES["mpc"](Settings(executors=(2, 5), target=3.0))
    assert (policy.workers, policy.target, policy.drain, policy.knob) == ((2, 5), 3.0, 3.0, Knob.EXECUTORS)
