"""The contract suite over every policy."""

import pytest

from penstock.core import Change, Knob
from penstock.forecast.last_value import LastValue
from penstock.policies import (
    Autopilot,
    Dhalion,
    Ds2,
    Fuzzy,
    Hpa,
    Mead,
    Mpc,
    Organic,
    PipelinedFission,
    RuleBased,
    Spl,
    Static,
    Threshold,
)
from penstock.policies.dynamic_allocation import DynamicAllocation
from penstock.policies.lag import HeldToLag
from penstock.policies.threshold import CPU_LEVELS
from penstock.testing import check_policy

POLICIES = [
    Static(),
    Static(workers={"panes": 3}, executors=2, settings=(Change(Knob.CPU_SHARE, "panes", 0.5),)),
    Threshold(),
    Threshold(knob=Knob.EXECUTORS),
    Threshold(knob=Knob.CPU_SHARE, levels=CPU_LEVELS),
    Fuzzy(),
    Fuzzy(limit=6, interval=1.0, frequencies=(1.0, 2.0), shedding=True),
    RuleBased(),
    RuleBased(knob=Knob.EXECUTORS),
    Ds2(settle=3.0, window=3.0),
    Ds2(knob=Knob.EXECUTORS),
    Hpa(down_window=3.0),
    Hpa(knob=Knob.EXECUTORS, lag=100.0),
    Hpa(utilisation=None, lag=50.0),
    HeldToLag(Threshold(knob=Knob.EXECUTORS), lag=10.0),
    Dhalion(patience=2, settle=2.0),
    Dhalion(knob=Knob.EXECUTORS),
    DynamicAllocation(),
    Autopilot(target=0.05, limits=(1, 4), learn=5.0),
    Autopilot(target=0.05, candidates=(Threshold(knob=Knob.EXECUTORS), Ds2(knob=Knob.EXECUTORS)), learn=0.0),
    Spl(),
    Spl(knob=Knob.EXECUTORS),
    Mpc(),
    Mpc("latency", target=0.01, horizon=3, workers=(1, 8), drain=10.0),
    Mpc("latency", "power", speeds=(1.2, 1.6, 2.0), voltages=(0.8, 0.9, 1.0)),
    Mpc(stages=("panes", "windows"), budget=6),
    Mpc(knob=Knob.EXECUTORS, speed_knob=Knob.CPU_SHARE, speeds=CPU_LEVELS, forecaster=LastValue()),
    Mpc("latency", waiting="map", workers=(1, 6)),
    Organic(),
    Organic(warmup=1, samples=2, shrink=True, order="fission-first"),
    PipelinedFission(),
    Mead(best=2, least=200, interval=9.0, target=0.05),
    Mead("mg1", least=200, interval=9.0, replicas=(1, 2), percentile=0.95),
    Mead("gig1", least=200, interval=9.0),
    Mead("mg1", least=200, interval=9.0, knob=Knob.EXECUTORS, replicas=(1, 2, 3)),
    Mpc("latency", waiting="microbatch", margin=1.0, steep=3.0, knob=Knob.EXECUTORS),
    Mpc("latency", waiting="microbatch-map", knob=Knob.EXECUTORS),
]


@pytest.mark.parametrize("policy", POLICIES, ids=lambda p: f"{p.name}-{POLICIES.index(p)}")
def test_every_policy_keeps_the_contract(policy):
    check_policy(policy)
