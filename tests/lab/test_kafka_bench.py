"""Figures of ``penstock bench kafka`` that are computed from what runs leave behind."""

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

from penstock_lab.benches.kafka_rates import _commit_lags


def test_the_lag_of_a_table_is_from_the_end_of_a_window_to_the_commit_that_brought_it(tmp_path):
    deltalake = pytest.importorskip("deltalake")
    before = datetime.now(UTC)
    for seconds in (5, 2):
        ends = [before - timedelta(seconds=seconds + 1), before - timedelta(seconds=seconds)]
        table = pa.table({"window_end": pa.array(ends, pa.timestamp("us", "UTC")), "a": [1.0, 2.0]})
        deltalake.write_deltalake(str(tmp_path / "table"), table, mode="append")
    took = (datetime.now(UTC) - before).total_seconds()
    lags = _commit_lags(tmp_path / "table", before.timestamp() - 1, before.timestamp() + took + 1)
    assert len(lags) == 2
    for lag, seconds in zip(lags, (5, 2), strict=True):
        assert seconds - 0.01 <= lag <= seconds + took + 0.01
    assert _commit_lags(tmp_path / "table", 0.0, 1.0) == []
