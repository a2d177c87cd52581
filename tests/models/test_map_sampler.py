import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.errors import PenstockError
from penstock.models import Mmpp2, Poisson, fit_map2


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 100), st.lists(st.integers(0, 500), min_size=1, max_size=8))
def test_a_stream_does_not_depend_on_how_it_is_cut_into_blocks(seed: int, cuts: list[int]) -> None:
    for process in (fit_map2(0.5, dispersion=30.0), Mmpp2((20.0, 1.0), (0.5, 0.1))):
        whole = process.sampler(np.random.default_rng(seed)).take(sum(cuts))
        sampler = process.sampler(np.random.default_rng(seed))
        np.testing.assert_array_equal(whole, np.concatenate([sampler.take(n) for n in cuts]))


def test_a_new_sampler_goes_on_where_the_old_one_stopped() -> None:
    process, rng = fit_map2(1.0, dispersion=1000.0), np.random.default_rng(3)
    whole = process.sampler(np.random.default_rng(3)).take(2000)
    first = process.sampler(rng)
    start = first.take(700)
    rest = process.sampler(rng, phase=first.phase).take(1300)
    np.testing.assert_array_equal(whole, np.concatenate([start, rest]))


@pytest.mark.parametrize(
    "process",
    [
        Poisson(3.0),
        fit_map2(0.2, dispersion=8.0),
        Mmpp2((9.0, 1.0), (2.0, 1.0)),
        fit_map2(1.0, scv=4.0, decay=-0.4),
    ],
)
def test_samples_have_the_statistics_of_the_process(process) -> None:  # type: ignore[no-untyped-def]
    n = 400_000
    x = process.sample(n, np.random.default_rng(0))
    error = np.sqrt(process.dispersion / n)  # of the mean, by the index of dispersion for intervals
    assert x.mean() == pytest.approx(process.mean, rel=5 * error)
    assert x.var() / x.mean() ** 2 == pytest.approx(process.scv, rel=0.05)
    lag_one = np.corrcoef(x[:-1], x[1:])[0, 1]
    assert lag_one == pytest.approx(process.autocorrelation(1)[0], abs=0.02)


def test_bursts_cross_block_boundaries() -> None:
    process = fit_map2(0.01, dispersion=200.0)
    sampler = process.sampler(np.random.default_rng(1))
    times = np.cumsum(np.concatenate([sampler.take(100) for _ in range(20_000)]))
    counts = np.bincount((times / 100.0).astype(int))[:-1]
    expected = process.dispersion_at(100.0)[0]
    assert counts.var() / counts.mean() == pytest.approx(expected, rel=0.35)  # 200 windows


def test_impossible_requests_are_refused() -> None:
    with pytest.raises(PenstockError, match="zero or more"):
        Poisson(1.0).sample(-1, np.random.default_rng(0))
    with pytest.raises(PenstockError, match="does not exist"):
        Poisson(1.0).sampler(np.random.default_rng(0), phase=3)
    assert Poisson(1.0).sample(0, np.random.default_rng(0)).size == 0
