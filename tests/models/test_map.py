from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
import scipy.linalg
import scipy.stats
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.core.errors import PenstockError
from penstock.models import MAP, Mmpp2, Poisson, fit_map2, kpc

Build = Callable[[int, int], MAP]
slow = settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def _by_quadrature(process: MAP, powers: int) -> list[np.ndarray]:
    """Integrals of x^k e^{D0 x} D1 dx for k below ``powers``, by Gauss-Legendre on panels of doubling width: no
    inverse of D0 anywhere."""
    slowest = -float(np.max(np.real(np.linalg.eigvals(process.D0))))
    edge = 1.0 / float(np.max(-np.diag(process.D0)))
    edges = [0.0, edge]
    while edges[-1] < 60.0 / slowest:
        edges.append(2.0 * edges[-1])
    nodes, weights = np.polynomial.legendre.leggauss(24)
    x = np.concatenate([(a + b) / 2 + (b - a) / 2 * nodes for a, b in pairwise(edges)])
    w = np.concatenate([(b - a) / 2 * weights for a, b in pairwise(edges)])
    densities = scipy.linalg.expm(process.D0[None] * x[:, None, None]) @ process.D1
    return [np.einsum("i,ijk->jk", w * x**k, densities) for k in range(powers)]


def _counts_by_uniformisation(process: MAP, t: float, most: int) -> tuple[float, float]:
    """Mean and variance of N(t) from the distribution itself, on (count, phase)."""
    q = float(np.max(-np.diag(process.D0)))
    stay, jump = np.eye(process.order) + process.D0 / q, process.D1 / q
    state = np.zeros((most, process.order))
    state[0] = process.phase
    total = np.zeros(most)
    for k in range(int(q * t + 12 * np.sqrt(q * t) + 30)):
        total += scipy.stats.poisson.pmf(k, q * t) * state.sum(axis=1)
        moved = state @ stay
        moved[1:] += state[:-1] @ jump
        state = moved
    n = np.arange(most)
    mean = float(total @ n)
    return mean, float(total @ n**2) - mean**2


@slow
@given(st.integers(0, 10_000), st.integers(1, 5))
def test_moments_and_correlations_agree_with_quadrature(random_map: Build, seed: int, order: int) -> None:
    process = random_map(seed, order)
    jump, first, *higher = _by_quadrature(process, 4)
    phi = process.phase_at_arrivals
    ones = np.ones(order)
    mean = phi @ first @ ones
    assert process.mean == pytest.approx(mean, rel=1e-8)
    for k, integral in enumerate(higher, start=2):
        assert process.moment(k) == pytest.approx(phi @ integral @ ones, rel=1e-8)
    variance = process.moment(2) - mean**2
    for lag in (1, 2, 5):
        joint = phi @ first @ np.linalg.matrix_power(jump, lag - 1) @ first @ ones
        assert process.autocorrelation(lag)[0] == pytest.approx((joint - mean**2) / variance, abs=1e-8)
    triple = phi @ first @ jump @ first @ first @ ones
    pairs = [phi @ first @ np.linalg.matrix_power(jump, lag - 1) @ first @ ones for lag in (2, 1, 3)]
    assert process.bicovariance(2, 1) == pytest.approx(triple - mean * sum(pairs) + 2 * mean**3, abs=1e-8)


@slow
@given(st.integers(0, 10_000), st.integers(1, 4), st.sampled_from([0.01, 0.5, 3.0, 20.0]))
def test_the_dispersion_of_counts_agrees_with_uniformisation(
    random_map: Build, seed: int, order: int, t: float
) -> None:
    process = random_map(seed, order)
    mean, variance = _counts_by_uniformisation(process, t, 400)
    assert mean == pytest.approx(process.rate * t, rel=1e-9)
    assert process.dispersion_at(t)[0] == pytest.approx(variance / mean, rel=1e-8)


def test_the_limit_of_the_dispersion_of_an_mmpp_is_the_textbook_formula() -> None:
    process = Mmpp2(rates=(50.0, 2.0), switching=(0.3, 0.1))
    expected = 1 + 2 * 0.3 * 0.1 * 48.0**2 / (0.4**2 * (50.0 * 0.1 + 2.0 * 0.3))
    assert process.dispersion == pytest.approx(expected, rel=1e-12)
    assert process.dispersion_at(1e6)[0] == pytest.approx(expected, rel=1e-4)


def test_the_dispersion_curve_has_no_seam_between_its_two_formulas() -> None:
    process = fit_map2(1.0, dispersion=1000.0)
    edge = float(np.abs(process._deviation).max())
    below, above = process.dispersion_at([edge * (1 - 1e-9), edge * (1 + 1e-9)])
    assert below == pytest.approx(above, rel=1e-7)


def test_poisson_has_no_memory() -> None:
    process = Poisson(7.0)
    assert (process.rate, process.scv, process.dispersion) == pytest.approx((7.0, 1.0, 1.0))
    assert process.skewness == pytest.approx(2.0)
    assert process.autocorrelation([0, 1, 10]).tolist() == pytest.approx([1.0, 0.0, 0.0], abs=1e-12)


@slow
@given(st.integers(0, 1000), st.integers(1, 3), st.integers(1, 3))
def test_superposed_streams_add_rates_and_variances_of_counts(
    random_map: Build, seed: int, a: int, b: int
) -> None:
    left, right = random_map(seed, a), random_map(seed + 1, b).scaled(3.0)
    both = left.superpose(right)
    assert both.rate == pytest.approx(4.0)
    expected = (left.dispersion_at(2.0) * left.rate + right.dispersion_at(2.0) * right.rate) / 4.0
    np.testing.assert_allclose(both.dispersion_at(2.0), expected, rtol=1e-9)


def test_thinning_keeps_the_excess_dispersion_in_proportion() -> None:
    process = fit_map2(0.1, dispersion=41.0)
    thin = process.thinned(0.25)
    assert thin.rate == pytest.approx(2.5)
    assert thin.dispersion == pytest.approx(1 + 0.25 * 40.0)


def test_a_composition_multiplies_joint_moments() -> None:
    a, b = fit_map2(1.0, dispersion=5.0), fit_map2(1.0, scv=3.0, decay=0.9)
    both = kpc(a, b)
    assert both.moment(3) == pytest.approx(a.moment(3) * b.moment(3) / 6)
    lags = np.array([1, 7, 40])
    joint = (1 + a.scv * a.autocorrelation(lags)) * (1 + b.scv * b.autocorrelation(lags))
    np.testing.assert_allclose(1 + both.scv * both.autocorrelation(lags), joint, rtol=1e-10)


@pytest.mark.parametrize(
    ("D0", "D1", "words"),
    [
        ([[-1.0, 0.0]], [[1.0]], "square"),
        ([[-1.0]], [[2.0]], "adds up to zero"),
        ([[-1.0, -1.0], [0.0, -1.0]], [[2.0, 0.0], [1.0, 0.0]], "no negative rates"),
        ([[float("nan")]], [[1.0]], "finite"),
        ([[-1.0, 0.0], [0.0, -2.0]], [[1.0, 0.0], [0.0, 2.0]], "reducible"),
        ([[-1.0, 1.0], [1.0, -1.0]], [[0.0, 0.0], [0.0, 0.0]], "no arrivals"),
    ],
)
def test_matrices_that_are_no_map_are_refused_in_one_sentence(D0: list, D1: list, words: str) -> None:  # type: ignore[type-arg]
    with pytest.raises(PenstockError, match=words) as caught:
        MAP(D0, D1)
    assert str(caught.value).count(". ") == 0


def test_impossible_questions_are_refused() -> None:
    process = Poisson(1.0)
    for ask in (
        lambda: process.moment(-1),
        lambda: process.autocorrelation([-1]),
        lambda: process.bicovariance(0, 1),
        lambda: process.dispersion_at(0.0),
        lambda: process.scaled(0.0),
        lambda: process.thinned(0.0),
        lambda: Poisson(-1.0),
        lambda: Mmpp2((1.0, -1.0), (1.0, 1.0)),
        lambda: Mmpp2((1.0,), (1.0,)),
        lambda: kpc(),
        lambda: kpc(Mmpp2((1.0, 2.0), (1.0, 1.0)), Mmpp2((1.0, 2.0), (1.0, 1.0))),
    ):
        with pytest.raises(PenstockError):
            ask()
