"""Gaps whose rate changes slowly, near-constant ones above all: what makes queues is the rate, and a fit has to have it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.models import Erlang, MapPh1, fit_kpc
from penstock.models.kept_fit import KeptFit
from penstock.models.lindley import simulate_queue
from penstock.models.slow_rate import slow_rates
from penstock.models.trace_statistics import trace_statistics

GAPS = 40_000


def switching(factor, dwell, rng):
    """Two rates in turn, each for an exponential time."""
    rates, fast = [], False
    while len(rates) < GAPS:
        stay = 1 + int(rng.exponential(dwell * (factor if fast else 1.0)))
        rates += [factor if fast else 1.0] * stay
        fast = not fast
    return np.array(rates[:GAPS])


def wandering(factor, dwell, rng):
    """A walk of the rate, turned back at 1 and at the factor."""
    each = max(dwell // 4, 1)
    place = np.abs(np.cumsum(rng.normal(0.0, 0.3, GAPS // each + 1)) % 4.0 - 2.0) / 2.0
    return factor ** np.repeat(place, each)[:GAPS]


def waving(factor, dwell, rng):
    """A sine of the rate, over arrivals."""
    return 1.0 + (factor - 1.0) * (0.5 + 0.5 * np.sin(np.pi * np.arange(GAPS) / dwell + rng.uniform(0, 6)))


def gaps_of(kind, factor, scv, dwell, seed):
    rng = np.random.default_rng(seed)
    return rng.gamma(1 / scv, scv, GAPS) / kind(factor, dwell, rng)


def ratio(gaps, fit, load=0.9):
    """Predicted over simulated mean response."""
    service = Erlang(2, load * gaps.mean())
    simulated = simulate_queue(gaps, service.sample(gaps.size, np.random.default_rng(1))).mean()
    return MapPh1(fit, service).mean_response / simulated


@settings(max_examples=8, deadline=None)
@given(
    st.sampled_from([switching, wandering, waving]),
    st.floats(2.0, 3.0),
    st.sampled_from([0.01, 0.05, 0.1]),
    st.sampled_from([500, 1000, 2000]),
    st.integers(0, 1000),
)
def test_the_response_at_high_load_is_predicted_within_a_factor_of_two(kind, factor, scv, dwell, seed):
    gaps = gaps_of(kind, factor, scv, dwell, seed)
    assert 0.5 < ratio(gaps, fit_kpc(gaps, best=1)[0]) < 2.0


@pytest.mark.parametrize("scv", [1.0, 4.0])
@pytest.mark.parametrize(("dwell", "seed"), [(1000, 1), (2000, 2), (2000, 3)])
def test_gaps_that_vary_on_their_own_too_leave_the_slow_change_to_be_seen(scv, dwell, seed):
    gaps = gaps_of(waving, 3.0, scv, dwell, seed)
    assert 0.5 < ratio(gaps, fit_kpc(gaps, best=1)[0]) < 2.0


@pytest.mark.parametrize("states", [8, 16])
def test_few_phases_are_enough(states):
    gaps = gaps_of(switching, 2.5, 0.05, 1500, 4)
    fit = fit_kpc(gaps, best=1, max_states=states)[0]
    assert fit.order <= states
    assert fit.mean == pytest.approx(gaps.mean(), rel=1e-9)
    assert 0.5 < ratio(gaps, fit) < 2.0


def test_gaps_of_one_rate_have_no_levels_that_matter():
    gaps = np.random.default_rng(3).gamma(20.0, 0.05, GAPS)
    fit = fit_kpc(gaps, best=1)[0]
    assert fit.dispersion < 0.2
    assert 0.5 < ratio(gaps, fit) < 2.0


def test_a_rate_that_changes_once_gives_no_chain():
    gaps = np.concatenate([np.full(500, 1.0), np.full(500, 0.5)])
    gaps = gaps / gaps.mean()
    assert list(slow_rates(gaps, trace_statistics(gaps), 8)) == []


@pytest.mark.parametrize("kind", [waving, switching])
def test_a_fit_that_is_kept_has_the_score_it_was_made_with(kind):
    gaps = gaps_of(kind, 2.0, 0.01, 1000, 0)
    fits = fit_kpc(gaps, best=2)
    again = KeptFit.of(fits, gaps).at(gaps, np.inf)
    assert again[0].score == pytest.approx(fits[0].score, rel=1e-6)
