"""Answers of a run are compared with the static answer, however Spark wrote it."""

import pyarrow as pa

from penstock_lab.benches.latency_rescale import _compared


def answers(windows, unit, zone):
    rows = [(w * 200_000, float(v)) for w, some in enumerate(windows) for v in some]
    times = pa.array([t for t, _ in rows], pa.timestamp("us")).cast(pa.timestamp(unit))
    return pa.table({"window_start": times.cast(pa.timestamp(unit, zone)), "a": [v for _, v in rows]})


def test_windows_are_compared_up_to_the_last_one_given_out():
    whole = answers([[2, 1], [3], [5, 4], [6]], "ns", None)
    assert _compared(answers([[1, 2], [3], [4, 5]], "us", "UTC"), whole) == {"windows": 3, "wrong": 0}
    assert _compared(answers([[1, 2], [3], [4, 7]], "us", "UTC"), whole) == {"windows": 3, "wrong": 1}
    assert _compared(answers([[1], [], [4, 5]], "us", "UTC"), whole) == {"windows": 3, "wrong": 2}
