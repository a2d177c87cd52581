import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.models.chain import is_irreducible, stationary


@given(st.integers(0, 10_000), st.integers(2, 12))
def test_the_stationary_vector_balances_every_state(seed: int, order: int) -> None:
    rates = np.exp(np.random.default_rng(seed).uniform(-8, 8, (order, order)))
    np.fill_diagonal(rates, 0.0)
    x = stationary(rates)
    assert x.sum() == pytest.approx(1.0)
    np.testing.assert_allclose(x @ rates, x * rates.sum(axis=1), rtol=1e-12)


def test_nearly_decoupled_states_keep_their_relative_accuracy() -> None:
    x = stationary(np.array([[0.0, 1e-14], [3e-14, 0.0]]))
    np.testing.assert_allclose(x, [0.75, 0.25], rtol=1e-15)


def test_a_one_way_street_is_reducible() -> None:
    assert not is_irreducible(np.array([[0.0, 1.0], [0.0, 0.0]]))
    assert not is_irreducible(np.array([[0.0, 0.0], [1.0, 0.0]]))
    assert is_irreducible(np.array([[0.0, 1.0], [1.0, 0.0]]))
    assert is_irreducible(np.array([[-1.0]]))
