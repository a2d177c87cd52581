"""Versions of state in an object store: one conditional put is the commit; no Spark needed."""

import os
import subprocess
import sys
import uuid
from pathlib import Path

import pyarrow as pa
import pytest

from penstock.core.errors import PenstockError
from penstock.spark.runtime import state_cache
from penstock.spark.runtime.arrow_data import read_segment, write_parquet, write_segments
from penstock.spark.runtime.checkpoint import Checkpoint
from penstock.spark.runtime.damage import DamagedError
from penstock.spark.runtime.folders import OutputFolder
from penstock.spark.runtime.gathering import Gathering
from penstock.spark.runtime.locations import location, read_parquet
from penstock.spark.runtime.manifest import Manifest
from waiting import PATIENCE

pytest.importorskip("obstore", reason="obstore is not installed: pip install 'penstock[stores]'")

IDENTITY = {"kind": "test"}
POINTS = (
    "before-commit", "during-commit", "after-commit", "after-publish", "during-clean-up",
)  # fmt: skip


#: A further store to try, such as ``az://container`` with the emulator's variables in the environment.
OTHER = os.environ.get("PENSTOCK_TEST_STORE")


@pytest.fixture(params=["memory", "google", "s3", *filter(None, [OTHER])])
def base(request, monkeypatch, tmp_path):
    monkeypatch.setenv("PENSTOCK_STATE_CACHE", str(tmp_path / "cache"))
    if request.param in ("google", "s3"):
        return location(request.getfixturevalue(request.param))
    if request.param == OTHER:
        return location(f"{OTHER}/{uuid.uuid4().hex[:8]}")
    return location(f"memory://{uuid.uuid4().hex}/run")


def opened(base, seconds=0.0):
    folders = {"output": OutputFolder.made(base / "out", "output")}
    checkpoint = Checkpoint(base / "ck", IDENTITY, Gathering(seconds))
    return checkpoint, folders, checkpoint.recover(folders)


def commit(checkpoint, folder, batch):
    """A batch that adds its number to a sum, keeps it in a state file, and gives it out."""
    latest = checkpoint.latest()
    before = (
        0 if latest is None else read_segment(checkpoint.state_folder, latest.files[0], 0)["sum"][0].as_py()
    )
    table = pa.table({"batch": [batch], "sum": [before + batch]})
    prefix = f"{batch:012d}-{uuid.uuid4().hex[:6]}"
    state = write_segments(checkpoint.state_folder, prefix, table.schema, [table])
    staged = f"{folder.staging}/{prefix}-0.parquet"
    write_parquet(table, staged)
    out = folder.publication(staged, f"part-{batch:09d}-0000.parquet")
    checkpoint.commit(Manifest(batch, {"sum": before + batch}, [state], [out], offset={"at": batch}))


def results(base):
    found = [read_parquet(p).to_pylist() for p in sorted((base / "out").glob("part-*.parquet"))]
    return [row for rows in found for row in rows]


def expected(batches):
    return [{"batch": b, "sum": b * (b + 1) // 2} for b in range(batches)]


def test_commits_restarts_and_what_is_kept(base):
    checkpoint, folders, latest = opened(base)
    assert latest is None
    for batch in range(4):
        commit(checkpoint, folders["output"], batch)
    checkpoint.close()
    again, folders, latest = opened(base)
    assert (latest.batch, latest.state, latest.offset) == (3, {"sum": 6}, {"at": 3})
    commit(again, folders["output"], 4)
    assert results(base) == expected(5)
    left = sorted(p.name for p in (base / "ck" / "penstock" / "commits").glob("*.json"))
    assert left == ["000000000003.json", "000000000004.json"]
    assert len(list((base / "ck" / "penstock" / "state").iterdir())) == 2
    assert not list((base / "out" / "_staging").iterdir())
    again.close()
    with pytest.raises(PenstockError, match="belongs to another query: its kind"):
        Checkpoint(base / "ck", {"kind": "other"})
    other = Checkpoint(base / "ck2", IDENTITY)
    with pytest.raises(PenstockError, match="belongs to the run with the checkpoint"):
        other.recover(folders)


def test_of_two_runs_the_one_that_commits_first_goes_on(base):
    first, folders, _ = opened(base)
    commit(first, folders["output"], 0)
    second, others, latest = opened(base)
    assert latest.batch == 0
    commit(second, others["output"], 1)
    with pytest.raises(PenstockError, match="Another run has committed batch 1"):
        commit(first, folders["output"], 1)
    commit(second, others["output"], 2)
    assert results(base) == expected(3)


def test_gathered_output_is_committed_again_with_the_same_batch(base):
    checkpoint, folders, _ = opened(base, seconds=1000)
    for batch in range(3):
        commit(checkpoint, folders["output"], batch)
    assert results(base) == []
    other, _, _ = opened(base, seconds=1000)
    with pytest.raises(PenstockError, match="Another run has gone on from batch 2"):
        checkpoint.flush()
    assert results(base) == []
    other.flush()
    assert results(base) == expected(3)


def test_what_waited_is_given_out_once_where_the_old_run_ends_after_the_new_one_has_begun(base):
    old, folders, _ = opened(base, seconds=1000)
    for batch in range(3):
        commit(old, folders["output"], batch)
    new, folders, latest = opened(base, seconds=1000)
    assert latest.batch == 2
    with pytest.raises(PenstockError, match="Another run has gone on from batch 2"):
        old.flush()
    commit(new, folders["output"], 3)
    new.flush()
    assert results(base) == expected(4)


def test_a_version_that_is_put_again_while_a_start_reads_it_is_read_again(base, monkeypatch):
    old, folders, _ = opened(base, seconds=1000)
    for batch in range(3):
        commit(old, folders["output"], batch)
    sound, flushed = Checkpoint._sound, []

    def and_then_the_old_run_ends(self):
        found = sound(self)
        if not flushed:
            flushed.append(old.flush())
        return found

    monkeypatch.setattr(Checkpoint, "_sound", and_then_the_old_run_ends)
    new, folders, latest = opened(base, seconds=1000)
    assert (latest.batch, latest.round, list(latest.waiting)) == (2, 1, [])
    commit(new, folders["output"], 3)
    new.flush()
    assert results(base) == expected(4)


def test_state_that_is_gone_or_damaged_is_seen(base):
    checkpoint, folders, _ = opened(base)
    for batch in range(2):
        commit(checkpoint, folders["output"], batch)
    name = checkpoint.latest().files[0]
    state_cache.path_of(checkpoint.state_folder / name).unlink()
    (checkpoint.state_folder / name).write_bytes(b"something else")
    with pytest.raises(DamagedError, match="is damaged"):
        read_segment(checkpoint.state_folder, name, 0)
    (checkpoint.state_folder / name).unlink()
    checkpoint.close()
    again, _, latest = opened(base)
    assert latest.batch == 0
    assert "is missing" in again.mended
    assert results(base) == expected(1)


def test_the_cache_drops_what_was_used_longest_ago(tmp_path):
    for at in range(10):
        (tmp_path / "a").mkdir(exist_ok=True)
        path = tmp_path / "a" / str(at)
        path.write_bytes(b"x" * 100)
        os.utime(path, (at, at))
    state_cache.trim(tmp_path, 1000)
    assert len(list(tmp_path.glob("*/*"))) == 10
    state_cache.trim(tmp_path, 500)
    assert sorted(p.name for p in tmp_path.glob("*/*")) == ["6", "7", "8", "9"]


def test_a_driver_that_is_killed_between_two_puts_leaves_what_an_undisturbed_run_would(s3):
    def child(kill):
        code = "from test_checkpoint_in_store import child; import sys; child(*sys.argv[1:])"
        command = [sys.executable, "-c", code, s3, kill]
        return subprocess.run(command, cwd=Path(__file__).parent, timeout=PATIENCE, check=False).returncode

    for batch, point in enumerate(POINTS, 2):
        assert child(f"{point}:{batch}") == -9, point
    assert child("") == 0
    assert results(location(s3)) == expected(8)


def child(address, kill):
    """Run up to batch 7 from wherever the checkpoint is, or until killed."""
    from penstock.testing.crashes import kill_at

    if kill:
        kill_at(kill)
    checkpoint, folders, latest = opened(location(address))
    for batch in range(0 if latest is None else latest.batch + 1, 8):
        commit(checkpoint, folders["output"], batch)
    checkpoint.close()


def test_what_is_wrong_with_a_store_is_told_in_one_sentence(s3, monkeypatch):
    from penstock.core import stores

    with pytest.raises(PenstockError, match="There is no 's3://no-such-bucket'"):
        Checkpoint("s3://no-such-bucket/ck", IDENTITY)
    stores._store.cache_clear()
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    with pytest.raises(PenstockError, match=r"refuses .* check the credentials"):
        Checkpoint(f"{s3}/wrong", IDENTITY)
    stores._store.cache_clear()
    for name in ("AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY_ID"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_METADATA_ENDPOINT", "http://127.0.0.1:1")  # no machine that gives credentials
    monkeypatch.setattr(stores, "TRIES", 0)
    with pytest.raises(PenstockError, match=r"cannot be used .* credentials in the environment"):
        Checkpoint(f"{s3}/none", IDENTITY)
    stores._store.cache_clear()
