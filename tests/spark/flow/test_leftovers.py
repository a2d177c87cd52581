"""Files of attempts that were never committed do not pile up."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.dataflow.graph import Graph
from penstock.dataflow.operators import operator
from penstock.dataflow.running_figures import running_count
from penstock.spark.runtime import checkpoint, milestones
from penstock.testing.flow_run import start_in_process


@operator(keys="k", state={"n": int}, output={"k": int, "n": int}, on_error="dead-letter")
def count(rows, state, output):
    if (rows["k"] == 3).any() and len(rows) == 1:
        raise ValueError("no threes")
    output.emit({"k": rows["k"], "n": running_count(rows.slots, state["n"])})


def graph():
    made = Graph("leftovers")
    made.source("rows", {"k": int}).through(count, name="count").sink("out")
    return made


class Crash(BaseException):
    """Stands for the end of the process."""


def staged(folder):
    return [p for p in folder.rglob("_staging/*") if p.is_file()]


@pytest.mark.parametrize("point", ["state-written", "outputs-gathered", "during-commit"])
def test_kills_leave_no_orphans_after_the_next_start(tmp_path, monkeypatch, point):
    batch = {"rows": pa.table({"k": [1, 2, 3, 4]})}

    def crash(name, number):
        if name == point and number == 1:
            raise Crash

    for attempt in range(5):
        run = start_in_process(graph(), tmp_path)
        run._next = 0 if run._latest is None else run._latest.batch + 1
        if attempt == 0:
            run.feed(batch)
        monkeypatch.setattr(milestones, "hooks", [crash])
        with pytest.raises(Crash):
            run.feed(batch)
        run.abandon()
        monkeypatch.setattr(milestones, "hooks", [])
        assert staged(tmp_path)
    run = start_in_process(graph(), tmp_path)
    assert staged(tmp_path) == []
    state = {p.name for p in (tmp_path / "checkpoint" / "penstock" / "state").iterdir()}
    assert state == set(run._latest.files)
    run._next = 1
    run.feed(batch)
    run.finish()
    out = pq.read_table(sorted((tmp_path / "out" / "out").glob("*.parquet")))
    dead = (
        pq.read_table(sorted((tmp_path / "dead" / "count").glob("*.parquet")))
        if any((tmp_path / "dead" / "count").iterdir())
        else []
    )
    assert out.num_rows + len(dead) == 8


def test_attempts_that_failed_are_swept_while_the_run_goes_on(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "SWEEP_EVERY", 5)
    run = start_in_process(graph(), tmp_path)
    sink = tmp_path / "out" / "out" / "_staging"
    (sink / "000000000002-abcdef-0-000000000000-12345678.parquet").touch()
    (sink / "000000000009-abcdef-0-000000000000-12345678.parquet").touch()
    for _ in range(7):
        run.feed({"rows": pa.table({"k": [1, 2]})})
    assert [p.name[:12] for p in staged(tmp_path)] == ["000000000009"]  # perhaps a batch in work
    run.finish()
