"""Hpa: the ratio rule of Kubernetes, its tolerance, windows and pace."""

from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.capacity import Capacity
from penstock.core.errors import PenstockError
from penstock.core.observation import Observation, StageObservation
from penstock.policies import Hpa


def seen(time=1.0, workers=4, **fields):
    return Observation(time, 1.0, (StageObservation("op", Capacity.steady(workers), **fields),))


def run(policy, observations):
    state, counts = policy.start(), []
    for observation in observations:
        state, decision = policy.step(state, observation)
        counts.append(int(decision.number(policy.knob, "op", observation.stages[0].workers.planned)))
    return counts


@given(st.integers(1, 60), st.floats(0.01, 1.3))
def test_the_ratio_rule_within_its_tolerance(workers, utilisation):
    policy = Hpa(down_window=0.0, limits=(1, 1000))
    (count,) = run(policy, [seen(workers=workers, utilisation=utilisation)])
    ratio = utilisation / 0.7
    expected = workers if abs(ratio - 1) <= 0.1 else max(1, ceil(workers * ratio - 1e-9))
    assert count == min(expected, workers + max(workers, 4))


def test_the_largest_wish_counts_and_lag_is_an_average_a_replica():
    policy = Hpa(lag=100.0, grow_least=100)
    assert run(policy, [seen(utilisation=0.7, backlog=1000.0)]) == [10]
    assert run(policy, [seen(utilisation=1.4, backlog=0.0)]) == [8]


def test_shrinking_waits_for_the_window_and_growing_does_not():
    low, high = {"utilisation": 0.2}, {"utilisation": 1.0}
    times = [seen(float(t), 4, **(high if t == 0 else low)) for t in range(0, 400, 20)]
    counts = run(Hpa(), times)
    assert counts[0] == 6  # at once
    # The wish of second 0 holds the number up for five minutes.
    assert all(c == 4 for c in counts[1:16])
    assert counts[16] == 2


def test_a_start_with_little_load_waits_for_the_window_too():
    counts = run(Hpa(), [seen(float(t), 8, utilisation=0.05) for t in range(0, 400, 20)])
    assert all(c == 8 for c in counts[:15])
    assert counts[-1] == 1


def test_within_the_pace_it_doubles_or_adds_four():
    policy = Hpa()
    observations = [
        seen(0.0, 2, utilisation=9.0),
        seen(5.0, 6, utilisation=9.0),
        seen(20.0, 6, utilisation=9.0),
    ]
    assert run(policy, observations) == [6, 6, 12]


def test_a_growth_that_is_as_old_as_the_pace_no_longer_holds_back():
    observations = [seen(0.0, 2, utilisation=9.0), seen(15.0, 6, utilisation=9.0)]
    assert run(Hpa(), observations) == [6, 12]


def test_a_policy_without_a_metric_is_refused():
    with pytest.raises(PenstockError, match="utilisation or a lag"):
        Hpa(utilisation=None)
