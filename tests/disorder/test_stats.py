import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import PenstockError
from penstock.disorder.stats import (
    BatchStats,
    add_histograms,
    bucket_of,
    largest_of,
    partition_stats,
    quantile,
)

TIMES = st.lists(st.integers(-(10**9), 10**15), max_size=40)


@given(TIMES, st.none() | st.integers(-(10**9), 10**15), st.none() | st.integers(-(10**9), 10**15))
def test_delays_are_measured_against_the_largest_time_before(times, seen, punctuation):
    stats = partition_stats(times, seen, punctuation)
    highest, delays = seen, []
    for time in times:
        highest = time if highest is None else max(highest, time)
        delays.append(highest - time)
    assert stats.rows == len(times)
    assert stats.t_max == max(times, default=None)
    assert stats.max_delay == max(delays, default=0)
    assert stats.late == sum(punctuation is not None and time < punctuation for time in times)
    assert sum(rows for _, rows in stats.delays) == len(times)


@given(st.lists(TIMES, max_size=4))
def test_parts_merge_in_any_order(parts):
    stats = [partition_stats(p) for p in parts]
    forward, backward = BatchStats(), BatchStats()
    for s in stats:
        forward = forward.merge(s)
    for s in reversed(stats):
        backward = s.merge(backward)
    assert forward == backward
    assert BatchStats.from_json(json.loads(json.dumps(forward.to_json()))) == forward


@given(st.integers(0, 2**52))
def test_a_bucket_is_three_percent_wide(delay):
    bucket = int(bucket_of([delay])[0])
    assert delay <= largest_of(bucket) <= delay * 1.032 + 1
    assert bucket == 0 or largest_of(bucket - 1) < delay


@given(st.lists(st.integers(0, 10**12), min_size=1, max_size=60), st.floats(0, 1))
def test_a_quantile_covers_its_share(delays, share):
    buckets, counts = np.unique(bucket_of(delays), return_counts=True)
    bound = quantile(tuple(zip(buckets.tolist(), counts.tolist(), strict=True)), share)
    assert sum(d <= bound for d in delays) >= share * len(delays) - 1e-9


def test_old_delays_fade_and_vanish():
    fading = ((5, 10),)
    for _ in range(200):
        fading = add_histograms(fading, (), 0.9)
    assert fading == ()


def test_a_share_beyond_one_is_refused():
    with pytest.raises(PenstockError, match="share"):
        quantile((), 1.5)


def test_rows_late_rows_and_delays_of_two_partitions_add_up():
    some, others = ((0, 2), (7, 1)), ((0, 1), (9, 3))
    merged = BatchStats(3, 2, 5, 7, some).merge(BatchStats(4, 1, 9, 9, others))
    assert merged == BatchStats(7, 3, 9, 9, ((0, 3), (7, 1), (9, 3)))


def test_a_quantile_is_the_least_bound_that_covers_the_share():
    counts = ((0, 5), (3, 4), (8, 1))
    assert [quantile(counts, share) for share in (0.0, 0.5, 0.51, 0.9, 0.91, 1.0)] == [0, 0, 3, 3, 8, 8]
    assert quantile((), 0.5) == 0
