"""Exactly once, shown by killing real processes."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.preference import skyline
from waiting import PATIENCE

pytestmark = [pytest.mark.spark, pytest.mark.kill]

DRIVER = Path(__file__).with_name("run_query.py")
SECOND = 1_000_000


def write_stream(folder: Path, files: int, rows: int = 300) -> None:
    rng = np.random.default_rng(3)
    folder.mkdir()
    for number in range(files):
        times = number * SECOND + np.sort(rng.integers(0, SECOND, rows)) + rng.integers(0, 300_000, rows)
        table = pa.table(
            {
                "event_time": pa.array(times, pa.timestamp("us", "UTC")),
                "price": rng.integers(1, 40, rows).astype(float),
                "rating": rng.integers(1, 40, rows),
                "region": rng.choice(["north", "south"], rows),
                "offer": np.arange(number * rows, (number + 1) * rows),
            }
        )
        path = folder / f"{number:03d}.parquet"
        pq.write_table(table, path)
        os.utime(path, (number, number))


def undisturbed(source: Path) -> dict[int, list[int]]:
    """What a run that nothing disturbs gives: all windows that end before the last row less the largest delay.

    Delays stay below 300 ms plus the distance of the rows, and no row is late, so this is a plain brute force.
    """
    table = pq.read_table(source)
    times = table["event_time"].cast(pa.int64()).to_numpy()
    points = np.column_stack([table["price"].to_numpy(), -table["rating"].to_numpy()])
    answers = {}
    for start in range(-SECOND, int(times.max()), 200_000):
        rows = np.flatnonzero((times >= start) & (times < start + SECOND))
        if len(rows):
            answers[start] = sorted(table["offer"].to_numpy()[rows[skyline(points[rows])]].tolist())
    return answers


def given_out(output: Path) -> dict[int, list[int]]:
    table = pq.read_table(output)
    answers: dict[int, list[int]] = {}
    for start, offer in zip(
        table["window_start"].cast(pa.int64()).to_pylist(), table["offer"].to_pylist(), strict=True
    ):
        answers.setdefault(start, []).append(offer)
    return {start: sorted(offers) for start, offers in answers.items()}


def start_driver(arguments: list[str], crash_at: str = "") -> subprocess.Popen[str]:
    environment = os.environ | {"CRASH_AT": crash_at}
    return subprocess.Popen(
        [sys.executable, str(DRIVER), *arguments],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def check(output: Path, source: Path) -> None:
    got, wanted = given_out(output), undisturbed(source)
    assert len(got) > 10
    assert got == {start: wanted[start] for start in got}
    # Complete from the first window on: nothing was skipped on the way.
    assert sorted(got) == sorted(wanted)[: len(got)]


def test_a_driver_killed_in_a_batch_and_in_its_commit_leaves_the_output_of_an_undisturbed_run(tmp_path):
    write_stream(tmp_path / "in", files=5)
    places = [str(tmp_path / name) for name in ("in", "out", "ck")]
    for point in (
        "state-written:1",
        "during-commit:2",
    ):  # the others are reached without Spark, in tests/lab/test_chaos.py
        driver = start_driver(places, crash_at=point)
        _, told = driver.communicate(timeout=PATIENCE)
        assert driver.returncode == -signal.SIGKILL, f"did not reach {point}: {told[-2000:]}"
    driver = start_driver(places)
    _, told = driver.communicate(timeout=PATIENCE)
    assert driver.returncode == 0, told[-2000:]
    check(tmp_path / "out", tmp_path / "in")
    staged = [p.name for p in (tmp_path / "out" / "_staging").iterdir()]
    assert staged == []


@pytest.mark.cluster
def test_killed_executors_and_python_workers_do_not_change_the_output(cluster, tmp_path):
    write_stream(tmp_path / "in", files=6)
    driver = start_driver([*(str(tmp_path / name) for name in ("in", "out", "ck")), cluster.master])
    try:
        assert wait_for_line(driver, "committed 1")
        workers = [pid for pid in descendants(cluster.pids) if ".daemon" in command(pid)]
        assert workers
        os.kill(workers[-1], signal.SIGKILL)
        assert wait_for_line(driver, "committed 3")
        executors = [p for p in descendants(cluster.pids) if "CoarseGrainedExecutorBackend" in command(p)]
        assert executors
        os.kill(executors[0], signal.SIGKILL)
        _, told = driver.communicate(timeout=PATIENCE)
        assert driver.returncode == 0, told[-2000:]
    finally:
        if driver.poll() is None:
            os.killpg(driver.pid, signal.SIGKILL)
            driver.wait()
    check(tmp_path / "out", tmp_path / "in")


def wait_for_line(driver: subprocess.Popen[str], wanted: str) -> bool:
    return any(line.startswith(wanted) for line in iter(driver.stdout.readline, ""))


def descendants(pids: list[int]) -> list[int]:
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
            except (OSError, IndexError):
                continue
            children.setdefault(parent, []).append(int(entry.name))
    found, rest = [], list(pids)
    while rest:
        pid = rest.pop()
        found += children.get(pid, [])
        rest += children.get(pid, [])
    return found


def command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""
