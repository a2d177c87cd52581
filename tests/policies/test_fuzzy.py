import timeit
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core import Knob
from penstock.core.capacity import Capacity
from penstock.core.errors import PenstockError
from penstock.core.observation import Observation, StageObservation
from penstock.policies import Fuzzy
from penstock.policies.fuzzy import RULES, infer, rounded, speed_grades, splitting_grades

FAST, ACCEPTABLE, SLOW = 0.3, 0.9, 1.5
#: Table 2 of the paper at points where one rule alone holds.
TABLE = [
    (FAST, 1.0, FAST, 0.5, 0.5),
    (FAST, 9.0, FAST, 0.5, 0.5),
    (FAST, 1.0, ACCEPTABLE, 0.5, 1.0),
    (FAST, 1.0, SLOW, 0.5, 1.5),
    (ACCEPTABLE, 1.0, FAST, 1.0, 0.5),
    (ACCEPTABLE, 1.0, ACCEPTABLE, 1.0, 1.0),
    (ACCEPTABLE, 1.0, SLOW, 1.0, 1.5),
    (ACCEPTABLE, 9.0, FAST, 1.25, 0.5),
    (ACCEPTABLE, 9.0, ACCEPTABLE, 1.25, 1.0),
    (ACCEPTABLE, 9.0, SLOW, 1.0, 1.5),
    (SLOW, 1.0, FAST, 1.5, 0.75),
    (SLOW, 1.0, ACCEPTABLE, 1.5, 1.25),
    (SLOW, 9.0, SLOW, 1.25, 1.5),
]


@pytest.mark.parametrize(("panes", "splitting", "windows", "first", "second"), TABLE)
def test_each_rule_alone_gives_its_constants(panes, splitting, windows, first, second):
    assert infer(panes, splitting, windows) == (first, second)


def reference(rho1, sigma, rho2):
    """The same inference with numpy's interpolation as membership functions."""
    terms1 = [
        np.interp(rho1, [0.5, 0.9], [1, 0]),
        np.interp(rho1, [0.5, 0.9, 1.3], [0, 1, 0]),
        np.interp(rho1, [0.9, 1.3], [0, 1]),
    ]
    terms2 = [
        np.interp(rho2, [0.5, 0.9], [1, 0]),
        np.interp(rho2, [0.5, 0.9, 1.3], [0, 1, 0]),
        np.interp(rho2, [0.9, 1.3], [0, 1]),
    ]
    split = [np.interp(sigma, [1.5, 4.5], [1, 0]), np.interp(sigma, [1.5, 4.5], [0, 1])]
    weights = [min(terms1[p], terms2[w], split[s] if s >= 0 else 1.0) for p, s, w, _, _ in RULES]
    return np.average([r[3] for r in RULES], weights=weights), np.average(
        [r[4] for r in RULES], weights=weights
    )


def test_inference_on_a_grid_equals_the_reference():
    for rho1 in np.linspace(0, 1.6, 33):
        for rho2 in np.linspace(0, 1.6, 33):
            for sigma in np.linspace(0, 6, 13):
                assert infer(rho1, sigma, rho2) == pytest.approx(reference(rho1, sigma, rho2), abs=1e-12)


@given(st.floats(0, 1e6), st.floats(0, 1e6), st.floats(0, 1e6))
def test_grades_add_up_to_one_and_factors_stay_within_half(rho1, sigma, rho2):
    for grades in (speed_grades(rho1), splitting_grades(sigma)):
        assert sum(grades) == pytest.approx(1)
        assert all(-1e-12 <= g <= 1 for g in grades)
    assert all(0.5 - 1e-9 <= f <= 1.5 + 1e-9 for f in infer(rho1, sigma, rho2))


@pytest.mark.parametrize(
    ("n", "factor", "rho", "expected"),
    [(1, 1.24, 1.0, 1), (1, 1.25, 1.1, 2), (2, 1.25, 0.9, 3), (2, 1.1, 1.01, 3), (3, 1.1, 1.01, 4), (2, 0.5, 0.45, 1), (2, 0.5, 0.5, 2),
     (2, 0.6, 0.55, 2), (3, 0.79, 0.733, 3), (3, 0.5, 0.3, 2), (4, 1.5, 1.4, 6), (5, 0.5, 0.4, 3), (10, 1.0, 0.9, 10)],
)  # fmt: skip
def test_rounding_takes_care_of_small_numbers(n, factor, rho, expected):
    assert rounded(n, factor, rho) == expected


def two_stage(panes, windows, rho1, rho2, splitting=1.0, time=2.5, frequency=None, shedding=0.0):
    first = StageObservation(
        "panes",
        Capacity.steady(panes),
        utilisation=rho1,
        splitting=splitting,
        frequency=frequency,
        shedding=shedding,
    )
    return Observation(
        time, 2.5, (first, StageObservation("windows", Capacity.steady(windows), utilisation=rho2))
    )


def settle(policy, demand1, demand2, steps=40, splitting=1.0, start=(1, 1)):
    """Closed loop with a constant demand in workers; the numbers it goes through."""
    state, (n, m), path = policy.start(), start, []
    for step in range(steps):
        seen = two_stage(n, m, demand1 / n, demand2 / m, splitting, 2.5 * (step + 1))
        state, decision = policy.step(state, seen)
        n, m = (
            int(decision.number(Knob.WORKERS, "panes", n)),
            int(decision.number(Knob.WORKERS, "windows", m)),
        )
        path.append((n, m))
    return path


@given(
    st.floats(0.1, 20),
    st.floats(0.1, 20),
    st.sampled_from([1.0, 9.0]),
    st.integers(1, 12),
    st.integers(1, 12),
)
def test_under_a_constant_demand_it_ends_and_keeps_up(demand1, demand2, splitting, n, m):
    path = settle(Fuzzy(limit=64), demand1, demand2, splitting=splitting, start=(n, m))
    last = path[-1]
    assert last[0] >= min(demand1, 1e9) / 1.1
    assert last[1] >= demand2 / 1.1
    if max(last) <= 3:
        assert len(set(path[-10:])) == 1, path


def test_it_settles_near_the_setpoint_in_few_steps():
    path = settle(Fuzzy(limit=64), 14.0, 7.0)
    assert path.index(path[-1]) <= 10
    assert 14 <= path[-1][0] <= 17
    assert 7 <= path[-1][1] <= 9


def test_both_stages_are_reduced_in_proportion_to_the_limit():
    _, decision = Fuzzy(limit=8).step(Fuzzy(limit=8).start(), two_stage(6, 2, 1.5, 0.9))
    assert decision.number(Knob.WORKERS, "panes", 6) + decision.number(Knob.WORKERS, "windows", 2) == 8
    assert "reduced to the limit of 8" in decision.reason
    assert not decision.feasible


def test_windows_of_which_none_has_ended_are_neither_fast_nor_slow():
    seen = two_stage(2, 2, 1.3, float("nan"), time=2.5)
    decision = Fuzzy(limit=16).step(Fuzzy().start(), seen)[1]
    assert decision.number(Knob.WORKERS, "panes", 2) == 3
    assert decision.number(Knob.WORKERS, "windows", 2) >= 2
    calm = Fuzzy(limit=16).step(Fuzzy().start(), two_stage(4, 4, 0.4, float("nan"), time=2.5))[1]
    assert calm.number(Knob.WORKERS, "windows", 4) == 4


def test_stages_that_work_in_turn_may_each_have_all_workers():
    seen = two_stage(2, 2, 1.3, 1.3, time=2.5)
    limited = [replace(s, workers=replace(s.workers, limit=3)) for s in seen.stages]
    for pool, both in (("workers", 6), ("", 3)):
        stages = tuple(replace(s, pool=pool) for s in limited)
        decision = Fuzzy().step(Fuzzy().start(), replace(seen, stages=stages))[1]
        assert sum(decision.number(Knob.WORKERS, s.name, 2) for s in stages) == both


def test_no_stage_is_wanted_beyond_its_own_limit():
    seen = two_stage(4, 1, 2.0, 2.0, time=2.5)
    stages = tuple(replace(s, pool="workers", workers=replace(s.workers, limit=4)) for s in seen.stages)
    decision = Fuzzy(limit=8).step(Fuzzy().start(), replace(seen, stages=stages))[1]
    assert [(c.where, c.number) for c in decision.changes] == [("windows", 2)]


def test_it_decides_as_often_as_it_is_asked():
    """A run that is looked at every second is not left behind for two and a half."""
    policy, state = Fuzzy(limit=6), Fuzzy(limit=6).start()
    workers = 1
    for second in (1.0, 2.0):
        seen = replace(two_stage(workers, workers, 2.0, 2.0, time=second), period=1.0)
        state, decision = policy.step(state, seen)
        workers = int(decision.number(Knob.WORKERS, "panes", workers))
    assert workers == 3


def test_it_decides_on_the_mean_of_an_interval():
    policy = Fuzzy(interval=2.5)
    state = policy.start()
    for i in range(9):
        seen = replace(two_stage(4, 4, 1.8 if i == 3 else 0.8, 0.9, time=0.25 * (i + 1)), period=0.25)
        state, decision = policy.step(state, seen)
        assert not decision.changes
    state, decision = policy.step(state, replace(two_stage(4, 4, 0.8, 0.9, time=2.5), period=0.25))
    assert "rho 0.90" in decision.reason


def test_a_short_batch_counts_as_much_as_the_time_it_stands_for():
    """Micro-batches of a run that falls behind are as long as they take: two of 0.1 s are nothing beside one of 2.4 s."""
    policy = Fuzzy(interval=2.5)
    state, time = policy.start(), 0.0
    for seconds, rho in ((0.05, 0.1), (0.05, 0.1), (2.4, 1.2)):
        time += seconds
        state, decision = policy.step(state, replace(two_stage(1, 1, rho, rho, time=time), period=seconds))
    assert decision.number(Knob.WORKERS, "panes", 1) == 2, decision.reason


def test_frequency_is_lowered_as_far_as_the_setpoint_allows():
    policy = Fuzzy(frequencies=(1.0, 1.5, 2.0))
    seen = two_stage(4, 1, 0.6, 0.9, frequency=Capacity.steady(2.0))
    _, decision = policy.step(policy.start(), seen)
    workers = decision.number(Knob.WORKERS, "panes", 4)
    frequency = decision.number(Knob.FREQUENCY, "panes", 2.0)
    assert 4 * 0.6 / workers * 2.0 / frequency <= 0.9 + 1e-9


def test_shedding_begins_only_at_the_limit_and_ends_with_the_overload():
    policy = Fuzzy(limit=4, shedding=True)
    _, below = policy.step(policy.start(), two_stage(1, 1, 1.6, 0.9))
    assert below.value(Knob.SHEDDING, "panes") is None
    _, above = policy.step(policy.start(), two_stage(3, 1, 2.0, 0.9))
    assert above.value(Knob.SHEDDING, "panes") == pytest.approx(0.5, abs=0.01)
    _, over = policy.step(policy.start(), two_stage(3, 1, 0.4, 0.4, shedding=0.5))
    assert over.value(Knob.SHEDDING, "panes") == 0


def test_impossible_parameters_are_refused():
    with pytest.raises(PenstockError):
        Fuzzy(limit=1)
    with pytest.raises(PenstockError):
        Fuzzy(frequencies=(2.0, 1.0))


def test_an_inference_takes_less_than_fifty_microseconds():
    best = min(timeit.repeat(lambda: infer(0.7, 2.5, 1.1), number=500, repeat=5)) / 500
    assert best < 50e-6
