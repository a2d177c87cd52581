from collections.abc import Callable

import numpy as np
import pytest
import scipy.linalg
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.models import MAP
from penstock.models.matrix_exponential import expm


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 1000), st.integers(1, 8), st.floats(1e-6, 1e4))
def test_it_agrees_with_scipy_on_generators(
    random_map: Callable[[int, int], MAP], seed: int, order: int, t: float
) -> None:
    generator = random_map(seed, order).generator * t
    np.testing.assert_allclose(expm(generator), scipy.linalg.expm(generator), rtol=1e-9, atol=1e-12)


def test_zero_and_defective_matrices_are_no_special_cases() -> None:
    np.testing.assert_allclose(expm(np.zeros((3, 3))), np.eye(3), rtol=1e-15)
    np.testing.assert_allclose(
        expm(np.array([[-1.0, 1.0], [0.0, -1.0]])), np.exp(-1) * np.array([[1, 1], [0, 1]])
    )


def test_large_times_reach_the_stationary_state() -> None:
    generator = np.array([[-1.0, 1.0], [3.0, -3.0]])
    assert expm(generator * 1e6)[0].tolist() == pytest.approx([0.75, 0.25], rel=1e-8)
