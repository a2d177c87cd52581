from hypothesis import given
from hypothesis import strategies as st

from penstock.sim.setting import Setting


def test_growth_arrives_after_the_delay():
    setting = Setting(2, limit=8, delay=3.0)
    setting.plan(5, now=1.0)
    assert setting.capacity().planned == 5
    assert setting.settle(3.9) == 2
    assert setting.settle(4.0) == 5


def test_shrinking_is_immediate_and_cancels_what_is_on_its_way():
    setting = Setting(4, delay=5.0)
    setting.plan(8, now=0.0)
    setting.plan(3, now=1.0)
    assert setting.amount == 3
    assert setting.settle(100.0) == 3


def test_asking_twice_does_not_postpone_the_arrival():
    setting = Setting(1, delay=4.0)
    setting.plan(3, now=0.0)
    setting.plan(3, now=2.0)


@given(st.lists(st.tuples(st.floats(0.01, 5.0), st.integers(1, 9)), max_size=30), st.floats(0.0, 6.0))
def test_what_was_planned_last_is_there_in_the_end(steps, delay):
    setting, now = Setting(1, delay=delay), 0.0
    for gap, amount in steps:
        now += gap
        setting.plan(amount, now)
        assert setting.amount <= max(amount, 1)
    setting.settle(now + delay + 1)
    assert setting.amount == setting.planned
