import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.errors import PenstockError
from penstock.models import Erlang
from penstock.models.exponential_form import ExponentialForm
from penstock.models.phase_type import Exponential, HyperExponential


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 12), st.floats(1e-6, 1e6), st.floats(0.0, 0.9999999))
def test_quantiles_invert_the_distribution_function(k: int, mean: float, q: float) -> None:
    law = Erlang(k, mean)
    assert law.cdf(law.quantile(q))[0] == pytest.approx(q, abs=1e-10)


def test_quantiles_far_out_in_a_heavy_tail_are_found() -> None:
    law = HyperExponential([0.999, 0.001], [1.0, 1000.0])
    x = law.quantile(1.0 - 1e-6)
    assert law.survival(x)[0] == pytest.approx(1e-6, rel=1e-8)
    assert law.quantile(0.0) == 0.0


def test_an_atom_at_zero_makes_small_quantiles_zero() -> None:
    half = ExponentialForm(np.array([0.5]), np.array([[-1.0]]), np.array([1.0]))
    assert half.above_zero == pytest.approx(0.5)
    assert half.quantile(0.4) == 0.0
    assert half.quantile(0.75) == pytest.approx(np.log(2.0))
    both = half.plus(half)
    assert both.above_zero == pytest.approx(0.75)
    assert both.mean == pytest.approx(1.0)


def test_a_sum_has_the_sum_of_means_and_variances() -> None:
    total = Erlang(3, 2.0).plus(Exponential(1.0))
    assert (total.mean, total.variance) == pytest.approx((3.0, 4.0 / 3 + 1.0))


def test_the_density_integrates_to_the_distribution_function() -> None:
    law, x = Erlang(2, 1.0), np.linspace(0.0, 3.0, 201)
    assert np.trapezoid(law.pdf(x), x) == pytest.approx(law.cdf(3.0)[0], abs=1e-4)


def test_impossible_quantiles_and_moments_are_refused() -> None:
    with pytest.raises(PenstockError):
        Exponential(1.0).quantile(1.0)
    with pytest.raises(PenstockError):
        Exponential(1.0).moment(-1)
