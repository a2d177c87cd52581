"""Micro-batches read from progress reports."""

from dataclasses import replace
from math import inf, isnan, nan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.models import fit_map2
from penstock.spark.attach.batch_history import (
    SeenBatch,
    arrival_rate,
    arrival_times,
    backlog,
    from_progress,
    latency,
    rows_behind,
)


def report(number, second, rows, milliseconds, **more):
    return {
        "batchId": number,
        "timestamp": f"2026-01-01T00:00:{second:06.3f}Z",
        "numInputRows": rows,
        "durationMs": {"triggerExecution": milliseconds, "addBatch": milliseconds - 100},
        **more,
    }


def test_a_batch_is_read_with_the_gap_since_the_one_before():
    first = from_progress(report(0, 10.0, 7, 400))
    second = from_progress(
        report(1, 12.5, 70, 900, stateOperators=[{"memoryUsedBytes": 5}, {"memoryUsedBytes": 6}]), first
    )
    assert isnan(first.gap)
    assert second.gap == pytest.approx(2.5)
    assert (second.rows, second.duration, second.working, second.state_bytes) == (70, 0.9, 0.8, 11.0)
    assert arrival_rate([first, second]) == pytest.approx(28.0)


def test_rows_left_behind_count_as_arrivals_and_as_delay():
    def source(taken, latest):
        return {"sources": [{"endOffset": {"t": {"0": taken}}, "latestOffset": {"t": {"0": latest}}}]}

    first = from_progress(report(0, 0.0, 100, 500, **source(100, 100)))
    second = from_progress(report(1, 1.0, 100, 500, **source(200, 400)), first)
    assert second.behind == 200
    assert arrival_rate([second], first) == pytest.approx(300.0)
    assert latency([second], 300.0).p50 > latency([SeenBatch(1, 1.0, 0.5, 100, 1.0)]).p50 + 0.6


def test_what_gathered_while_a_query_was_down_is_no_rate_of_arrivals():
    before = SeenBatch(7, 0.0, 0.5, 1000, 1.0, behind=0.0)
    batches = [
        SeenBatch(8, 600.0, 0.5, 1000, nan, behind=600_000.0),
        SeenBatch(9, 601.0, 0.5, 1000, 1.0, behind=599_900.0),
    ]
    assert arrival_rate(batches, before) == 900.0
    assert isnan(arrival_rate(batches[:1], before))
    assert isnan(arrival_rate([]))


def test_offsets_that_do_not_count_rows_tell_nothing():
    assert isnan(rows_behind({"endOffset": {"logOffset": 3}, "latestOffset": {"logOffset": 9}}))
    assert isnan(rows_behind({"endOffset": "17", "latestOffset": "20"}))
    assert isnan(rows_behind({"endOffset": "not json", "latestOffset": None}))


@given(
    st.lists(
        st.tuples(st.integers(0, 500), st.floats(0.05, 5.0), st.floats(0.1, 10.0)), min_size=1, max_size=8
    )
)
def test_delays_agree_with_every_row_counted_by_itself(rows):
    batches = [SeenBatch(i, 0.0, duration, count, gap) for i, (count, duration, gap) in enumerate(rows)]
    told = latency(batches)
    each = np.concatenate(
        [b.duration + b.gap * (np.arange(b.rows) + 0.5) / max(b.rows, 1) for b in batches if b.rows]
        or [np.array([])]
    )
    if not len(each):
        assert isnan(told.mean)
        return
    assert told.mean == pytest.approx(each.mean())
    # One batch is told in twenty parts: a quantile is at most one part of a gap off.
    part = max(b.gap / 20 for b in batches) + max(b.gap / b.rows for b in batches if b.rows)
    for q, value in ((0.5, told.p50), (0.95, told.p95)):
        low, high = np.quantile(each, max(0, q - 0.06)), np.quantile(each, min(1, q + 0.06))
        assert low - part <= value <= high + part
    assert told.maximum >= told.p99 >= told.p95 >= told.p50


def bursty_hour(seconds=3600, rate=600.0, dispersion=6000.0, seed=3):
    """Rows a second of a stream with bursts of minutes."""
    process = fit_map2(1 / rate, dispersion=dispersion)
    times = np.cumsum(process.sample(int(rate * seconds * 1.3), np.random.default_rng(seed)))
    return np.bincount(times[times < seconds].astype(int), minlength=seconds)


def as_batches(counts):
    return [SeenBatch(i, float(i), 0.5, int(n), 1.0) for i, n in enumerate(counts)]


def dispersion(counts, scale):
    """Index of dispersion of counts over windows of ``scale`` seconds."""
    whole = counts[: len(counts) // scale * scale].reshape(-1, scale).sum(axis=1)
    return whole.var() / whole.mean()


def test_thinning_does_not_touch_time():
    counts = bursty_hour()
    seen = arrival_times(as_batches(counts), trigger=1.0)
    assert len(seen.gaps) <= 50_000
    assert seen.gaps.sum() == pytest.approx(len(counts), abs=5.0)
    assert len(seen.gaps) * seen.rows == pytest.approx(counts.sum(), rel=1e-3)
    groups = np.bincount(np.cumsum(seen.gaps).astype(int), minlength=len(counts))[: len(counts)]
    for scale in (5, 30, 120):
        thinned = seen.rows * dispersion(groups, scale)
        assert thinned == pytest.approx(dispersion(counts, scale), rel=0.1), f"over {scale} s"


def test_a_slow_stream_is_seen_row_by_row():
    seen = arrival_times(as_batches([4, 0, 2]))
    assert seen.rows == 1.0
    assert seen.gaps.tolist() == pytest.approx([0.25, 0.25, 0.25, 0.25, 1.5, 0.5])


def test_after_a_silence_rows_came_in_the_last_trigger_interval():
    batches = [SeenBatch(0, 0.0, 0.2, 2, 1.0), SeenBatch(1, 100.0, 0.2, 2, 100.0)]
    assert arrival_times(batches, trigger=1.0).gaps.tolist() == pytest.approx([0.5, 0.5, 99.5, 0.5])
    slow = [SeenBatch(0, 0.0, 60.0, 2, 1.0), SeenBatch(1, 60.0, 0.2, 2, 60.0)]
    assert arrival_times(slow, trigger=1.0).gaps.tolist() == pytest.approx([0.5, 0.5, 30.0, 30.0])


def test_no_row_after_a_silence_waited_longer_than_a_trigger_and_its_batch():
    before = SeenBatch(0, 0.0, 0.5, 10, nan)
    files = [SeenBatch(n, 30.0 * n, 0.5, 10, 30.0) for n in (1, 2, 3)]
    told = latency(files, trigger=1.0, before=before)
    assert told.mean == pytest.approx(1.0)
    assert told.p95 <= told.maximum == 1.5
    # While the batch before took long, they may have come at any time of it.
    assert latency(files[:1], trigger=1.0, before=replace(before, duration=20.0)).maximum == 20.5
    assert latency(files[:1], trigger=1.0, before=replace(before, duration=40.0)).maximum == 30.5


def test_rows_that_waited_for_the_first_batch_are_no_burst():
    """Nobody knows when the rows of the first batch came, but while it ran the next ones did: evenly, for all one knows."""
    batches = [
        SeenBatch(0, 0.0, 13.0, 5, nan),
        SeenBatch(1, 13.0, 5.0, 26, 13.0),
        SeenBatch(2, 18.0, 1.0, 10, 5.0),
    ]
    assert arrival_times(batches, trigger=2.0).gaps.tolist() == pytest.approx([0.5] * 36)


def test_without_rows_there_are_no_arrivals():
    assert len(arrival_times([]).gaps) == 0
    assert len(arrival_times(as_batches([0, 0])).gaps) == 0


@given(st.lists(st.tuples(st.integers(0, 400), st.floats(0.1, 9.0)), max_size=20), st.integers(5, 200))
def test_counts_and_time_are_kept_whatever_the_batches(rows, most):
    batches = [SeenBatch(i, 0.0, 0.1, n, gap) for i, (n, gap) in enumerate(rows)]
    seen = arrival_times(batches, trigger=1.0, most=most)
    total = sum(n for n, _ in rows)
    assert len(seen.gaps) <= max(most, 0)
    assert len(seen.gaps) * seen.rows <= total + 1e-6
    assert total - len(seen.gaps) * seen.rows < seen.rows + 1e-6
    assert (seen.gaps >= -1e-9).all()
    assert seen.gaps.sum() <= sum(gap for _, gap in rows) + 1e-6


@given(st.floats(0.1, 10.0), st.floats(0.01, 1.0), st.floats(0.0, 1.0), st.floats(1.0, 1e4))
def test_a_query_on_time_has_no_backlog_whenever_it_is_looked_at(trigger, share, moment, rate):
    """Not while its next batch runs, nor when a batch needs nearly all of its trigger."""
    allowed = max(trigger, 1.0)
    batch = SeenBatch(3, 100.0, share * trigger, 10, trigger)
    assert (
        backlog(batch, rate, trigger, batch.end + moment * (trigger - batch.duration + allowed))
        <= rate * 1e-9
    )


@given(st.floats(0.1, 10.0), st.floats(0.0, 20.0), st.floats(0.0, 30.0), st.floats(0.0, 0.01))
def test_a_batch_that_took_a_little_longer_leaves_a_little_more(trigger, duration, later, longer):
    batch, slower = (SeenBatch(3, 100.0, d, 10, trigger) for d in (duration, duration + longer))
    now = 100.0 + duration + longer + later
    assert abs(backlog(slower, 1.0, trigger, now) - backlog(batch, 1.0, trigger, now)) <= longer + 1e-9


@pytest.mark.parametrize(
    ("duration", "gap", "settled", "late"),
    [
        (4.0, 4.0, 4.0, 0.0),
        (4.0, 4.0, nan, 0.0),  # what a batch costs is not known yet
        (4.0, nan, nan, 0.0),  # nor how long the one before took
        (4.0, 60.0, nan, 0.0),  # after a silence
        (5.5, 4.0, 10.0, 1.5),  # they grow
        (9.0, 10.0, 4.0, 5.0),  # a backlog is worked off
        (4.0, 4.0, inf, 3.0),  # overload
        (0.4, 0.4, 0.3, 0.0),
    ],
)
def test_where_batches_follow_each_other_at_once_only_those_too_long_for_their_load_leave_a_backlog(
    duration, gap, settled, late
):
    batch = SeenBatch(3, 100.0, duration, 10, gap)
    assert backlog(batch, 50.0, 0.0, batch.end, settled) == pytest.approx(50.0 * late)


def test_rows_that_nobody_takes_are_a_backlog_that_grows():
    batch = SeenBatch(3, 100.0, 0.5, 10, 2.0)
    assert backlog(batch, 50.0, 2.0, 110.0) == pytest.approx(50.0 * (110.0 - 102.0 - 2.0))
    assert backlog(replace(batch, behind=7.0), nan, 2.0, 110.0) == 7.0
