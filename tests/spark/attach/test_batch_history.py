"""Micro-batches read from progress reports."""

from math import isnan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.spark.attach.batch_history import (
    SeenBatch,
    arrival_rate,
    from_progress,
    interarrivals,
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


def test_inter_arrival_times_keep_mean_and_bursts_when_thinned():
    batches = [SeenBatch(i, 0.0, 0.5, 100_000 if i % 10 == 0 else 1_000, 1.0) for i in range(100)]
    times = interarrivals(batches, most=10_000)
    assert len(times) <= 10_200
    counts = np.array([b.rows for b in batches])
    assert 1 / times.mean() == pytest.approx(counts.mean(), rel=0.02)
    assert times.var() / times.mean() ** 2 > 1
