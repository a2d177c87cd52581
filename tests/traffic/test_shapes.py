"""Rate shapes: integral and inverse belong together."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.errors import PenstockError
from penstock.traffic.shapes import RateShape, daily, flash_crowd, ramp, steps

SHAPES = {
    "steps": steps((3.0, 2.0), (7.0, 0.5)),
    "repeated steps": steps((3.0, 2.0), (7.0, 0.5), period=10.0),
    "steps to nothing and back": steps((3.0, 0.0), (7.0, 2.0)),
    "ramp": ramp(5.0, 10.0, 4.0),
    "falling ramp": ramp(5.0, 10.0, 0.1),
    "daily": daily(20.0, 0.9),
    "daily with still nights": daily(20.0, 1.0),
    "flash crowd": flash_crowd(4.0, 6.0, 1.0, 3.0),
    "product": ramp(5.0, 10.0, 4.0) * steps((7.0, 2.0)),
    "product of cycles": daily(20.0, 0.5) * steps((3.0, 2.0), period=20.0),
}


@pytest.mark.parametrize("name", SHAPES)
def test_the_integral_is_the_integral_of_the_factor(name):
    shape = SHAPES[name]
    t = np.linspace(0.0, 53.0, 530_001)
    middle = (t[1:] + t[:-1]) / 2.0
    assert shape.integral(53.0) == pytest.approx((shape.factor(middle) * np.diff(t)).sum(), rel=1e-4)


@pytest.mark.parametrize("name", SHAPES)
@given(area=st.floats(0.0, 200.0))
def test_the_inverse_undoes_the_integral(name, area):
    shape = SHAPES[name]
    assert float(shape.integral(shape.inverse(area))) == pytest.approx(area, abs=1e-9)


@pytest.mark.parametrize("name", SHAPES)
def test_the_inverse_never_goes_back(name):
    times = SHAPES[name].inverse(np.linspace(0.0, 100.0, 10_001))
    assert np.all(np.diff(times) >= 0.0)


def test_the_mean_is_that_of_a_period_or_of_the_end():
    assert daily(20.0, 0.7).mean == pytest.approx(1.0)
    assert steps((3.0, 2.0)).mean == 2.0


def test_an_unrolled_cycle_is_the_cycle_up_to_its_end():
    t = np.linspace(0.0, 39.9, 500)
    assert daily(20.0, 0.7).unrolled(40.0).factor(t) == pytest.approx(daily(20.0, 0.7).factor(t))


def test_a_product_is_the_product():
    t = np.linspace(0.01, 30.0, 1000)
    left, right = flash_crowd(4.0, 6.0, 1.0, 3.0), ramp(2.0, 9.0, 3.0)
    assert (left * right).factor(t) == pytest.approx(left.factor(t) * right.factor(t), rel=0.01)


@pytest.mark.parametrize(
    "make",
    [
        lambda: RateShape(()),
        lambda: RateShape(((1.0, 1.0),)),
        lambda: RateShape(((0.0, 1.0), (5.0, 1.0), (4.0, 1.0))),
        lambda: RateShape(((0.0, -1.0),)),
        lambda: RateShape(((0.0, float("nan")),)),
        lambda: steps((3.0, 0.0)),
        lambda: steps((3.0, 2.0), period=2.0),
        lambda: RateShape(((0.0, 0.0), (1.0, 0.0)), period=2.0),
        lambda: ramp(5.0, 5.0, 2.0),
        lambda: daily(0.0),
        lambda: daily(10.0, 1.5),
        lambda: flash_crowd(1.0, 5.0, 0.0, 1.0),
        lambda: daily(10.0) * ramp(1.0, 2.0, 3.0),
        lambda: daily(10.0) * daily(20.0),
    ],
)
def test_impossible_shapes_are_refused(make):
    with pytest.raises(PenstockError):
        make()
