"""The fuzz bench in small: every row is used, late or dead, and what is given out is the oracle's."""

import pyarrow.parquet as pq
import pytest

from penstock_lab.benches.fuzz import Fuzz, _counts, _in_process, _run, _windows


@pytest.mark.parametrize("what", ["query", "flow"])
def test_nonsense_is_accounted_for_row_by_row(tmp_path, what):
    counts, problems = _run("in-process", what, Fuzz(3, 800), 15, tmp_path)
    assert problems == []
    assert counts["used"] + counts["late"] + counts["dead"] == 12_000
    assert counts["dead"] > 200
    assert (counts["late"] > 50) == (what == "query")  # for a flow no row is late


@pytest.mark.parametrize(("what", "check"), [("query", _windows), ("flow", _counts)])
def test_a_row_that_is_missing_is_seen(tmp_path, what, check):
    fuzz = Fuzz(4, 300)
    counts = _in_process(what, fuzz, 24, tmp_path)
    assert check(fuzz, 24, tmp_path, counts) == []
    file = next(f for f in (tmp_path / "out").rglob("*.parquet") if pq.read_table(f).num_rows)
    pq.write_table(pq.read_table(file).slice(1), file)
    assert check(fuzz, 24, tmp_path, counts)
