"""Small output files are put together before anybody sees them; no reader sees a row twice or not at all."""

import multiprocessing
import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.core.errors import PenstockError
from penstock.spark.runtime import gathering
from penstock.spark.runtime.arrow_data import write_parquet
from penstock.spark.runtime.checkpoint import KEPT_VERSIONS, Checkpoint
from penstock.spark.runtime.folders import OutputFolder
from penstock.spark.runtime.gathering import Gathered, Gathering
from penstock.spark.runtime.manifest import Manifest
from penstock.testing.crashes import kill_at
from waiting import PATIENCE

IDENTITY = {"kind": "test"}


class Clock:
    """Stands for the time module: a second a look."""

    def __init__(self, start=0.0):
        self.now = start

    def time(self):
        self.now += 1.0
        return self.now


def opened(base, seconds, monkeypatch=None, start=0.0):
    if monkeypatch is not None:
        monkeypatch.setattr("penstock.spark.runtime.checkpoint.time", Clock(start))
    folders = {
        "output": OutputFolder.made(base / "out", "output"),
        "dead-letter": OutputFolder.made(base / "dead", "dead-letter"),
    }
    checkpoint = Checkpoint(base / "ck", IDENTITY, Gathering(seconds))
    latest = checkpoint.recover(folders)
    return checkpoint, folders, 0 if latest is None else latest.batch + 1


def commit(checkpoint, folders, batch):
    """A batch with two files of results and a dead letter."""
    out, dead = folders["output"], folders["dead-letter"]
    made = []
    for number in range(2):
        staged = f"{out.staging}/{batch:012d}-abcdef-{number}-{os.urandom(4).hex()}.parquet"
        write_parquet(pa.table({"row": [10 * batch + number]}), staged)
        made.append(out.publication(staged, f"part-{batch:09d}-{number:04d}.parquet"))
    staged = f"{dead.staging}/{batch:012d}-abcdef-0-{os.urandom(4).hex()}.parquet"
    write_parquet(pa.table({"row": [1000 + batch]}), staged)
    made.append(dead.publication(staged, f"part-{batch:012d}-abcdef-0-{batch}.parquet"))
    name = f"{batch:012d}-state"
    (checkpoint.state_folder / name).write_text("x")
    checkpoint.commit(Manifest(batch, {}, [name], made))


def rows(folder):
    return [r for f in sorted(folder.glob("*.parquet")) for r in pq.read_table(f)["row"].to_pylist()]


def expected(batches):
    return [10 * b + n for b in range(batches) for n in range(2)]


def test_rows_wait_and_become_visible_together_in_one_file(tmp_path, monkeypatch):
    checkpoint, folders, _ = opened(tmp_path, 9.5, monkeypatch)
    seen: list[int] = []
    for batch in range(40):
        commit(checkpoint, folders, batch)
        now = rows(tmp_path / "out")
        assert now[: len(seen)] == seen  # what was seen stays, in the same order
        assert now == expected(40)[: len(now)]
        seen = now
    assert len(seen) >= 60
    assert len(list((tmp_path / "out").glob("*.parquet"))) == 3
    checkpoint.flush()
    assert rows(tmp_path / "out") == expected(40)
    assert rows(tmp_path / "dead") == [1000 + b for b in range(40)]
    checkpoint.close()
    again, _, number = opened(tmp_path, 0.0)
    assert number == 40
    named = {o.staged for b in (38, 39) for o in again.read(b).waiting}
    assert {f"_staging/{p.name}" for p in (tmp_path / "out" / "_staging").iterdir()} < named
    again.close()


def test_only_files_that_a_kept_version_names_stay_in_the_staging_folder(tmp_path, monkeypatch):
    checkpoint, folders, _ = opened(tmp_path, 5.5, monkeypatch)
    most = 0
    for batch in range(60):
        commit(checkpoint, folders, batch)
        most = max(most, len(list((tmp_path / "out" / "_staging").iterdir())))
    assert most <= 2 * 7 * KEPT_VERSIONS  # as many as wait at once, for each kept version


def test_without_gathering_what_waited_becomes_visible_with_the_next_commit(tmp_path, monkeypatch):
    checkpoint, folders, _ = opened(tmp_path, 1e9, monkeypatch)
    for batch in range(3):
        commit(checkpoint, folders, batch)
    assert rows(tmp_path / "out") == []
    checkpoint.close()
    checkpoint, folders, number = opened(tmp_path, 0.0)
    commit(checkpoint, folders, number)
    assert rows(tmp_path / "out") == expected(4)


def test_a_damaged_version_that_had_made_rows_visible_gives_them_back_to_the_one_before(
    tmp_path, monkeypatch
):
    checkpoint, folders, _ = opened(tmp_path, 4.5, monkeypatch)
    batch = 0
    while not rows(tmp_path / "out"):
        commit(checkpoint, folders, batch)
        batch += 1
    checkpoint.close()
    newest = checkpoint._manifest(batch - 1)
    newest.write_text(newest.read_text()[:-9])
    checkpoint, folders, number = opened(tmp_path, 4.5, monkeypatch, start=3.0)
    assert number == batch - 1
    assert rows(tmp_path / "out") == []
    while not rows(tmp_path / "out"):
        commit(checkpoint, folders, number)
        number += 1
    assert rows(tmp_path / "out") == expected(number)


def _work(base, until, point):
    kill_at(point)
    checkpoint, folders, number = opened(base, 0.0 if until % 2 else 1e-6)
    for batch in range(number, until):
        commit(checkpoint, folders, batch)
    checkpoint.flush()


POINTS = ["before-commit", "outputs-gathered", "during-commit", "after-commit", "after-publish"]


@pytest.mark.parametrize("point", POINTS)
def test_a_kill_at_any_point_neither_loses_nor_repeats_a_row(tmp_path, point):
    fork = multiprocessing.get_context("fork")
    for kill in (f"{point}:3", f"{point}:4", "never"):
        child = fork.Process(target=_work, args=(tmp_path, 6, kill))
        child.start()
        child.join(PATIENCE)
    assert rows(tmp_path / "out") == expected(6)
    assert rows(tmp_path / "dead") == [1000 + b for b in range(6)]


def test_large_files_are_not_written_again(tmp_path, monkeypatch):
    monkeypatch.setattr(gathering, "MOST_BYTES", 100)
    monkeypatch.setattr(gathering, "_merged", lambda *_: pytest.fail("written again"))
    checkpoint, folders, _ = opened(tmp_path, 1e9)
    commit(checkpoint, folders, 0)
    assert rows(tmp_path / "out") == expected(1)
    checkpoint.close()


def test_a_length_of_time_that_is_none_is_refused():
    with pytest.raises(PenstockError, match="gather"):
        Gathering.of("a while")


def published(base, sizes, inside=""):
    """What a gathering makes of waiting files with so many rows each: final names and rows."""
    folder = OutputFolder.made(base / "out", "output")
    waiting = []
    for number, rows in enumerate(sizes):
        staged = f"{folder.staging}/wait-{number}.parquet"
        write_parquet(pa.table({"row": [number] * rows}), staged)
        waiting.append(folder.publication(staged, os.path.join(inside, f"part-{number}.parquet")))
    made = Gathering(60.0).settle(Gathered((), waiting, 0.0), (), 7, 100.0, {"output": folder})
    return made, {
        one.final: sorted(set(pq.read_table(folder.place / one.staged)["row"].to_pylist()))
        for one in made.outputs
    }


def test_one_waiting_file_is_published_as_it_is_and_several_as_one(tmp_path):
    made, rows = published(tmp_path / "one", [3], "counts")
    assert list(rows.values()) == [[0]]
    assert [os.path.dirname(one.final) for one in made.outputs] == ["counts"]
    assert [one.folder for one in made.outputs] == ["output"]
    made, rows = published(tmp_path / "two", [3, 2])
    assert list(rows.values()) == [[0, 1]]
    assert made.outputs[0].final.startswith("part-000000000007-000000-")
    assert made.outputs[0].final.endswith("-0.parquet")
    assert len(made.outputs[0].final) < 60


def test_a_large_file_is_published_by_itself(tmp_path, monkeypatch):
    write_parquet(pa.table({"row": [1] * 100_000}), str(tmp_path / "probe.parquet"))
    size = (tmp_path / "probe.parquet").stat().st_size
    monkeypatch.setattr(gathering, "MOST_BYTES", 2 * size)
    _, rows = published(tmp_path, [1, 100_000, 2])
    assert sorted(rows.values()) == [[0, 2], [1]]
    monkeypatch.setattr(gathering, "MOST_BYTES", 2 * size + 2)
    _, rows = published(tmp_path / "again", [1, 100_000, 2])
    assert list(rows.values()) == [[0, 1, 2]]


def test_files_with_and_without_a_column_go_together(tmp_path):
    folder = OutputFolder.made(tmp_path / "out", "output")
    waiting = []
    for number, table in enumerate([pa.table({"row": [1]}), pa.table({"row": [2], "extra": ["x"]})]):
        staged = f"{folder.staging}/wait-{number}.parquet"
        write_parquet(table, staged)
        waiting.append(folder.publication(staged, f"part-{number}.parquet"))
    made = Gathering(60.0).settle(Gathered((), waiting, 0.0), (), 1, 100.0, {"output": folder})
    table = pq.read_table(folder.place / made.outputs[0].staged)
    assert table.to_pydict() == {"row": [1, 2], "extra": [None, "x"]}


def test_rows_that_wait_go_on_waiting_from_when_they_began_after_a_restart(tmp_path, monkeypatch):
    checkpoint, folders, _ = opened(tmp_path, 50.0, monkeypatch)
    commit(checkpoint, folders, 0)
    since = checkpoint.read(0).since
    checkpoint.close()
    checkpoint, folders, batch = opened(tmp_path, 50.0, monkeypatch, start=30.0)
    commit(checkpoint, folders, batch)
    assert checkpoint.read(1).since == since
    assert rows(tmp_path / "out") == []
    checkpoint.close()
    checkpoint, folders, batch = opened(tmp_path, 50.0, monkeypatch, start=60.0)
    commit(checkpoint, folders, batch)
    assert rows(tmp_path / "out") == expected(3)
    checkpoint.close()
