"""The chaos bench in small: a few kills of each kind of run, and an oracle that sees what is wrong."""

import signal

import pyarrow.parquet as pq
import pytest

from penstock.core.errors import PenstockError
from penstock_lab.benches import chaos
from penstock_lab.benches.chaos_cases import Case
from penstock_lab.benches.chaos_in_process import DONE, FULL, STOPPED, Kill, _live, run_case


@pytest.mark.parametrize(
    "case",
    [
        Case("query", "jobs", 11, batches=6, strategy="SHARED", gather=True),
        Case("query", "jobs", 12, batches=6, strategy="WIN_FB_MERGE"),
        Case("flow", "jobs", 13, batches=6, gather=True),
    ],
    ids=lambda case: case.label,
)
def test_kills_cost_no_row_and_a_row_too_many_or_too_few_is_seen(tmp_path, case):
    for point, batch in (("during-commit", 1), ("after-publish", 3), ("during-recovery", 3)):
        assert _live(case, tmp_path / "run", Kill("a kill", point, batch)) == -signal.SIGKILL
    assert _live(case, tmp_path / "run", Kill()) == DONE
    assert case.problems(tmp_path / "run") == []
    out = tmp_path / "run" / "out"
    files = sorted((out / "counts" if case.kind == "flow" else out).glob("*.parquet"))
    file = next(f for f in files if pq.read_table(f).num_rows > 1)
    whole = pq.read_table(file)
    pq.write_table(whole.slice(1), file)
    assert case.problems(tmp_path / "run")
    pq.write_table(whole, file)
    assert case.problems(tmp_path / "run") == []
    pq.write_table(whole, file.with_name("part-again.parquet"))
    assert case.problems(tmp_path / "run")


def test_a_full_disk_ends_a_life_and_the_next_one_goes_on(tmp_path):
    case = Case("query", "jobs", 14, batches=5)
    assert _live(case, tmp_path, Kill("disk full and freed", writes=7)) == FULL
    assert _live(case, tmp_path, Kill("stop and start", batch=2)) == STOPPED
    outcome = run_case(case, tmp_path, kills=0)
    assert (outcome.kills, outcome.problems) == ({}, [])


def test_a_part_that_there_is_not_is_refused(tmp_path):
    with pytest.raises(PenstockError, match="part of the chaos"):
        chaos.run(quick=True, folder=tmp_path, part="moon")
