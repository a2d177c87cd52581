"""Checkpoints and outputs of real queries after mishaps: damage, a second owner, a failed run, moved folders."""

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock as ps
from penstock.core.errors import PenstockError
from penstock.core.journal import MemoryJournal
from waiting import until

pytestmark = pytest.mark.spark

SECOND = 1_000_000


def add_file(folder: Path, number: int, rows: int = 200) -> None:
    rng = np.random.default_rng(number)
    folder.mkdir(parents=True, exist_ok=True)
    table = pa.table(
        {
            "t": pa.array(
                number * SECOND + np.sort(rng.integers(0, SECOND, rows)), pa.timestamp("us", "UTC")
            ),
            "x": rng.integers(0, 1000, rows).astype(float),
            "y": rng.integers(0, 1000, rows).astype(float),
        }
    )
    hidden = folder / f".{number}"
    pq.write_table(table, hidden)
    os.utime(hidden, (number, number))  # Spark takes files by their age
    hidden.rename(folder / f"{number}.parquet")


def started(spark, base: Path, output="out", checkpoint="ck", **options):
    files = spark.readStream.schema("t timestamp, x double, y double").option("maxFilesPerTrigger", 1)
    stream = files.parquet(str(base / "in"))
    query = ps.PreferenceQuery(
        ps.skyline_of(ps.minimize("x"), ps.minimize("y")),
        time="t",
        window="1 second",
        slide="500 milliseconds",
        disorder=ps.FixedDelay("1 millisecond"),
    )
    return query.start(
        stream, output=base / output, checkpoint=base / checkpoint, available_now=True, **options
    )


def run_batches(spark, base: Path, numbers, **options) -> None:
    """One micro-batch a file."""
    for number in numbers:
        add_file(base / "in", number)
    started(spark, base, **options).await_termination()


def answers(folder: Path) -> list[tuple]:
    rows = pq.read_table(folder).to_pylist()
    return sorted((r["window_start"], r["x"], r["y"]) for r in rows)


@pytest.fixture(scope="module")
def undisturbed(spark, tmp_path_factory) -> list[tuple]:
    """The answers of one run over four files: they do not depend on where batches end."""
    base = tmp_path_factory.mktemp("undisturbed")
    run_batches(spark, base, range(4))
    return answers(base / "out")


@pytest.mark.parametrize("what", ["state", "manifest"])
def test_a_query_goes_on_from_the_version_before_a_damaged_one_with_the_same_answers(
    spark, tmp_path, what, undisturbed
):
    run_batches(spark, tmp_path, range(3))
    held = tmp_path / "ck" / "penstock"
    newest = sorted((held / "commits").glob("*.json"))[-1]
    if what == "state":
        newest = max((held / "state").iterdir())
    data = bytearray(newest.read_bytes())
    data[len(data) // 2] ^= 0xFF
    newest.write_bytes(bytes(data))
    journal = MemoryJournal()
    run_batches(spark, tmp_path, [3], journal=journal)
    assert any(newest.name in text and "run again" in text for text in journal.texts())
    assert answers(tmp_path / "out") == undisturbed


def test_two_queries_cannot_have_one_output_folder(spark, tmp_path):
    run_batches(spark, tmp_path, range(2))
    before = answers(tmp_path / "out")
    with pytest.raises(PenstockError, match="belongs to the run with the checkpoint"):
        started(spark, tmp_path, checkpoint="another")
    assert answers(tmp_path / "out") == before


def test_a_query_that_failed_can_be_started_again_in_the_same_process(spark, tmp_path):
    add_file(tmp_path / "in", 0)

    def broken(frame, batch_id):
        raise ValueError("no room")

    stream = spark.readStream.schema("t timestamp, x double").parquet(str(tmp_path / "in"))
    query = ps.PreferenceQuery(
        ps.skyline_of(ps.minimize("x")), time="t", window="1 second", disorder=ps.FixedDelay("1 millisecond")
    )
    add_file(tmp_path / "in", 2)
    failed = query.start(stream, output=broken, checkpoint=tmp_path / "ck", available_now=True)
    until(lambda: not failed.query.isActive, "the query fails, and nobody awaits the run's own handle")
    got = []
    run = query.start(
        stream,
        output=lambda frame, _: got.append(frame.count()),
        checkpoint=tmp_path / "ck",
        available_now=True,
    )
    run.await_termination()
    assert sum(got) > 0


def test_folders_moved_after_a_crash_lose_nothing(spark, tmp_path, undisturbed):
    run_batches(spark, tmp_path, range(2))
    # As if the process had died between the last commit and the moves of its output files.
    commits = tmp_path / "ck" / "penstock" / "commits"
    newest = json.loads(sorted(commits.glob("*.json"))[-1].read_text())
    assert newest["outputs"]
    for output in newest["outputs"]:
        (tmp_path / "out" / output["final"]).rename(tmp_path / "out" / output["staged"])
    for marker in commits.glob("*.published"):
        marker.unlink()
    for name in ("ck", "out"):
        shutil.move(tmp_path / name, tmp_path / f"moved-{name}")
    run_batches(spark, tmp_path, range(2, 4), output="moved-out", checkpoint="moved-ck")
    assert answers(tmp_path / "moved-out") == undisturbed


def test_temporary_files_that_a_dead_process_left_in_sparks_logs_do_not_stop_a_first_batch(spark, tmp_path):
    add_file(tmp_path / "in", 0)
    offsets = tmp_path / "ck" / "spark" / "offsets"
    offsets.mkdir(parents=True)
    (offsets / ".0.7b0b6f3e-4a53-4c34-9e1f-6f4c1d6b1c11.tmp").write_text("v1\n")
    run_batches(spark, tmp_path, [1])
    assert answers(tmp_path / "out")


@pytest.mark.parametrize("name", ["../../x", "/x", "", "a\0b"])
def test_names_that_are_paths_are_refused(spark, tmp_path, name):
    add_file(tmp_path / "in", 0)
    with pytest.raises(PenstockError, match=r"A query (cannot be called|needs a name)"):
        started(spark, tmp_path, name=name)
