"""Versions of state with one atomic commit; no Spark needed."""

import json
import multiprocessing
import os
import signal
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from penstock.core.errors import PenstockError
from penstock.spark.runtime.arrow_data import write_segments
from penstock.spark.runtime.checkpoint import Checkpoint
from penstock.spark.runtime.folders import OutputFolder
from penstock.spark.runtime.manifest import Manifest, Publication
from penstock.spark.runtime.output_places import OutputPlaces
from penstock.spark.runtime.paths import local_path
from penstock.testing.crashes import kill_at
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
    assert len(list((tmp_path / "penstock" / "commits").glob("*.json"))) == 2


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
    kill_at(f"{point}:1")
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


def output_folder(path, role="output"):
    return {role: OutputFolder.made(path, role)}


def with_output(tmp_path, name="ck", out="out"):
    checkpoint = Checkpoint(tmp_path / name, IDENTITY)
    folders = output_folder(tmp_path / out)
    checkpoint.recover(folders)
    return checkpoint, folders["output"]


def committed(checkpoint, folder, batch):
    """Commit a batch with one state file and one output file, as a run does."""
    staged = Path(folder.staging) / f"{batch}.parquet"
    staged.write_text(f"rows {batch}")
    data = pa.table({"batch": [batch]})
    name = write_segments(checkpoint.state_folder, f"{batch:012d}-abc", data.schema, [data])
    output = folder.publication(str(staged), f"part-{batch:09d}-0000.parquet")
    checkpoint.commit(Manifest(batch, {"batch": batch}, [name], [output]))
    for log in ("offsets", "commits"):
        (checkpoint.spark_folder / log).mkdir(parents=True, exist_ok=True)
        (checkpoint.spark_folder / log / str(batch)).write_text("v1")
    return name


def ended(tmp_path, batches):
    """The checkpoint of a run that committed so many batches and has ended."""
    checkpoint, folder = with_output(tmp_path)
    for batch in range(batches):
        committed(checkpoint, folder, batch)
    checkpoint.close()
    return checkpoint


def test_an_output_folder_has_one_owner(tmp_path):
    checkpoint, folder = with_output(tmp_path)
    committed(checkpoint, folder, 0)
    with pytest.raises(PenstockError, match=r"belongs to the run with the checkpoint '.*ck'"):
        with_output(tmp_path, "another")
    checkpoint.close()
    assert with_output(tmp_path)[0].latest().batch == 0


def test_a_new_checkpoint_does_not_overwrite_files_that_nobody_owns(tmp_path):
    checkpoint, folder = with_output(tmp_path)
    committed(checkpoint, folder, 0)
    (tmp_path / "out" / "_owner.json").unlink()  # as version 0.1 left it
    with pytest.raises(PenstockError, match="holds files of another run"):
        with_output(tmp_path, "another")
    checkpoint.close()
    assert with_output(tmp_path)[0].latest().batch == 0


def test_moved_folders_are_found_where_start_says_they_are(tmp_path):
    checkpoint, folder = with_output(tmp_path)
    committed(checkpoint, folder, 0)
    # A crash between the commit and the move of the file, then somebody moves everything.
    (tmp_path / "out" / "part-000000000-0000.parquet").rename(tmp_path / "out" / "_staging" / "0.parquet")
    (tmp_path / "ck" / "penstock" / "commits" / "000000000000.published").unlink()
    checkpoint.close()
    (tmp_path / "ck").rename(tmp_path / "moved-ck")
    (tmp_path / "out").rename(tmp_path / "moved-out")
    with_output(tmp_path, "moved-ck", "moved-out")
    assert (tmp_path / "moved-out" / "part-000000000-0000.parquet").read_text() == "rows 0"


def test_a_committed_file_that_is_nowhere_is_an_error(tmp_path):
    checkpoint, folder = with_output(tmp_path)
    committed(checkpoint, folder, 0)
    (tmp_path / "out" / "part-000000000-0000.parquet").unlink()
    checkpoint.close()
    # Once in place, the owner of the output may take it away.
    with_output(tmp_path)[0].close()
    (tmp_path / "ck" / "penstock" / "commits" / "000000000000.published").unlink()
    with pytest.raises(PenstockError, match=r"neither at '.*part-000000000-0000.parquet' nor at"):
        with_output(tmp_path)


def flip_a_byte(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(bytes(data))


@pytest.mark.parametrize("what", ["state", "state gone", "manifest", "manifest torn", "manifest gone"])
def test_a_damaged_newest_version_falls_back_to_the_one_before_and_spark_goes_back_with_it(tmp_path, what):
    checkpoint, folder = with_output(tmp_path)
    for batch in range(3):
        name = committed(checkpoint, folder, batch)
    (checkpoint.spark_folder / "offsets" / "3").write_text("v1")
    checkpoint.close()
    state, manifest = checkpoint.state_folder / name, checkpoint._manifest(2)
    if what == "state":
        flip_a_byte(state)
    elif what == "state gone":
        state.unlink()
    elif what == "manifest":
        manifest.write_text(manifest.read_text().replace('"batch":2', '"batch":3'))
    elif what == "manifest torn":
        manifest.write_text(manifest.read_text()[:40])
    else:
        manifest.unlink()
    again, _ = with_output(tmp_path)
    assert again.latest().state == {"batch": 1}
    assert (manifest if "manifest" in what else state).name in again.mended
    logs = {
        log: sorted(p.name for p in (again.spark_folder / log).iterdir()) for log in ("offsets", "commits")
    }
    assert logs == {"offsets": ["0", "1", "2"], "commits": ["0", "1"]}
    visible = sorted(p.name for p in (tmp_path / "out").glob("*.parquet"))
    assert visible == ["part-000000000-0000.parquet", "part-000000001-0000.parquet"]


@pytest.mark.parametrize(
    ("dead", "late", "pair"),
    [
        ("aside", "aside", "dead-letter folder and the late"),
        (None, "out/_dead_letters", "dead-letter folder and the late"),
        ("aside", "linked", "dead-letter folder and the late"),
        ("aside", "out", "output folder and the late"),
        ("out", "late", "output folder and the dead-letter"),
    ],
)
def test_rows_of_two_kinds_cannot_go_into_one_folder(tmp_path, dead, late, pair):
    """Their files would have the same names, and the last one written would be the only one."""
    (tmp_path / "linked").symlink_to(tmp_path / "aside")
    places = OutputPlaces(tmp_path / "ck", tmp_path / "out")
    places.results("output")

    def others():
        return places.dead_letters(dead and tmp_path / dead), places.made(str(tmp_path / late), "late")

    with pytest.raises(
        PenstockError, match=f"^The {pair} folder of a run cannot be the same one, '.*'; name"
    ):
        others()


def test_what_a_batch_that_runs_again_gave_out_before_goes_with_it_whatever_its_kind(tmp_path):
    places = OutputPlaces(tmp_path / "ck", tmp_path / "out")
    folders = {folder.role: folder for folder in (places.results("output"), places.dead_letters(None))}

    def started():
        checkpoint = Checkpoint(tmp_path / "ck", IDENTITY)
        checkpoint.recover(folders)
        return checkpoint

    checkpoint = started()
    for batch in range(2):
        name = committed(checkpoint, folders["output"], batch)
        outputs = []
        for role, final in (
            ("output", f"part-{batch:09d}-settled-0000.parquet"),
            ("dead-letter", f"part-{batch:012d}-abcdef-0-17.parquet"),
        ):
            staged = Path(folders[role].staging) / f"{batch}.parquet"
            staged.write_text("rows")
            outputs.append(folders[role].publication(str(staged), final))
        checkpoint.commit(Manifest(batch, {"batch": batch}, [name], outputs))
    checkpoint.close()
    visible = sorted(path.name for path in (tmp_path / "out").rglob("part-*"))
    assert len(visible) == 6
    flip_a_byte(checkpoint.state_folder / name)
    started().close()
    assert sorted(path.name for path in (tmp_path / "out").rglob("part-*")) == [
        name for name in visible if int(name.split("-")[1]) == 0
    ]


def test_without_a_whole_version_one_sentence_names_the_file(tmp_path):
    checkpoint = ended(tmp_path, 3)
    for path in checkpoint.state_folder.iterdir():
        flip_a_byte(path)
    with pytest.raises(
        PenstockError, match=r"cannot be used: the file '.*arrow' is damaged, and there is no whole"
    ):
        with_output(tmp_path)


@pytest.mark.parametrize("content", ["", "{", '["x"]', None])
def test_a_torn_or_missing_identity_is_one_sentence_that_names_it(tmp_path, content):
    ended(tmp_path, 1)
    identity = tmp_path / "ck" / "penstock" / "identity.json"
    identity.unlink() if content is None else identity.write_text(content)
    with pytest.raises(PenstockError, match=r"identity\.json"):
        Checkpoint(tmp_path / "ck", IDENTITY)


def test_what_a_commit_names_is_on_disk_before_it(tmp_path, monkeypatch):
    """The order of what is forced to the disk: state, its folder, the staged file's folder, manifest, then the rename."""
    seen = []
    fsync, rename = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda fd: (seen.append(os.readlink(f"/proc/self/fd/{fd}")), fsync(fd)))
    monkeypatch.setattr(os, "replace", lambda a, b: (seen.append(f"rename {b}"), rename(a, b)))
    checkpoint, folder = with_output(tmp_path)
    seen.clear()
    committed(checkpoint, folder, 0)
    names = [Path(s).name for s in seen]
    at = names.index("000000000000.tmp")
    assert {"state", "_staging", "0.parquet"} <= set(names[:at])
    assert any(n.startswith("000000000000-abc") for n in names[:at])
    assert [names[at + 1], names[at + 2]] == ["000000000000.json", "commits"]


def test_version_0_1_is_read(tmp_path):
    """A manifest with absolute paths, no checksums, and an identity without the later keys."""
    checkpoint = Checkpoint(tmp_path / "ck", IDENTITY)
    staged, final = tmp_path / "staged", tmp_path / "final"
    staged.write_text("rows")
    (checkpoint.state_folder / "000000000000-abc-w0-0123.arrow").write_text("x")
    old = {
        "batch": 0,
        "state": {"sum": 3},
        "files": ["000000000000-abc-w0-0123.arrow"],
        "outputs": [{"staged": str(staged), "final": str(final)}],
        "schema": 1,
    }
    checkpoint._manifest(0).write_text(json.dumps(old))
    (tmp_path / "ck" / "penstock" / "id").unlink()
    checkpoint.close()
    again = Checkpoint(tmp_path / "ck", IDENTITY | {"preference parameters": {"k": 3}})
    assert again.recover(output_folder(tmp_path / "out")).state == {"sum": 3}
    assert final.read_text() == "rows"
    again.close()
    with pytest.raises(PenstockError, match="its preference parameters is"):
        Checkpoint(tmp_path / "ck", IDENTITY | {"preference parameters": {"k": 4}})


def test_temporary_files_that_spark_left_are_removed(tmp_path):
    checkpoint = Checkpoint(tmp_path, IDENTITY)
    offsets = checkpoint.spark_folder / "offsets"
    offsets.mkdir(parents=True)
    for name in (".0.3b8a7cd0.tmp", "..0.3b8a7cd0.tmp.crc", "0", ".0.crc"):
        (offsets / name).write_text("")
    checkpoint.recover()
    assert sorted(p.name for p in offsets.iterdir()) == [".0.crc", "0"]
    (offsets / "0").unlink()
    checkpoint.recover()
    assert not any(offsets.iterdir())


@pytest.mark.parametrize("batches", [1, 3])
def test_a_run_that_reads_its_source_itself_falls_back_to_the_offset_of_the_version_before(tmp_path, batches):
    checkpoint, folder = with_output(tmp_path)
    for batch in range(batches):
        name = f"{batch:012d}-state"
        (checkpoint.state_folder / name).write_text("x")
        staged = Path(folder.staging) / f"{batch}.parquet"
        staged.write_text(str(batch))
        output = folder.publication(str(staged), f"part-{batch:09d}-0000.parquet")
        checkpoint.commit(Manifest(batch, {"batch": batch}, [name], [output], offset={"row": batch + 1}))
    checkpoint.close()
    checkpoint._manifest(batches - 1).write_text("{")
    again, _ = with_output(tmp_path)
    latest = again.latest()
    assert (None if latest is None else latest.offset) == (None if batches == 1 else {"row": 2})
    assert f"batch {batches - 1} is run again" in again.mended
    assert len(list((tmp_path / "out").glob("*.parquet"))) == batches - 1


def test_a_batch_that_is_committed_again_says_so_and_is_published_again(tmp_path):
    """What the last batch left is settled when a run ends: a second commit of the same batch, with more in it."""
    checkpoint, folder = with_output(tmp_path)
    committed(checkpoint, folder, 0)
    committed(checkpoint, folder, 1)
    assert [checkpoint.read(batch).round for batch in (0, 1)] == [0, 0]
    committed(checkpoint, folder, 1)
    committed(checkpoint, folder, 1)
    assert checkpoint.read(1).round == 2
    checkpoint.close()
    again, folder = with_output(tmp_path)
    committed(again, folder, 1)
    assert again.read(1).round == 3
    committed(again, folder, 2)
    assert again.read(2).round == 0
    again.close()


def test_half_written_manifests_are_removed_at_the_next_start(tmp_path):
    ended(tmp_path, 1)
    left = tmp_path / "ck" / "penstock" / "commits" / "000000000001.json.tmp"
    left.write_text("{")
    again, _ = with_output(tmp_path)
    assert not left.exists()
    again.close()


def test_another_version_may_take_the_place_of_a_kept_one(tmp_path):
    checkpoint, folder = with_output(tmp_path)
    committed(checkpoint, folder, 0)
    committed(checkpoint, folder, 1)
    checkpoint.rewrite(replace(checkpoint.read(1), state={"moved": True}))
    assert [checkpoint.read(batch).state for batch in (0, 1)] == [{"batch": 0}, {"moved": True}]
    checkpoint.close()


def test_a_run_that_has_ended_is_asked_to_let_go_of_its_checkpoint(tmp_path):
    checkpoint = Checkpoint(tmp_path / "ck", IDENTITY)
    checkpoint.held_by(checkpoint.close)
    Checkpoint(tmp_path / "ck", IDENTITY).close()  # closes the first one
    held = Checkpoint(tmp_path / "ck", IDENTITY)
    held.held_by(lambda: None)  # this one still runs
    with pytest.raises(PenstockError):
        Checkpoint(tmp_path / "ck", IDENTITY)
    held.close()
    Checkpoint(tmp_path / "ck", IDENTITY).close()


def test_where_nothing_is_whole_the_sentence_says_what_and_what_to_do(tmp_path):
    ended(tmp_path, 3)
    for manifest in (tmp_path / "ck" / "penstock" / "commits").glob("*.json"):
        manifest.write_text("{")
    with pytest.raises(
        PenstockError,
        match=r"cannot be used: .*000000000002\.json.*, and there is no whole version before it; restore it, or start "
        r"with a new checkpoint folder\.$",
    ):
        with_output(tmp_path)


def test_a_first_version_that_is_missing_or_damaged_is_made_again(tmp_path):
    """Nothing is before it: the run begins anew, and Spark's log with it."""
    for name, spoil in (("gone", Path.unlink), ("torn", lambda path: path.write_text("{"))):
        base = tmp_path / name
        base.mkdir()
        checkpoint = ended(base, 1)
        manifest = checkpoint._manifest(0)
        spoil(manifest)
        again, _ = with_output(base)
        assert again.latest() is None
        assert manifest.name in again.mended
        assert "batch 0 is run again" in again.mended
        assert not list((again.spark_folder / "commits").iterdir())
        assert not list((base / "out").glob("*.parquet"))
        again.close()


def test_where_spark_has_forgotten_the_offsets_the_batch_is_named(tmp_path):
    checkpoint = ended(tmp_path, 3)
    checkpoint._manifest(2).unlink()
    (checkpoint.spark_folder / "offsets" / "2").unlink()
    with pytest.raises(
        PenstockError,
        match=r"000000000002\.json' is missing, and Spark's log no longer has the offsets of batch 2; restore it, or "
        r"start with a new checkpoint folder\.$",
    ):
        with_output(tmp_path)


def test_output_of_a_folder_that_is_not_given_any_more_is_found_where_it_was(tmp_path):
    checkpoint, folder = with_output(tmp_path)
    committed(checkpoint, folder, 0)
    final, staged = tmp_path / "out" / "part-000000000-0000.parquet", Path(folder.staging) / "0.parquet"
    final.rename(staged)
    checkpoint._published(0).unlink()
    checkpoint.close()
    again = Checkpoint(tmp_path / "ck", IDENTITY)
    again.recover({})
    assert final.exists()
    again.close()


def test_what_failed_attempts_left_is_swept_now_and_then(tmp_path, monkeypatch):
    monkeypatch.setattr("penstock.spark.runtime.checkpoint.SWEEP_EVERY", 4)
    checkpoint, folder = with_output(tmp_path)
    left = checkpoint.state_folder / f"{1:012d}-failed.arrow"
    ahead = checkpoint.state_folder / f"{5:012d}-inwork.arrow"
    for batch in range(5):
        committed(checkpoint, folder, batch)
        if batch == 1:
            left.write_text("x")
            ahead.write_text("x")
        assert left.exists() == (1 <= batch < 4)
    assert ahead.exists()
    checkpoint.close()


def test_a_checkpoint_that_lost_its_identity_is_refused_whoever_kept_its_batches(tmp_path):
    own = Checkpoint(tmp_path / "own", IDENTITY)
    own.commit(Manifest(0, {}, []))
    own.close()
    (tmp_path / "own" / "penstock" / "identity.json").unlink()
    commits = tmp_path / "sparks" / "spark" / "commits"
    commits.mkdir(parents=True)
    (commits / "0").write_text("v1\n{}")
    for folder in (tmp_path / "own", tmp_path / "sparks"):
        with pytest.raises(PenstockError, match="not whose they are"):
            Checkpoint(folder, IDENTITY)
