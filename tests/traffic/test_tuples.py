"""Attributes, keys and delays have the laws they are asked for."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.errors import PenstockError
from penstock.traffic.attributes import Attributes, correlation_of
from penstock.traffic.disorder import BurstyDelay, HeavyDelay, UniformDelay, disorder
from penstock.traffic.keys import Keys, zipf
from penstock.traffic.pareto import CutPareto
from penstock.traffic.seeds import Seeds

N = 40_000


@settings(max_examples=20, deadline=None)
@given(dims=st.integers(1, 12), share=st.floats(-1.0, 0.99), seed=st.integers(0, 1000))
def test_attributes_are_uniform_with_the_correlation_asked_for(dims, share, seed):
    correlation = 0.0 if dims == 1 else share if share >= 0 else share / (dims - 1)
    rows = Attributes(dims, ((0.0, correlation),)).draw(np.zeros(N), np.random.default_rng(seed))
    assert rows.shape == (N, dims)
    assert rows.min() >= 0.0
    assert rows.max() <= 1.0
    assert rows.mean(axis=0) == pytest.approx(0.5, abs=5 * np.sqrt(1 / 12 / N))
    assert rows.var(axis=0) == pytest.approx(1 / 12, rel=0.04)
    if dims > 1:
        # Pearson's correlation of uniform margins under a normal copula.
        wanted = 6.0 / np.pi * np.arcsin(correlation / 2.0)
        found = np.corrcoef(rows.T)[np.triu_indices(dims, 1)]
        assert found == pytest.approx(wanted, abs=6 / np.sqrt(N))


def test_the_distribution_changes_with_event_time():
    changing = Attributes(2, ((0.0, 0.0), (10.0, 0.9), (20.0, -0.9)), period=30.0)
    times = np.repeat([5.0, 15.0, 25.0, 35.0], N)
    rows = changing.draw(times, np.random.default_rng(1))
    found = [np.corrcoef(rows[times == t].T)[0, 1] for t in (5.0, 15.0, 25.0, 35.0)]
    assert found == pytest.approx([0.0, 0.89, -0.89, 0.0], abs=0.03)


def test_words_for_distributions_mean_what_they_say():
    assert correlation_of("independent", 8) == 0.0
    assert correlation_of("correlated", 8) > 0.3
    assert -1 / 7 < correlation_of("anticorrelated", 8) < 0.0
    assert correlation_of("anticorrelated", 1) == 0.0
    with pytest.raises(PenstockError, match="did you mean 'correlated'"):
        correlation_of("corelated", 8)


@settings(max_examples=20, deadline=None)
@given(keys=st.integers(1, 50), exponent=st.floats(0.0, 2.0), seed=st.integers(0, 1000))
def test_keys_come_with_zipf_frequencies(keys, exponent, seed):
    law = zipf(keys, exponent)
    drawn = np.bincount(law.draw(np.zeros(N), np.random.default_rng(seed)), minlength=keys)
    wanted = law.frequencies_at(0.0)
    assert drawn.size == keys
    assert np.all(np.abs(drawn - N * wanted) <= 6 * np.sqrt(N * wanted) + 3)


@pytest.mark.parametrize(
    "law", [zipf(5, 1.2, drift=10.0), Keys(np.array([8.0, 1, 1]), np.array([0.0, 1, 9]), 20.0)]
)
def test_key_frequencies_drift(law):
    for time in (0.0, 4.0, 14.0, 25.0, 100.0):
        drawn = np.bincount(
            law.draw(np.full(N, time), np.random.default_rng(1)), minlength=law.frequencies.size
        )
        wanted = law.frequencies_at(time)
        assert wanted.sum() == pytest.approx(1.0)
        assert np.all(np.abs(drawn - N * wanted) <= 6 * np.sqrt(N * wanted) + 3)


@pytest.mark.parametrize("law", [UniformDelay(0.2), HeavyDelay(0.2), BurstyDelay(0.2)])
def test_delays_have_their_mean_and_their_bound(law):
    times = np.sort(np.random.default_rng(1).random(500_000)) * 20_000.0
    delays = np.concatenate(
        [law.delays(part, Seeds(2), slot) for slot, part in enumerate(np.array_split(times, 50))]
    )
    assert delays.min() >= 0.0
    assert delays.max() < law.longest
    assert delays.mean() == pytest.approx(0.2, rel=0.05)


def test_heavy_delays_are_heavier_than_uniform_ones():
    delays = HeavyDelay(0.2).delays(np.zeros(N), Seeds(1), 0)
    assert np.median(delays) < 0.1
    assert delays.max() > 2.0


def test_bursty_delays_come_in_clusters_and_are_delivered_together():
    law = BurstyDelay(0.2)
    times = np.arange(0.0, 200.0, 0.001)
    delays = law.delays(times, Seeds(1), 0)
    long = delays > 0.5 * 0.2
    begin, end = law.outage_in(0, Seeds(1))
    assert long.mean() < 0.2
    assert np.flatnonzero(np.diff(long.astype(int)) == 1).size < 200  # in runs, not scattered
    due = times + delays
    assert not np.any((due > begin + 0.1) & (due < end))  # silence during the outage
    assert np.sum((due >= end) & (due < end + 0.1)) > 1000 * (end - begin)  # then all at once


@given(shape=st.floats(1.01, 4.0), peak=st.floats(1.5, 1e6))
def test_a_cut_pareto_law_keeps_its_mean(shape, peak):
    law = CutPareto(shape, peak)
    u = (np.arange(200_000) + 0.5) / 200_000
    values = law.quantile(u)
    assert law.moment(1) == pytest.approx(1.0)
    assert values.max() <= peak
    assert values.mean() == pytest.approx(1.0, rel=0.05 if peak < 1e4 else 0.5)
    if peak < 1000:
        assert np.mean(values**2) == pytest.approx(law.moment(2), rel=0.1)


def test_a_second_moment_at_shape_two_is_a_logarithm():
    law = CutPareto(2.0, 50.0)
    assert law.moment(2) == pytest.approx(CutPareto(2.0 + 1e-6, 50.0).moment(2), rel=1e-4)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Attributes(0),
        lambda: Attributes(3, ((0.0, -0.6),)),
        lambda: Attributes(3, ((1.0, 0.0),)),
        lambda: Attributes(3, ((0.0, 0.0), (5.0, 0.1)), period=4.0),
        lambda: zipf(0),
        lambda: zipf(5, -1.0),
        lambda: Keys(np.array([0.0, 0.0])),
        lambda: Keys(np.array([1.0, np.nan])),
        lambda: Keys(np.array([1.0]), np.array([1.0, 2.0]), 5.0),
        lambda: Keys(np.array([1.0]), drift=-1.0),
        lambda: UniformDelay(-0.1),
        lambda: HeavyDelay(0.1, shape=1.0),
        lambda: BurstyDelay(float("nan")),
        lambda: disorder("unifrom", 0.1),
    ],
)
def test_impossible_tuples_are_refused(make):
    with pytest.raises(PenstockError):
        make()


def test_no_mean_delay_is_no_disorder():
    assert disorder("uniform", 0.0) is None
