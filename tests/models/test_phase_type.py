from collections.abc import Callable

import numpy as np
import pytest
import scipy.stats
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.core.errors import PenstockError
from penstock.models import Erlang
from penstock.models.phase_type import PH, Exponential, HyperExponential


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 1000), st.integers(1, 5))
def test_samples_follow_the_law(random_ph: Callable[[int, int, float], PH], seed: int, order: int) -> None:
    law = random_ph(seed, order, 2.0)
    x = law.sample(40_000, np.random.default_rng(seed))
    assert x.mean() == pytest.approx(law.mean, rel=6 * np.sqrt(law.scv / x.size))
    points = np.quantile(x, [0.1, 0.5, 0.9])
    np.testing.assert_allclose(law.cdf(points), [0.1, 0.5, 0.9], atol=0.015)


def test_erlang_is_the_gamma_law() -> None:
    law, x = Erlang(3, 2.0), np.array([0.1, 1.0, 2.0, 9.0])
    np.testing.assert_allclose(law.cdf(x), scipy.stats.gamma(3, scale=2 / 3).cdf(x), rtol=1e-10)
    assert law.skewness == pytest.approx(2 / np.sqrt(3))
    assert law.sample(1000, np.random.default_rng(0)).mean() == pytest.approx(2.0, rel=0.1)


def test_a_hyper_exponential_mixes_its_parts() -> None:
    law = HyperExponential([0.25, 0.75], [4.0, 1.0])
    assert law.survival(2.0)[0] == pytest.approx(0.25 * np.exp(-0.5) + 0.75 * np.exp(-2.0))
    assert law.scaled(10.0).scv == pytest.approx(law.scv)


@pytest.mark.parametrize(
    "make",
    [
        lambda: PH([1.0], [[1.0]]),
        lambda: PH([0.5], [[-1.0]]),
        lambda: PH([1.0, 0.0], [[-1.0]]),
        lambda: PH([1.0, 0.0], [[-1.0, 1.0], [1.0, -1.0]]),
        lambda: PH([float("nan")], [[-1.0]]),
        lambda: PH([1.0, 0.0], [[-1.0, 2.0], [0.0, -1.0]]),
        lambda: Erlang(0, 1.0),
        lambda: Exponential(0.0),
        lambda: HyperExponential([1.0], [1.0, 2.0]),
        lambda: Exponential(1.0).sample(-1, np.random.default_rng(0)),
    ],
)
def test_what_is_no_phase_type_law_is_refused(make: Callable[[], object]) -> None:
    with pytest.raises(PenstockError):
        make()
