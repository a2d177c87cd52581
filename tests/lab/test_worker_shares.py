"""Workers held to a share of a core by real control groups."""

import subprocess
import sys
from pathlib import Path

import pytest

from penstock.spark.actuators import cpu_share
from penstock_lab.worker_shares import DAEMON, held_to
from waiting import until

FORKING = "import os, sys; os.fork(); sys.stdin.read()"


@pytest.fixture
def daemon():
    """A process that goes by the daemon's name and has forked a worker."""
    with subprocess.Popen([sys.executable, "-c", FORKING, DAEMON], stdin=subprocess.PIPE) as process:
        yield process.pid
        process.stdin.close()


def quota_of(pid):
    """Cores that the group of a process may use; None without a limit."""
    for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if "penstock" in path and controllers.split(",")[0] in ("cpu", ""):
            root = Path("/sys/fs/cgroup/cpu" if controllers else "/sys/fs/cgroup") / path.lstrip("/")
            if (root / "cpu.max").exists():
                quota, period = (root / "cpu.max").read_text().split()
            else:
                quota, period = (
                    (root / f"cpu.cfs_{word}_us").read_text().strip() for word in ("quota", "period")
                )
            return None if quota in ("max", "-1") else int(quota) / int(period)
    return None


def test_forks_of_the_daemon_are_held_and_the_daemon_is_not(daemon):
    ability = cpu_share.probe()
    if not ability.works:
        pytest.skip(f"CPU quotas cannot be set here: {ability.found}")

    def worker():
        return Path(f"/proc/{daemon}/task/{daemon}/children").read_text().split()

    until(worker, "the fork of the daemon")
    with held_to(0.5):
        until(lambda: quota_of(worker()[0]) == 0.5, "the worker's group")
        assert quota_of(daemon) is None
    assert quota_of(worker()[0]) is None
