"""The contract suite over every policy."""

import pytest

from penstock.core import Change, Knob
from penstock.policies import Static, Threshold
from penstock.policies.threshold import CPU_LEVELS
from penstock.testing import check_policy

POLICIES = [
    Static(),
    Static(workers={"panes": 3}, executors=2, settings=(Change(Knob.CPU_SHARE, "panes", 0.5),)),
    Threshold(),
    Threshold(knob=Knob.EXECUTORS),
    Threshold(knob=Knob.CPU_SHARE, levels=CPU_LEVELS),
]


@pytest.mark.parametrize("policy", POLICIES, ids=lambda p: f"{p.name}-{POLICIES.index(p)}")
def test_every_policy_keeps_the_contract(policy):
    check_policy(policy)
