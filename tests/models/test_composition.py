import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.models.composition import Composition, renewal
from penstock.models.fit_errors import interval_dispersion, joint_thirds
from penstock.models.simplex import correlation_error, third_order_error


def _draw(seed: int, factors: int, left: float = 1.0, base_states: int = 1) -> Composition:
    rng = np.random.default_rng(seed)
    return Composition(
        rng.uniform(0.05, 1.5, factors),
        rng.uniform(0.0, 0.99, factors),
        left,
        rng.uniform(-2, 2, factors),
        base_states,
    )


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 4))
def test_the_closed_forms_of_the_search_are_those_of_the_composed_map(seed: int, factors: int) -> None:
    shape = _draw(seed, factors)
    process = shape.process()
    assert process.mean == pytest.approx(1.0, rel=1e-10)
    assert (1 + process.scv) / 2 == pytest.approx(np.prod(1 + shape.variances), rel=1e-9)
    pairs = np.array([[1.0, 1.0], [2.0, 5.0], [10.0, 3.0]])
    thirds = joint_thirds(process, pairs)
    moment = process.moment(3) / 6
    misfit = third_order_error(shape.logits, shape.variances, shape.memory, pairs, thirds, moment)
    assert misfit == pytest.approx(0.0, abs=1e-7)
    lags = np.array([1.0, 2.0, 3.0, 5000.0])
    covariance = process.autocorrelation(lags) * process.scv
    point = np.concatenate([np.log(shape.variances), np.log(-1 / np.log(np.maximum(shape.memory, 1e-3)))])
    weights, growth = np.zeros((1, 4)), np.ones(1)
    if shape.memory.min() > 0.2:
        error = correlation_error(point, lags, lags, covariance, weights, growth, 100.0)
        assert error == pytest.approx(0.0, abs=1e-7)


def test_a_regular_base_lowers_the_scv() -> None:
    process = _draw(1, 2, left=0.7, base_states=4).process()
    shape = _draw(1, 2)
    assert process.order == 12  # an Erlang mix of three phases carries an SCV of 0.4
    assert (1 + process.scv) / 2 == pytest.approx(0.7 * np.prod(1 + shape.variances))


def test_the_interval_dispersion_tends_to_the_dispersion_of_counts() -> None:
    process = _draw(3, 2).process()
    assert interval_dispersion(process, np.array([100_000.0]))[0] == pytest.approx(
        process.dispersion, rel=0.02
    )


def test_a_renewal_process_has_the_asked_scv() -> None:
    assert renewal(3.0, 2).scv == pytest.approx(5.0)
    assert renewal(0.5 + 0.05, 4).scv == pytest.approx(0.25)  # as regular as four phases can be
