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
#: Events that a driver survives, so that one life has several.
SURVIVED = ("stop and start", "worker", "disk full and freed")
LIFE = 420.0


def run_case(case: Case, folder: Path, kills: int, seconds: float, cluster: bool = False) -> Outcome:
    """Live, be killed, live again, until there were so many kills or the time is over; then finish and compare."""
    _write(case, folder / "in")
    draw = random.Random(case.seed)
    outcome = Outcome(case, {}, [])
    give_up = time.monotonic() + seconds
    life = 0
    while sum(outcome.kills.values()) < kills and time.monotonic() < give_up:
        survived = ("executor",) if cluster else SURVIVED
        events = [(draw.choice(survived), "") for _ in range(3)]
        last = draw.choice([ANY_INSTANT, *(k for k in POINTS if case.gather or k != "during compaction")])
        if last != ANY_INSTANT:
            events.append((last, draw.choice(POINTS[last])))
        told, code = _live(case, folder, events, life, cluster, finish=False)
        life += 1
        for kind in told:
            outcome.kills[kind] = outcome.kills.get(kind, 0) + 1
        if code not in (0, -signal.SIGKILL):
            outcome.problems.append(f"a driver ended with {code}: {_said(folder)}")
            break
        if code == 0:
            break  # the stream was used up
    told, code = _live(case, folder, [], life, False, finish=True)
    if "finished" not in told:
        outcome.problems.append(f"the last driver ended with {code}: {_said(folder)}")
    outcome.problems += case.problems(folder)
    return outcome


def _write(case: Case, folder: Path) -> None:
    folder.mkdir(parents=True)
    for number in range(case.batches):
        path = folder / f"{number:04d}.parquet"
        pq.write_table(case.batch(number), path)
        os.utime(path, (number, number))  # Spark takes files by their age


def _live(
    case: Case, folder: Path, events: list[tuple[str, str]], life: int, cluster: bool, finish: bool
) -> tuple[list[str], int]:
    """One driver: what it told, and how it ended."""
    spec = folder / f"life-{life:03d}.json"
    seed = case.seed * 1000 + life
    plan = {
        "case": case.to_json(),
        "base": str(folder),
        "seed": seed,
        "events": events,
        "finish": finish,
        "cluster": cluster,
    }
    spec.write_text(json.dumps(plan))
    with open(folder / "driver.log", "ab") as log:
        driver = subprocess.Popen(
            [sys.executable, "-m", "penstock_lab.benches.chaos_driver", str(spec)],
            start_new_session=True,
            stdout=subprocess.PIPE,
            stderr=log,
            stdin=subprocess.DEVNULL,
        )
    told, wanted = [], random.Random(seed).uniform(0.5, 3.0)
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
            if line != "ready":
                told.append(line)
                announce(f"{case.label}: {line}")
            if line == ANY_INSTANT:
                kill_at = time.monotonic() + wanted
    if driver.poll() is None and time.monotonic() < kill_at:
        with contextlib.suppress(subprocess.TimeoutExpired):
            driver.wait(60)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(driver.pid, signal.SIGKILL)
    return told, driver.wait()


def _said(folder: Path) -> str:
    lines = (folder / "driver.log").read_text(errors="replace").strip().splitlines()
    return lines[-1][-300:] if lines else "nothing was said"
