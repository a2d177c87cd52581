"""Every process: the same stream however it is cut, and figures that agree with theory."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.errors import PenstockError
from penstock.traffic import map2, poisson
from penstock.traffic.composition import Shaped, Superposition
from penstock.traffic.replay import Replay
from penstock.traffic.seeds import Seeds
from penstock.traffic.selfsimilar import SelfSimilar
from penstock.traffic.shapes import daily, steps
from penstock.traffic.walk import RandomWalk

PROCESSES = {
    "poisson": poisson(2000.0),
    "map2": map2(2000.0, 300.0),
    "self-similar": SelfSimilar(2000.0, 0.8),
    "self-similar, independent": SelfSimilar(20_000.0, 0.7, independent=True),
    "random walk": RandomWalk(2000.0, every=(0.5, 1.5)),
    "superposition": Superposition((poisson(500.0), map2(1000.0, 50.0), SelfSimilar(500.0, 0.6))),
    "shaped": Shaped(map2(2000.0, 100.0), daily(7.0, 0.8)),
    "replay in a loop": Replay(np.sort(np.random.default_rng(1).random(5000)) * 2.0, speed=1.3, loop=True),
}


@pytest.fixture(params=PROCESSES, ids=list(PROCESSES))
def process(request):
    return PROCESSES[request.param]


@settings(max_examples=15, deadline=None)
@given(cuts=st.lists(st.floats(0.01, 19.9), min_size=1, max_size=6), seed=st.integers(0, 2**40))
@pytest.mark.parametrize("name", PROCESSES)
def test_the_stream_is_the_same_however_it_is_cut_and_resumed(name, cuts, seed):
    whole = PROCESSES[name].sample(20.0, seed)
    run, pieces = PROCESSES[name].run(Seeds(seed)), []
    for cut in sorted(cuts):
        pieces.append(run.until(cut))
        mark = json.loads(json.dumps(run.mark()))
        run = PROCESSES[name].run(Seeds(seed), mark)  # as in another process, after a restart
    pieces.append(run.until(20.0))
    assert np.array_equal(np.concatenate(pieces), whole)


def test_arrivals_are_in_order_and_within_their_time(process):
    times = process.sample(20.0, seed=3)
    assert times.size > 1000
    assert np.all(np.diff(times) >= 0.0)
    assert times[0] >= 0.0
    assert times[-1] < 20.0


def test_another_seed_is_another_stream():
    for name, process in PROCESSES.items():
        if not name.startswith("replay"):
            assert not np.array_equal(process.sample(1.0, 1)[:50], process.sample(1.0, 2)[:50]), name


def test_marks_stay_small(process):
    run = process.run(Seeds(1))
    run.until(50.0)
    assert len(json.dumps(run.mark())) < 1500


def test_a_piece_of_no_length_is_empty(process):
    run = process.run(Seeds(1))
    first = run.until(1.0)
    assert run.until(1.0).size == 0
    assert run.until(0.5).size == 0
    assert np.array_equal(np.concatenate([first, run.until(2.0)]), process.sample(2.0, 1))


def test_blocks_go_on_for_ever():
    blocks = map2(5000.0, 100.0).blocks(seed=1)
    times = np.concatenate([next(blocks) for _ in range(5)])
    assert np.array_equal(times, map2(5000.0, 100.0).sample(5 * 8192 / 5000.0, 1))


def _counts(times, window, seconds):
    n = round(seconds / window)
    return np.bincount((times / window).astype(int), minlength=n)[:n]


def _agrees(times, process, seconds, window):
    """Rate and dispersion against theory, within five standard errors of the theory itself."""
    theory = float(process.dispersion_at([window])[0])
    error = np.sqrt(float(process.dispersion_at([seconds])[0]) / (process.rate * seconds))
    assert times.size / (process.rate * seconds) == pytest.approx(1.0, abs=5 * error)
    counts = _counts(times, window, seconds)
    assert counts.var() / counts.mean() == pytest.approx(
        theory, rel=5 * np.sqrt(2.0 / counts.size) + 5 * error
    )


@settings(max_examples=12, deadline=None)
@given(rate=st.floats(1.0, 1e5), dispersion=st.floats(1.0, 3000.0), seed=st.integers(0, 1000))
def test_map_arrivals_have_the_rate_variability_and_dispersion_of_theory(rate, dispersion, seed):
    process = map2(rate, dispersion)
    # Enough bursts for the error bars to hold: the memory of the process lasts some `dispersion` arrivals.
    seconds = (300_000 + 400 * dispersion) / rate
    times = process.sample(seconds, seed)
    _agrees(times, process, seconds, window=4.0 * dispersion / rate if dispersion > 10 else 20.0 / rate)
    gaps = np.diff(times) * rate
    memory = process.dispersion / process.scv  # arrivals that count as one in an average
    assert gaps.var() / gaps.mean() ** 2 == pytest.approx(
        process.scv, rel=8 * np.sqrt(memory * 5 / gaps.size) + 0.02
    )
    lag1 = np.corrcoef(gaps[:-1], gaps[1:])[0, 1]
    assert lag1 == pytest.approx(process.autocorrelation([1])[0], abs=8 * np.sqrt(memory / gaps.size) + 0.01)


@given(rate=st.floats(1e-3, 1e7), dispersion=st.floats(1.0, 10_000.0))
def test_map2_is_fitted_exactly(rate, dispersion):
    process = map2(rate, dispersion)
    assert process.rate == pytest.approx(rate, rel=1e-9)
    assert process.dispersion == pytest.approx(dispersion, rel=1e-3)


@settings(max_examples=8, deadline=None)
@given(rate=st.floats(500.0, 50_000.0), hurst=st.floats(0.5, 0.75), seed=st.integers(0, 1000))
def test_self_similar_arrivals_have_the_rate_and_dispersion_of_theory(rate, hurst, seed):
    process = SelfSimilar(rate, hurst)
    times = process.sample(40.0, seed)
    # Pareto counts have a fourth moment far above that of a normal law; their error bars are wider by its root.
    theory = float(process.dispersion_at([0.1])[0])
    error = np.sqrt(float(process.dispersion_at([40.0])[0]) / (rate * 40.0))
    counts = _counts(times, 0.1, 40.0)
    assert times.size / (rate * 40.0) == pytest.approx(1.0, abs=5 * error)
    assert counts.var() / counts.mean() == pytest.approx(theory, rel=0.5 + 5 * error)


def test_the_dispersion_of_self_similar_arrivals_follows_theory_on_average():
    process = SelfSimilar(20_000.0, 0.7)
    read = []
    for seed in range(30):
        counts = _counts(process.sample(20.0, seed), 0.1, 20.0)
        read.append(counts.var() / process.rate / 0.1)
    # A finite trace misses the variance of its own mean.
    wanted = process.dispersion_at([0.1])[0] - process.dispersion_at([20.0])[0] * 0.1 / 20.0
    assert np.mean(read) == pytest.approx(wanted, rel=0.1)


def test_the_theory_of_a_random_walk_agrees_with_long_runs():
    process = RandomWalk(3000.0, sigma=0.8, every=(0.02, 0.06), spread=6.0)
    times = process.sample(400.0, seed=5)
    gaps = np.diff(times)
    counts = _counts(times, 4.0, 400.0)
    error = np.sqrt(process.dispersion / (process.rate * 400.0))
    assert times.size / 400.0 == pytest.approx(process.rate, rel=5 * error)
    assert gaps.var() / gaps.mean() ** 2 == pytest.approx(process.scv, rel=0.05)
    assert counts.var() / counts.mean() == pytest.approx(process.dispersion, rel=5 * np.sqrt(2 / 100))


def test_a_superposition_of_maps_has_the_theory_of_the_merged_map():
    process = Superposition((poisson(2000.0), map2(1000.0, 200.0)))
    times = process.sample(120.0, seed=2)
    gaps = np.diff(times)
    _agrees(times, process, 120.0, window=0.5)
    assert gaps.var() / gaps.mean() ** 2 == pytest.approx(process.scv, rel=0.05)
    assert process.dispersion == pytest.approx((2000.0 + 1000.0 * 200.0) / 3000.0)


def test_a_part_without_theory_leaves_the_superposition_without():
    process = Superposition((poisson(1.0), Replay(np.arange(5.0))))
    assert process.scv is None
    assert process.dispersion is None
    assert process.autocorrelation([1]) is None
    assert process.dispersion_at([1.0]) is None


@pytest.mark.parametrize("seconds", [0.0, -1.0, float("nan"), float("inf")])
def test_an_impossible_length_is_refused(seconds):
    with pytest.raises(PenstockError, match="seconds is impossible"):
        poisson(1.0).sample(seconds)


@pytest.mark.parametrize(
    "make",
    [
        lambda: poisson(-1.0),
        lambda: poisson(float("nan")),
        lambda: map2(0.0, 10.0),
        lambda: map2(10.0, 0.5),
        lambda: map2(10.0, float("nan")),
        lambda: SelfSimilar(10.0, 0.49),
        lambda: SelfSimilar(10.0, 1.0),
        lambda: SelfSimilar(10.0, 0.7, slot=0.0),
        lambda: SelfSimilar(10.0, 0.7, peak=1.0),
        lambda: RandomWalk(10.0, sigma=0.0),
        lambda: RandomWalk(10.0, every=(5.0, 3.0)),
        lambda: RandomWalk(10.0, spread=1.0),
        lambda: Superposition(()),
        lambda: Replay(np.array([])),
        lambda: Replay(np.array([1.0, 0.0])),
        lambda: Replay(np.array([0.0, np.nan])),
        lambda: Replay(np.array([0.0, 1.0]), speed=0.0),
        lambda: Replay(np.array([-1.0, 1.0])),
        lambda: Replay(np.array([0.0]), loop=True),
        lambda: poisson(1.0).sample(1.0, seed=-1),
    ],
)
def test_impossible_parameters_are_refused_in_one_sentence(make):
    with pytest.raises(PenstockError) as caught:
        make()
    assert str(caught.value).endswith(".")


def test_a_shaped_stream_follows_its_shape():
    process = Shaped(poisson(5000.0), steps((10.0, 3.0), (20.0, 0.0), (30.0, 1.0)))
    times = process.sample(40.0, seed=1)
    counts = _counts(times, 10.0, 40.0)
    wanted = [process.expected(i * 10.0, (i + 1) * 10.0) for i in range(4)]
    assert wanted == pytest.approx([50_000, 150_000, 0, 50_000])
    assert counts == pytest.approx(wanted, abs=5 * np.sqrt(150_000))
    assert counts[2] == 0
