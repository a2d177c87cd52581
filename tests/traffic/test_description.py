"""Statistics of traces, against brute force, theory and known figures of recorded streams."""

import csv
import gzip
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.errors import PenstockError
from penstock.traffic import describe, map2, poisson
from penstock.traffic.composition import Shaped
from penstock.traffic.description import autocorrelation
from penstock.traffic.dispersion import dispersion_curve, dispersion_limit, scales_for, window_counts
from penstock.traffic.lateness import lateness
from penstock.traffic.plot import plot_trace
from penstock.traffic.selfsimilar import SelfSimilar
from penstock.traffic.shapes import daily
from penstock.traffic.trace import Trace, read_trace
from penstock.traffic.walk import RandomWalk


@given(
    gaps=st.lists(st.floats(0.0, 10.0), min_size=2, max_size=60),
    window=st.floats(0.1, 20.0),
    start=st.floats(-5, 5),
)
def test_window_counts_agree_with_counting(gaps, window, start):
    times = start + np.cumsum(gaps)
    since = times - times[0]
    whole = int(since[-1] / window)
    counted = [int(((since / window).astype(int) == i).sum()) for i in range(whole)]
    assert window_counts(times, window).tolist() == counted


@given(values=st.lists(st.floats(-100.0, 100.0), min_size=30, max_size=80))
def test_the_autocorrelation_agrees_with_its_definition(values):
    x = np.array(values)
    centred = x - x.mean()
    found = autocorrelation(x)
    if centred @ centred < 1e-9:
        return
    wanted = [centred[:-k] @ centred[k:] / (centred @ centred) for k in range(1, found.size + 1)]
    assert found == pytest.approx(np.array(wanted), abs=1e-9)


@given(times=st.lists(st.floats(0.0, 100.0), min_size=1, max_size=60))
def test_lateness_agrees_with_its_definition(times):
    behind = [max(times[: i + 1]) - t for i, t in enumerate(times)]
    found = lateness(np.array(times))
    assert found.share == pytest.approx(np.mean(np.array(behind) > 0.0))
    assert found.mean == pytest.approx(np.mean(behind))
    assert found.largest == pytest.approx(max(behind))


def test_scales_are_round_numbers():
    assert scales_for(60.0, 1000.0).tolist() == [
        0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0
    ]  # fmt: skip


@pytest.mark.parametrize("dispersion", [1.0, 10.0, 100.0, 1000.0])
def test_the_limit_of_the_dispersion_is_found(dispersion):
    samples = [map2(10_000.0, dispersion).sample(100.0, seed) for seed in range(5)]
    limits = [dispersion_limit(dispersion_curve(times)).value for times in samples]
    assert np.median(limits) == pytest.approx(dispersion, rel=0.3), "a single estimate may be off by half"


def test_long_memory_and_cycles_are_not_mistaken_for_a_limit():
    rising = [
        SelfSimilar(20_000.0, 0.85).sample(60.0, 1),
        Shaped(poisson(1000.0), daily(600.0, 0.5)).sample(1200.0, 1),
    ]
    for times in rising:
        assert not describe(times).limit.settled


@pytest.mark.parametrize("hurst", [0.5, 0.6, 0.7, 0.8, 0.9])
def test_the_hurst_parameter_of_a_self_similar_stream_is_found(hurst):
    found = [describe(SelfSimilar(20_000.0, hurst).sample(60.0, seed)).hurst for seed in range(3)]
    assert np.mean(found) == pytest.approx(hurst, abs=0.06)


def test_verdicts_use_the_words_of_the_papers():
    assert describe(poisson(10_000.0).sample(30.0, 1)).verdict == "no bursts"
    assert describe(map2(10_000.0, 1000.0).sample(60.0, 1)).verdict == "moderate"
    assert describe(map2(100_000.0, 6000.0).sample(60.0, 1)).verdict == "severe"


def test_lateness_of_a_uniform_delay_is_measured():
    rng = np.random.default_rng(1)
    event = np.sort(rng.random(50_000)) * 50.0
    due = event + 0.4 * rng.random(event.size)
    order = np.argsort(due)
    found = describe(Trace(due[order], event[order]))
    assert found.late_share > 0.9
    assert found.delay_mean == pytest.approx(0.2, rel=0.02)
    assert found.lateness.largest < 0.4
    assert describe(due[order]).late_share == 0.0


def test_the_json_has_the_promised_names():
    found = json.loads(json.dumps(describe(RandomWalk(2000.0).sample(30.0, 1)).as_json()))
    for name in (
        "count",
        "rate",
        "scv",
        "autocorrelation",
        "dispersion",
        "hurst",
        "peak_to_mean",
        "late_share",
        "verdict",
    ):
        assert name in found
    assert found["dispersion"]["1"] > 0.0
    assert len(found["autocorrelation"]) == 100


@pytest.mark.parametrize("times", [[1.0], [1.0, 2.0], [3.0, 3.0, 3.0]])
def test_too_few_arrivals_are_refused(times):
    with pytest.raises(PenstockError, match="at least three"):
        describe(np.array(times))


def test_a_short_trace_says_what_it_cannot_tell():
    found = describe(np.array([0.0, 1.0, 2.0, 4.0]))
    assert found.hurst is None
    assert found.limit is None
    assert found.verdict == "unknown"
    json.dumps(found.as_json())


def test_a_steady_beat_has_no_variance_at_all():
    found = describe(np.arange(5000.0))
    assert found.scv == pytest.approx(0.0, abs=1e-12)
    assert found.autocorrelation[0] == 0.0
    assert found.verdict == "no bursts"


def test_a_plot_is_drawn(tmp_path):
    for name, times in (
        ("long", map2(5000.0, 100.0).sample(20.0, 1)),
        ("short", np.array([0.0, 1.0, 1.5, 4.0])),
        ("beat", np.arange(1000.0)),
    ):
        plot_trace(tmp_path / f"{name}.png", times, describe(times), name)
        assert (tmp_path / f"{name}.png").stat().st_size > 20_000
    with pytest.raises(PenstockError, match="Cannot write the plot"):
        plot_trace(tmp_path / "no" / "plot.png", times, describe(times))
    with pytest.raises(PenstockError, match="Cannot write the plot"):
        plot_trace(tmp_path / "plot.nonsense", times, describe(times))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["beat.png", "long.png", "short.png"]


def test_the_figures_of_recorded_packets_are_those_of_the_definition(recorded):
    trace = read_trace(recorded / "bc_paug89.csv.gz", "ts_us", "us")
    found = describe(trace)
    since = trace.arrival - trace.arrival[0]
    for scale in (0.1, 1.0):
        counts = np.bincount((since / scale).astype(int))[:-1]  # the last window is cut short
        assert found.dispersion[scale] == pytest.approx(counts.var() / counts.mean(), rel=0.01)
    assert found.rate == pytest.approx(387.2, abs=0.1)
    assert found.dispersion[1.0] > 2 * found.dispersion[0.05] > 4
    assert found.autocorrelation[0] == pytest.approx(0.18, abs=0.01)


def test_flights_are_as_late_as_a_plain_loop_finds(recorded):
    trace = read_trace(recorded / "nycflights13_ooo.csv.gz", "dep_min", "s", "sched_dep_min", payload=False)
    with gzip.open(recorded / "nycflights13_ooo.csv.gz", "rt") as lines:
        times = [float(row["sched_dep_min"]) for row in csv.DictReader(lines)]
    newest, delays = -np.inf, []
    for time in times:
        newest = max(newest, time)
        delays.append(newest - time)
    found = describe(trace)
    assert found.late_share == np.mean(np.array(delays) > 0) == pytest.approx(0.519, abs=0.001)
    assert (found.lateness.p50, found.lateness.largest) == (np.median(delays), max(delays))


def test_a_trace_of_batches_is_noticed_and_no_limit_is_read_from_the_batches():
    """A Poisson stream seen through a clock of a tenth of a second: no bursts, whatever the fine scales say."""
    seen = np.round(np.sort(np.random.default_rng(1).uniform(0, 300, 60_000)), 1)
    found = describe(seen)
    assert found.batching is not None
    assert found.batching.period == pytest.approx(0.1)
    assert found.batching.share > 0.9
    assert found.limit is not None
    assert found.limit.scale >= found.batching.blur
    assert found.limit.value == pytest.approx(1.0, rel=0.5)
    assert found.as_json()["batching"]["period"] == pytest.approx(0.1)
    assert describe(np.sort(np.random.default_rng(1).uniform(0, 300, 60_000))).batching is None


def test_the_plot_says_that_a_limit_was_not_read_and_its_legends_cover_no_curve(drawn, tmp_path):
    times = np.cumsum(np.repeat([0.001, 0.01], 20_000))  # one step of the rate: rises to the end
    found = describe(times)
    assert not found.limit.settled
    plot_trace(tmp_path / "x.png", times, found)
    (figure,) = drawn
    assert "not read" in figure.get_suptitle()
    axis = figure.axes[3]
    assert axis.get_legend().get_window_extent().y1 <= axis.get_window_extent().y0
    assert any("no limit read" in text.get_text() for text in axis.get_legend().get_texts())
