"""Versions of state with one atomic commit; no Spark needed."""

import json
import multiprocessing
import os
import signal

import pytest

from penstock.core.errors import PenstockError
from penstock.spark.runtime.checkpoint import Checkpoint, Manifest, Publication, local_path
from waiting import PATIENCE

IDENTITY = {"kind": "test", "window": 5}


def state_file(checkpoint: Checkpoint, name: str) -> str:
    (checkpoint.state_folder / name).write_text("x")
    return name


def test_a_new_checkpoint_has_no_version(tmp_path):
    assert Checkpoint(tmp_path, IDENTITY).latest() is None


def test_a_commit_is_the_latest_version_after_a_restart(tmp_path):
    checkpoint = Checkpoint(tmp_path, IDENTITY)
    checkpoint.commit(Manifest(0, {"sum": 3}, [state_file(checkpoint, "a")]))
    checkpoint.close()
    latest = Checkpoint(tmp_path, IDENTITY).recover()
    assert (latest.batch, latest.state, latest.files) == (0, {"sum": 3}, ["a"])


def test_output_appears_with_the_commit_and_is_owed_after_a_crash_in_between(tmp_path):
    checkpoint = Checkpoint(tmp_path / "ck", IDENTITY)
    staged, final = tmp_path / "staged", tmp_path / "final"
    staged.write_text("rows")
    owed = Manifest(0, {}, [], [Publication(str(staged), str(final))])
    manifest = checkpoint._manifest(0)
    checkpoint.commit(owed)
    assert final.read_text() == "rows"
    # As if the crash had come between the commit and the move.
    final.rename(staged)
    assert manifest.exists()
    checkpoint.close()
    Checkpoint(tmp_path / "ck", IDENTITY).recover()
    assert final.read_text() == "rows"
    assert not staged.exists()


def test_files_that_no_kept_version_names_are_removed(tmp_path):
    checkpoint = Checkpoint(tmp_path, IDENTITY)
    for batch in range(5):
        checkpoint.commit(Manifest(batch, {}, [state_file(checkpoint, f"f{batch}")]))
    assert sorted(p.name for p in checkpoint.state_folder.iterdir()) == ["f3", "f4"]
    assert len(list((tmp_path / "penstock" / "commits").iterdir())) == 2


def test_files_of_attempts_that_failed_are_swept_at_the_next_start(tmp_path):
    checkpoint = Checkpoint(tmp_path, IDENTITY)
    checkpoint.commit(Manifest(0, {}, [state_file(checkpoint, "kept")]))
    state_file(checkpoint, "failed-attempt")
    (tmp_path / "penstock" / "commits" / "000000000001.tmp").write_text("{")
    checkpoint.close()
    again = Checkpoint(tmp_path, IDENTITY)
    again.recover()
    assert [p.name for p in again.state_folder.iterdir()] == ["kept"]
    assert again.latest().batch == 0


def test_a_checkpoint_of_something_else_is_refused_with_what_differs(tmp_path):
    Checkpoint(tmp_path, IDENTITY).close()
    with pytest.raises(PenstockError, match="its window is 5, this one's is 6"):
        Checkpoint(tmp_path, IDENTITY | {"window": 6})
    Checkpoint(tmp_path, IDENTITY).close()


def test_a_checkpoint_held_by_a_run_is_refused_to_another(tmp_path):
    first = Checkpoint(tmp_path, IDENTITY)
    with pytest.raises(PenstockError, match="in use by another running query"):
        Checkpoint(tmp_path, IDENTITY)
    first.close()
    Checkpoint(tmp_path, IDENTITY).close()


def test_state_of_a_newer_version_is_refused(tmp_path):
    checkpoint = Checkpoint(tmp_path, IDENTITY)
    checkpoint.commit(Manifest(0, {}))
    path = tmp_path / "penstock" / "commits" / "000000000000.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"schema": 99}))
    with pytest.raises(PenstockError, match="another version of Penstock"):
        checkpoint.latest()


def test_places_that_cannot_be_written_get_one_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(PenstockError, match="Cannot write to the checkpoint folder"):
        Checkpoint(tmp_path / "file" / "ck", IDENTITY)
    with pytest.raises(PenstockError, match="not on a mounted file system"):
        local_path("s3://bucket/ck", "checkpoint")
    assert local_path("file:///data/ck", "checkpoint") == "/data/ck"


def _commit_and_die(folder: str, point: str) -> None:
    os.environ["PENSTOCK_CRASH_AT"] = f"{point}:1"
    checkpoint = Checkpoint(folder, IDENTITY)
    checkpoint.commit(Manifest(1, {"batch": 1}))


@pytest.mark.kill
@pytest.mark.parametrize(
    ("point", "batch"),
    [("before-commit", 0), ("during-commit", 0), ("after-commit", 1), ("after-publish", 1)],
)
def test_a_process_killed_around_its_commit_leaves_the_version_before_or_after_it(tmp_path, point, batch):
    checkpoint = Checkpoint(tmp_path, IDENTITY)
    checkpoint.commit(Manifest(0, {"batch": 0}))
    checkpoint.close()
    child = multiprocessing.get_context("spawn").Process(target=_commit_and_die, args=(str(tmp_path), point))
    child.start()
    child.join(PATIENCE)
    assert child.exitcode == -signal.SIGKILL
    assert Checkpoint(tmp_path, IDENTITY).recover().state == {"batch": batch}
