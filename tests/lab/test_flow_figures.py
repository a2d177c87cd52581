"""How the flow benchmarks count: batches after the warm-up, pauses against usual batches."""

from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest

from penstock.apps import finance, wordcount
from penstock_lab.benches.flow_runs import WARM_UP, timed
from penstock_lab.benches.rescale import EVERY, _pauses


def progress(rows, milliseconds):
    return {"numInputRows": rows, "durationMs": {"triggerExecution": milliseconds}}


def test_rates_leave_out_the_warm_up_and_empty_batches():
    batches = [progress(100, 9_000)] * WARM_UP + [progress(0, 500), progress(100, 250), progress(300, 750)]
    found = timed(SimpleNamespace(recentProgress=batches))
    assert found == {"rate": 400.0, "seconds": 0.5, "batches": 2}


def test_a_single_batch_is_timed_as_it_is():
    found = timed(SimpleNamespace(recentProgress=[progress(100, 9_000), progress(100, 2_000)]))
    assert found["rate"] == 50.0


def test_a_pause_is_the_excess_over_the_batches_that_follow():
    ends = np.cumsum([1.0, 1.0, 1.6, 1.1, 1.1, 1.1, 1.1])
    change = SimpleNamespace(moved={"keep": (1, 2)}, pause=0.01, delayed=7, bytes=2048)
    profiles = [
        SimpleNamespace(batch=b, started=float(end) - 0.5, seconds=0.5, change=change if b == 2 else None)
        for b, end in enumerate(ends)
    ]
    assert EVERY == 5
    ((name, pause, driver, usual, groups, delayed, kilobytes),) = _pauses(profiles, {2: ("2 -> 4", {})})
    assert (name, driver, groups, delayed, kilobytes) == ("2 -> 4", 0.01, 2, 7, 2.0)
    assert (pause, usual) == pytest.approx((0.5, 1.1))


def test_words_of_a_text_are_as_frequent_as_zipf_says():
    lines = wordcount.text(20_000, 1000)
    counts = [n for _, n in Counter(" ".join(lines.to_pylist()).split()).most_common()]
    assert len(lines) == 20_000
    assert counts[0] / counts[9] == pytest.approx(np.log(2) / np.log(11 / 10), rel=0.1)
    assert 800 < len(counts) <= 1000


def test_synthetic_tables_hold_the_rows_of_the_synthetic_source():
    trades, quotes = finance.synthetic_tables(400, 7)
    assert trades.num_rows == 100
    assert quotes.num_rows == 300
    made = finance.synthetic(np.arange(400), 7)
    assert quotes["ask"].to_pylist() == (made["price"][made["ts"] % 4 != 0] + 0.5).tolist()
    assert trades["ts"].to_pylist() == list(range(0, 400, 4))
