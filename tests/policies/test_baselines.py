import pytest

from penstock.core import Change, Knob
from penstock.core.capacity import Capacity
from penstock.core.errors import PenstockError
from penstock.core.observation import Observation, StageObservation
from penstock.policies import Static, Threshold
from penstock.policies.threshold import CPU_LEVELS


def at(utilisation, workers=2, share=1.0):
    stage = StageObservation(
        "op", Capacity.steady(workers), utilisation=utilisation, cpu_share=Capacity.steady(share)
    )
    return Observation(1.0, 1.0, (stage,), executors=Capacity.steady(workers))


def test_static_sets_what_differs_and_then_rests():
    policy = Static(workers={"op": 2}, executors=4, settings=(Change(Knob.CPU_SHARE, "op", 0.5),))
    _, decision = policy.step(None, at(0.5))
    assert [str(c) for c in decision.changes] == ["executors 4", "op cpu_share 0.5"]
    assert not policy.step(None, Observation(1.0, 1.0, ()))[1].changes


@pytest.mark.parametrize(
    ("utilisation", "expected"), [(0.95, 3), (0.91, 3), (0.9, None), (0.5, None), (0.3, 1), (0.49, None)]
)
def test_threshold_moves_one_worker_when_the_band_is_left(utilisation, expected):
    _, decision = Threshold().step(None, at(utilisation))
    assert decision.value(Knob.WORKERS, "op") == expected  # at 0.49 one worker alone would be at 0.98


def test_threshold_moves_between_levels_of_cpu_share():
    policy = Threshold(high=0.7, low=0.5, knob=Knob.CPU_SHARE, levels=CPU_LEVELS)
    assert policy.step(None, at(0.8, share=0.55))[1].value(Knob.CPU_SHARE, "op") == 0.7
    assert policy.step(None, at(0.4, share=0.55))[1].value(Knob.CPU_SHARE, "op") == 0.4
    assert policy.step(None, at(0.8, share=1.0))[1].value(Knob.CPU_SHARE, "op") is None
    assert "highest level" in policy.step(None, at(0.8, share=1.0))[1].reason


def test_threshold_counts_executors_by_the_worst_stage():
    assert Threshold(knob=Knob.EXECUTORS).step(None, at(0.95))[1].value(Knob.EXECUTORS) == 3


def test_threshold_keeps_its_limits():
    assert not Threshold(limits=(2, 2)).step(None, at(0.1))[1].changes
    assert not Threshold(limits=(2, 2)).step(None, at(5.0))[1].changes


def test_impossible_parameters_are_refused():
    with pytest.raises(PenstockError, match="low < high"):
        Threshold(high=0.4)
    with pytest.raises(PenstockError, match="smaller one first"):
        Threshold(limits=(5, 2))
    with pytest.raises(PenstockError, match="needs levels"):
        Threshold(knob=Knob.CPU_SHARE)
