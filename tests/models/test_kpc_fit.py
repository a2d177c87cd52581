import numpy as np
import pytest
import scipy.signal

from penstock.core.errors import PenstockError
from penstock.models import MAP, Erlang, MapPh1, Poisson, fit_kpc, fit_map2
from penstock.models.kpc_fit import fit_windows
from penstock.models.lindley import simulate_queue


@pytest.fixture(scope="module")
def bursty() -> np.ndarray:
    return fit_map2(0.01, dispersion=100.0).sample(50_000, np.random.default_rng(100))


def test_the_best_five_are_valid_maps_ranked_by_their_score(bursty: np.ndarray) -> None:
    fits = fit_kpc(bursty)
    assert len(fits) == 5
    assert [fit.score for fit in fits] == sorted(fit.score for fit in fits)
    for fit in fits:
        assert isinstance(fit, MAP)
        assert fit.order <= 16
        assert fit.mean == pytest.approx(bursty.mean(), rel=1e-9)
        assert set(fit.errors) >= {
            "scv",
            "skewness",
            "autocorrelation",
            "bicovariance",
            "dispersion",
            "response",
        }
        assert all(np.isfinite(error) for error in fit.errors.values())


def test_the_same_seed_gives_the_same_fits(bursty: np.ndarray) -> None:
    first, second = (fit_kpc(bursty[:20_000], best=2, seed=7) for _ in range(2))
    for a, b in zip(first, second, strict=True):
        np.testing.assert_array_equal(a.D0, b.D0)
        np.testing.assert_array_equal(a.D1, b.D1)


@pytest.mark.parametrize("load", [0.5, 0.7, 0.9])
def test_the_response_under_bursts_is_predicted_within_a_factor_of_two(
    bursty: np.ndarray, load: float
) -> None:
    service = Erlang(2, load * bursty.mean())
    simulated = simulate_queue(bursty, service.sample(bursty.size, np.random.default_rng(1))).mean()
    for fit in fit_kpc(bursty, best=3):
        assert 0.5 < MapPh1(fit, service).mean_response / simulated < 2.0


def test_poisson_traffic_stays_poisson_for_every_practical_purpose() -> None:
    gaps = Poisson(100.0).sample(30_000, np.random.default_rng(5))
    best = fit_kpc(gaps)[0]
    assert best.order <= 4
    assert best.scv == pytest.approx(1.0, abs=0.05)
    exact = MapPh1(Poisson(1 / gaps.mean()), Erlang(2, 0.8 * gaps.mean())).mean_response
    assert MapPh1(best, Erlang(2, 0.8 * gaps.mean())).mean_response == pytest.approx(exact, rel=0.15)


def test_ties_of_a_coarse_clock_are_handled() -> None:
    times = np.cumsum(Poisson(1000.0).sample(20_000, np.random.default_rng(2)))
    gaps = np.diff(np.round(times, 2))  # ten arrivals per tick
    assert np.mean(gaps == 0.0) > 0.8
    best = fit_kpc(gaps)[0]
    assert best.rate == pytest.approx(1000.0, rel=0.05)


def test_constant_gaps_give_the_most_regular_process() -> None:
    (fit,) = fit_kpc(np.full(1000, 0.25))
    assert fit.order == 16
    assert fit.mean == pytest.approx(0.25)
    assert "more than 16 phases" in fit.notes[0]
    assert all(np.isfinite(error) for error in fit.errors.values())


def test_regular_gaps_are_fitted_too() -> None:
    gaps = Erlang(3, 1.0).sample(10_000, np.random.default_rng(0))
    best = fit_kpc(gaps)[0]
    assert best.scv == pytest.approx(1 / 3, rel=0.1)


def test_alternating_gaps_keep_their_negative_correlation() -> None:
    gaps = fit_map2(1.0, scv=3.0, decay=-0.6).sample(50_000, np.random.default_rng(4))
    best = fit_kpc(gaps)[0]
    assert best.autocorrelation(1)[0] == pytest.approx(-0.2, abs=0.05)


def test_a_limit_on_the_states_is_kept(bursty: np.ndarray) -> None:
    assert all(fit.order <= 4 for fit in fit_kpc(bursty[:10_000], max_states=4))


def test_windows_show_a_change_of_traffic_in_the_newest_first() -> None:
    rng = np.random.default_rng(0)
    gaps = np.concatenate(
        [Poisson(10.0).sample(15_000, rng), fit_map2(0.1, dispersion=60.0).sample(5_000, rng)]
    )
    fits = fit_windows(gaps)
    assert list(fits) == ["all", "last half", "last quarter"]
    assert {name: models[0].window for name, models in fits.items()} == {name: name for name in fits}
    assert fits["last quarter"][0].scv > 2 * fits["all"][0].scv
    assert list(fit_windows(gaps[:1500])) == ["all"]


def test_impossible_requests_are_refused() -> None:
    with pytest.raises(PenstockError, match="at least 100"):
        fit_kpc([1.0, 2.0])
    with pytest.raises(PenstockError, match="1 result or more"):
        fit_kpc(np.ones(200), best=0)


_RNG = np.random.default_rng(0)
STRANGE = {
    "heavy tail": _RNG.pareto(1.2, 2000),
    "almost constant": 1.0 + _RNG.normal(0.0, 0.01, 500),
    "batches of a hundred": np.where(np.arange(3000) % 100 == 0, 5.0, 0.0),
    "two regimes": np.concatenate([_RNG.exponential(1.0, 500), _RNG.exponential(0.01, 500)]) * 1e-6,
    "one gap only": np.append(np.zeros(300), 7.0),
    "alternating": np.tile([0.1, 1.9], 400) * _RNG.gamma(20, 0.05, 800),
    "random walk": _RNG.gamma(5, 1, 2000) * np.exp(np.cumsum(_RNG.normal(0, 0.05, 2000))),
    "as short as can be": _RNG.exponential(1.0, 100),
}


@pytest.mark.parametrize("gaps", STRANGE.values(), ids=STRANGE.keys())
def test_strange_traces_give_usable_models_never_nan(gaps: np.ndarray) -> None:
    for fit in fit_kpc(gaps):
        assert fit.mean == pytest.approx(gaps.mean(), rel=0.01)
        assert np.isfinite([*fit.errors.values(), fit.score, fit.dispersion]).all()
        queue = MapPh1(fit, Erlang(2, 0.7 * fit.mean))
        assert np.isfinite([queue.mean_response, queue.percentile(95)]).all()


def wandering(spread: float, scale: float, count: int = 50_000) -> np.ndarray:
    """Near-constant gaps whose rate changes slowly: over ``scale`` arrivals, by the share ``spread``."""
    rng = np.random.default_rng(1)
    keep = np.exp(-1.0 / scale)
    steps = rng.normal(0.0, spread * np.sqrt(1.0 - keep**2), count)
    slow = scipy.signal.lfilter([1.0], [1.0, -keep], steps)
    gaps = np.exp(slow) * (1.0 + rng.normal(0.0, 0.02, count))
    return np.asarray(0.01 * gaps / gaps.mean())


@pytest.mark.parametrize(("spread", "scale"), [(0.1, 500.0), (0.2, 1000.0), (0.25, 300.0)])
def test_regular_gaps_whose_rate_wanders_get_a_fit_with_memory(spread: float, scale: float) -> None:
    gaps = wandering(spread, scale)
    assert gaps.var() / gaps.mean() ** 2 < 1 / 12
    best = fit_kpc(gaps)[0]
    for load in (0.8, 0.9):
        service = Erlang(2, load * gaps.mean())
        simulated = simulate_queue(gaps, service.sample(gaps.size, np.random.default_rng(1))).mean()
        assert 0.4 < MapPh1(best, service).mean_response / simulated < 2.5
