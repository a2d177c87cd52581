import math

import pytest

from penstock import PenstockError
from penstock.preference.pid import Pid, PidState, Relay, RelayState


def test_the_output_is_the_sum_of_the_three_terms():
    pid = Pid(kp=2.0, ki=0.5, kd=1.0, setpoint=1.0)
    state, first = pid.step(PidState(), 0.6)
    assert first == pytest.approx(2 * 0.4 + 0.5 * 0.4)
    _, second = pid.step(state, 0.8)
    assert second == pytest.approx(2 * 0.2 + 0.5 * 0.6 - 1.0 * 0.2)


def test_the_output_is_clamped():
    assert Pid(kp=10.0, setpoint=1.0, limit=0.3).step(PidState(), 0.0)[1] == 0.3


def test_errors_do_not_wind_up_while_the_output_is_saturated():
    pid = Pid(kp=1.0, ki=1.0, setpoint=1.0, limit=0.5)
    state = PidState()
    for _ in range(100):
        state, _ = pid.step(state, 0.0)
    assert abs(pid.ki * state.total) <= 0.5
    _, output = pid.step(state, 2.0)
    assert output == -0.5, "the controller must turn at once"


def test_an_actuator_at_its_end_stops_the_integral():
    pid = Pid(kp=0.1, ki=0.1, setpoint=1.0, limit=5.0)
    state = PidState()
    for _ in range(50):
        state, _ = pid.step(state, 0.5, held=1)
    assert state.total == 0.0


def test_the_relay_finds_the_gains_of_a_known_process():
    """Integrator with delay: y' = u(t - L). The limit cycle has amplitude a = d L and period 4 L."""
    relay, delay, push = Relay(push=0.1, setpoint=0.0, band=0.0, cycles=4, patience=1000), 20, 0.1
    state, y, queue = RelayState(), 0.05, [0.0] * delay
    while not relay.done(state):
        state, output = relay.step(state, y)
        queue.append(output)
        y += queue.pop(0)
    kp, ki, kd = relay.gains(state)
    ku = 4 * push / (math.pi * push * delay)
    assert kp == pytest.approx(0.6 * ku, rel=0.15)
    assert ki == pytest.approx(1.2 * ku / (4 * delay), rel=0.15)
    assert kd == pytest.approx(0.075 * ku * 4 * delay, rel=0.15)


def test_without_a_cycle_no_gains_are_found():
    relay = Relay(patience=30)
    state = RelayState()
    while not relay.done(state):
        state, _ = relay.step(state, 0.1)
    assert relay.gains(state) is None


def test_a_limit_must_be_positive():
    with pytest.raises(PenstockError, match="positive"):
        Pid(kp=1.0, limit=0.0)
