import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.errors import PenstockError
from penstock.models.phase_type_fit import fit_ph


@settings(max_examples=80, deadline=None)
@given(st.floats(1e-6, 1e6), st.floats(0.011, 100.0))
def test_mean_and_scv_are_exact(mean: float, scv: float) -> None:
    law = fit_ph(mean, scv)
    assert law.exact
    assert (law.mean, law.scv) == (pytest.approx(mean, rel=1e-9), pytest.approx(scv, rel=1e-8))


def test_a_third_moment_is_met_where_two_phases_reach_it() -> None:
    law = fit_ph(1.0, 4.0, skewness=6.0)
    assert law.exact
    assert law.skewness == pytest.approx(6.0)


def test_what_cannot_be_met_is_said() -> None:
    constant = fit_ph(1.0, 0.0)
    assert (constant.order, constant.exact) == (100, False)
    assert "more than 100 phases" in constant.notes[0]
    assert fit_ph(1.0, 0.3, skewness=1.0).notes == ("The skewness is only matched from an SCV of 0.5 on.",)


@pytest.mark.parametrize(("mean", "scv"), [(0.0, 1.0), (1.0, -0.1), (float("nan"), 1.0), (1.0, float("inf"))])
def test_impossible_moments_are_refused(mean: float, scv: float) -> None:
    with pytest.raises(PenstockError):
        fit_ph(mean, scv)
