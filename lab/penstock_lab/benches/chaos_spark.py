"""Kills on real Spark: drivers that live through a plan of events and are killed at the end of it."""

import contextlib
import json
import os
import random
import selectors
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from penstock_lab.benches.chaos_cases import Case
from penstock_lab.benches.chaos_in_process import Outcome
from penstock_lab.results import announce

POINTS = {
    "driver, in a batch": ("state-written",),
    "during commit": ("before-commit", "during-commit", "after-commit"),
    "during compaction": ("outputs-gathered",),
    "during clean-up": ("after-publish", "during-clean-up"),
}
ANY_INSTANT = "driver, at any instant"
#: What a life has before its driver is killed: a worker dies, and one of these happens; or executors of a cluster die.
BETWEEN = ("stop and start", "disk full and freed")
EXECUTORS_A_LIFE = 10
LIFE = 420.0


def run_case(case: Case, folder: Path, kills: int, seconds: float, cluster: bool = False) -> Outcome:
    """Live, be killed, live again, until there were so many kills or the time is over; then finish and compare.

    The session of the next life starts while the present one lives: most of a life is the start of its session.
    """
    _write(case, folder / "in")
    draw = random.Random(case.seed)
    outcome = Outcome(case, {}, [])
    give_up = time.monotonic() + seconds
    life, driver = 0, _driver(folder, cluster)
    finish = False
    while not finish:
        finish = sum(outcome.kills.values()) >= kills or time.monotonic() >= give_up
        plan = {
            "case": case.to_json(),
            "base": str(folder),
            "seed": case.seed * 1000 + life,
            "events": [] if finish else _events(case, draw, cluster),
            "finish": finish,
        }
        after = None if finish else _driver(folder, cluster)
        told, code = _live(case, folder / f"life-{life:03d}.json", driver, plan)
        life += 1
        if finish and "finished" not in told:
            outcome.problems.append(f"the last driver ended with {code}: {_said(folder)}")
        if code not in (0, -signal.SIGKILL):
            outcome.problems.append(f"a driver ended with {code}: {_said(folder)}")
            finish = True
        for kind in told:
            # A driver that ends by itself used its stream up before its kill came.
            if kind != "finished" and (code != 0 or (kind not in POINTS and kind != ANY_INSTANT)):
                outcome.kills[kind] = outcome.kills.get(kind, 0) + 1
        if code == 0 and not finish:
            kills = 0
        if after is not None:
            driver = after
    if driver.poll() is None:
        _end(driver)
    outcome.problems += case.problems(folder)
    return outcome


def _events(case: Case, draw: random.Random, cluster: bool) -> list[tuple[str, str]]:
    """What happens to a life, each with the point of a batch where it is bound to one."""
    events = (
        [("executor", "")] * EXECUTORS_A_LIFE if cluster else [("worker", ""), (draw.choice(BETWEEN), "")]
    )
    last = draw.choice([ANY_INSTANT, *(k for k in POINTS if case.gather or k != "during compaction")])
    return events if last == ANY_INSTANT else [*events, (last, draw.choice(POINTS[last]))]


def _write(case: Case, folder: Path) -> None:
    folder.mkdir(parents=True)
    for number in range(case.batches):
        path = folder / f"{number:04d}.parquet"
        pq.write_table(case.batch(number), path)
        os.utime(path, (number, number))  # Spark takes files by their age


def _driver(folder: Path, cluster: bool) -> subprocess.Popen[bytes]:
    """A driver that starts its session and waits for its plan."""
    command = [sys.executable, "-m", "penstock_lab.benches.chaos_driver", *(["cluster"] if cluster else [])]
    with open(folder / "driver.log", "ab") as log:
        return subprocess.Popen(
            command, start_new_session=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log
        )


def _live(
    case: Case, path: Path, driver: subprocess.Popen[bytes], plan: dict[str, Any]
) -> tuple[list[str], int]:
    """One life: what it told, and how it ended."""
    path.write_text(json.dumps(plan))
    assert driver.stdin is not None
    driver.stdin.write(f"{path}\n".encode())
    driver.stdin.close()
    told, wanted = [], random.Random(plan["seed"]).uniform(0.5, 3.0)
    kill_at = time.monotonic() + LIFE
    assert driver.stdout is not None
    with selectors.DefaultSelector() as watching:
        watching.register(driver.stdout, selectors.EVENT_READ)
        while time.monotonic() < kill_at:
            if not watching.select(max(0.0, kill_at - time.monotonic())):
                break
            line = driver.stdout.readline().decode().strip()
            if not line:
                break
            told.append(line)
            announce(f"{case.label}: {line}")
            if line == ANY_INSTANT:
                kill_at = time.monotonic() + wanted
    if driver.poll() is None and time.monotonic() < kill_at:
        with contextlib.suppress(subprocess.TimeoutExpired):
            driver.wait(60)
    return told, _end(driver)


def _end(driver: subprocess.Popen[bytes]) -> int:
    """End what is left of a driver and its processes; how it ended."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(driver.pid, signal.SIGKILL)
    return driver.wait()


def _said(folder: Path) -> str:
    lines = (folder / "driver.log").read_text(errors="replace").strip().splitlines()
    return lines[-1][-300:] if lines else "nothing was said"
