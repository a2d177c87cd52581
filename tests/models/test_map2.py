import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.errors import PenstockError
from penstock.models import fit_map2

positive = st.floats(1e-6, 1e6)


@settings(max_examples=100, deadline=None)
@given(positive, st.floats(1.0, 10_000.0))
def test_the_burst_generator_hits_rate_and_dispersion(mean: float, dispersion: float) -> None:
    process = fit_map2(mean, dispersion=dispersion)
    assert process.exact
    assert process.mean == pytest.approx(mean, rel=1e-12)
    assert process.dispersion == pytest.approx(dispersion, rel=1e-9)


@pytest.mark.parametrize("dispersion", [1.5, 9.0, 100.0, 8000.0])
def test_the_burst_generator_is_the_family_of_the_papers(dispersion: float) -> None:
    """Two exponential states, F m and m / F apart, and the closed form of I for them."""
    process = fit_map2(1.0, dispersion=dispersion)
    r_s, r_f = -np.diag(process.D0)
    p_sf, p_fs = process.D1[0, 1] / r_s, process.D1[1, 0] / r_f
    assert r_s * r_f == pytest.approx(1.0)
    expected = 1 + 2 * p_fs * p_sf * (r_f - r_s) ** 2 / ((p_fs + p_sf) * (r_f * p_fs + r_s * p_sf) ** 2)
    assert expected == pytest.approx(dispersion, rel=1e-9)
    if dispersion > 50:
        assert process.autocorrelation(1)[0] == pytest.approx(0.4, abs=0.02)


def test_a_dispersion_of_one_is_poisson() -> None:
    assert fit_map2(0.1, dispersion=1.0).order == 1


@settings(max_examples=150, deadline=None)
@given(
    positive,
    st.floats(0.2, 60.0),
    st.none() | st.floats(-1.0, 15.0),
    st.none() | st.floats(-0.95, 0.9999),
)
def test_what_is_called_exact_is_exact(
    mean: float, scv: float, skewness: float | None, decay: float | None
) -> None:
    process = fit_map2(mean, scv=scv, skewness=skewness, decay=decay)
    assert process.mean == pytest.approx(mean, rel=1e-8)
    assert process.exact == (not process.notes)
    if not process.exact:
        return
    assert process.scv == pytest.approx(scv, rel=1e-7)
    if skewness is not None:
        assert process.skewness == pytest.approx(skewness, rel=1e-5, abs=1e-5)
    if decay is not None and process.order == 2:
        assert process.decay == pytest.approx(decay, abs=1e-7)


def test_scv_and_dispersion_determine_the_decay() -> None:
    process = fit_map2(2.0, scv=3.0, dispersion=40.0)
    assert (process.scv, process.dispersion) == pytest.approx((3.0, 40.0))


def test_negative_correlation_is_possible() -> None:
    process = fit_map2(1.0, scv=3.0, decay=-0.6)
    assert process.exact
    assert process.autocorrelation(1)[0] == pytest.approx(-0.2)
    assert process.dispersion < process.scv


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ({"scv": 0.2}, "SCV 0.2 is out of reach"),
        ({"scv": 4.0, "skewness": 1.0}, "Skewness 1 is out of reach"),
        ({"scv": 0.6, "decay": 0.5}, "decay of 0.5 is out of reach"),
        ({"scv": 1.0, "decay": 0.5}, "cannot be correlated"),
        ({"scv": 1.0, "dispersion": 5.0}, "leaves two phases no correlation"),
        ({"scv": 3.0, "dispersion": 0.5}, "out of reach"),
    ],
)
def test_infeasible_points_move_to_the_nearest_one_and_say_so(wanted: dict[str, float], words: str) -> None:
    process = fit_map2(1.0, **wanted)  # type: ignore[arg-type]
    assert not process.exact
    assert any(words in note for note in process.notes)
    assert process.mean == pytest.approx(1.0)


@pytest.mark.parametrize(
    "wanted",
    [
        {"mean": 0.0},
        {"mean": float("nan")},
        {"mean": 1.0, "scv": -1.0},
        {"mean": 1.0, "decay": 1.0},
        {"mean": 1.0, "dispersion": 0.5},
        {"mean": 1.0, "dispersion": float("inf")},
        {"mean": 1.0, "scv": 2.0, "decay": 0.5, "dispersion": 10.0},
        {"mean": 1.0, "skewness": float("nan")},
    ],
)
def test_impossible_figures_are_refused(wanted: dict[str, float]) -> None:
    with pytest.raises(PenstockError):
        fit_map2(**wanted)  # type: ignore[arg-type]


def test_at_an_scv_of_one_only_the_skewness_of_the_exponential_law_is_within_reach() -> None:
    poisson = fit_map2(1.0, scv=1.0, skewness=2.0)
    assert poisson.exact
    assert not poisson.notes
    other = fit_map2(1.0, scv=1.0, skewness=5.0)
    assert not other.exact
    assert "the nearest is 2" in other.notes[0]
