import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.errors import PenstockError
from penstock.models import Erlang, MapPh1, fit_map2
from penstock.models.phase_type import Exponential
from penstock.models.trace_statistics import PROBE_LOADS, clean_gaps, trace_statistics


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 1000), st.integers(120, 1500))
def test_the_figures_are_those_of_plain_loops(seed: int, n: int) -> None:
    gaps = np.random.default_rng(seed).gamma(0.5, 2.0, n)
    stats, x = trace_statistics(gaps), gaps / gaps.mean()
    d = x - 1.0
    assert stats.scv == pytest.approx(np.mean(d**2))
    lags = range(int(stats.first[-1]), int(stats.last[-1]) + 1)
    expected = np.mean([np.mean(d[:-k] * d[k:]) for k in lags])
    assert stats.covariance[-1] == pytest.approx(expected, abs=1e-9)
    u, v = stats.pairs[-1].astype(int)
    triples = x[: n - u - v] * x[u : n - v] * x[u + v :]
    assert stats.third_order[-1] == pytest.approx(triples.mean())
    n_span = int(stats.spans[2])
    covariances = [np.mean(d[:-k] * d[k:]) for k in range(1, n_span)]
    direct = stats.scv + 2 * sum((1 - k / n_span) * c for k, c in enumerate(covariances, start=1))
    assert stats.growth[2] == pytest.approx(direct, rel=0.05, abs=0.05)  # covariances are averaged in bins


def test_the_probe_queue_is_what_theory_says() -> None:
    process = fit_map2(1.0, dispersion=5.0)
    stats = trace_statistics(process.sample(300_000, np.random.default_rng(0)))
    expected = [MapPh1(process, Exponential(load)).mean_response / load for load in PROBE_LOADS]
    np.testing.assert_allclose(stats.probe, expected, rtol=0.15)


def test_ties_stay_and_clocks_that_step_back_are_mended() -> None:
    gaps = np.tile([0.0, 0.0, 3.0, -1.0], 50)
    cleaned = clean_gaps(gaps)
    assert cleaned.min() == 0.0
    assert cleaned.sum() == pytest.approx(np.maximum.accumulate(np.cumsum(gaps))[-1])


@pytest.mark.parametrize(
    ("gaps", "words"),
    [
        (np.ones(10), "at least 100"),
        (np.zeros(200), "All inter-arrival times are zero"),
        (np.full(200, np.nan), "finite"),
        (np.ones((20, 20)), "one row"),
    ],
)
def test_traces_that_cannot_be_fitted_are_refused_in_one_sentence(gaps: np.ndarray, words: str) -> None:
    with pytest.raises(PenstockError, match=words):
        clean_gaps(gaps)


def test_erlang_gaps_have_a_small_scv() -> None:
    stats = trace_statistics(Erlang(4, 2.0).sample(20_000, np.random.default_rng(0)))
    assert stats.scv == pytest.approx(0.25, rel=0.05)
    assert stats.mean == pytest.approx(2.0, rel=0.02)
