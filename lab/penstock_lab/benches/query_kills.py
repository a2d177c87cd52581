"""Random kills: a query's driver is killed again and again, and its output compared with that of an undisturbed run."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

from penstock_lab.benches.query_data import window_rows, write_stream
from penstock_lab.judging import judged
from penstock_lab.results import ResultsPage, Table

RATE, SECONDS, DIMS = 4000, 80, 4


def add(report: ResultsPage, scratch: Path, kills: int) -> None:
    """Kill the driver with its whole process group at random instants, then let it finish."""
    stream = scratch / "kill-stream"
    write_stream(stream, RATE, SECONDS, DIMS)
    _driver(stream, scratch / "calm").wait()
    draw = random.Random(5)
    made = 0
    while made < kills:
        driver = _driver(stream, scratch / "killed")
        if not commits_anew(driver, scratch / "killed" / "ck" / "penstock" / "commits"):
            break  # the stream was used up before the last kill
        time.sleep(draw.uniform(0.0, 1.2))
        os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()
        made += 1
    _driver(stream, scratch / "killed").wait()
    calm, killed = window_rows(scratch / "calm" / "out"), window_rows(scratch / "killed" / "out")
    commits = len(list((scratch / "killed" / "ck" / "spark" / "commits").glob("[0-9]*")))
    report.tables.append(
        Table(
            "Killed drivers",
            ("kills", "windows undisturbed", "windows after the kills", "equal", "Spark commits kept"),
            [
                (
                    made,
                    len(calm),
                    len(killed),
                    sum(killed.get(w) == rows for w, rows in calm.items()),
                    commits,
                )
            ],
        )
    )
    report.claim(
        "after random SIGKILLs the output is that of an undisturbed run",
        "equal",
        f"{'equal' if calm == killed else 'differs'} after {made} of {kills}",
        judged(calm == killed and made >= kills / 2, f"equal after {kills / 2:g} kills or more"),
    )


def commits_anew(driver: subprocess.Popen[bytes], commits: Path) -> bool:
    """Wait until the driver has committed a batch of its own; False if it ended first."""
    before = set(commits.glob("*.json"))
    while driver.poll() is None:
        if set(commits.glob("*.json")) - before:
            return True
        time.sleep(0.02)
    return False


def _driver(stream: Path, work: Path) -> subprocess.Popen[bytes]:
    work.mkdir(parents=True, exist_ok=True)
    spec = work / "spec.json"
    spec.write_text(json.dumps({"stream": str(stream), "work": str(work), "dims": DIMS}))
    return subprocess.Popen(
        [sys.executable, "-m", "penstock_lab.benches.query_kill_driver", str(spec)],
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
