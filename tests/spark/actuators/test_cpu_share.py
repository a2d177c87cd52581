"""CPU shares on the real kernel: they hold, they take effect at once, nothing is left behind."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from penstock.core.errors import PenstockError
from penstock.spark.actuators import cpu_share
from penstock.spark.actuators.cgroup import CpuGroup, find_hierarchy
from penstock.spark.actuators.cpu_share import CpuShare, sweep
from penstock.spark.actuators.processes import started_at
from waiting import until

ABILITY = cpu_share.probe()
# Control groups need rights that not every machine gives; the logic is tested on imitation folders in test_cgroup.py.
needs_cgroups = pytest.mark.skipif(
    not ABILITY.works, reason=f"no CPU quotas here: {ABILITY.found} {ABILITY.how}"
)
SPIN = [sys.executable, "-c", "while True: pass"]


@pytest.fixture
def spinning():
    process = subprocess.Popen(SPIN)
    yield process
    process.kill()
    process.wait()


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def used_share(pid: int, seconds: float) -> float:
    began, before = time.perf_counter(), cpu_seconds(pid)
    time.sleep(seconds)
    return (cpu_seconds(pid) - before) / (time.perf_counter() - began)


def used_more(pid: int, low: float, limit: float) -> bool:
    used = used_share(pid, 1.0)
    assert used <= limit
    return used > low


@needs_cgroups
def test_a_quota_is_read_back_and_removed_with_the_run():
    hierarchy = find_hierarchy()
    with CpuShare(hierarchy) as shares:
        assert shares.set_share("a", 0.4) == pytest.approx(0.40)
        assert shares.set_share("a", 1.0) == pytest.approx(1.0)
        assert shares.shares == {"a": 1.0}
        folder = shares.group("a").path
        assert folder.exists()
    assert not folder.exists()
    assert not folder.parent.exists()


@needs_cgroups
def test_a_quota_holds_and_a_new_one_takes_effect_without_a_restart(spinning):
    with CpuShare() as shares:
        shares.set_share("spin", 0.2)
        shares.add_tree("spin", spinning.pid)
        # Other tests use this machine too, so only the upper side is exact: a quota is a limit.
        low = used_share(spinning.pid, 1.0)
        assert low <= 0.22
        shares.set_share("spin", 0.6)
        until(lambda: used_more(spinning.pid, low, 0.65), "more than under the smaller quota")


@needs_cgroups
def test_children_started_later_are_born_in_the_group():
    parent = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import subprocess,sys; input(); subprocess.run(['sleep', '900'])",
        ],
        stdin=subprocess.PIPE,
    )
    with CpuShare() as shares:
        assert shares.add_tree("p", parent.pid) == [parent.pid]
        parent.stdin.write(b"\n")
        parent.stdin.flush()
        until(lambda: len(shares.group("p").pids()) == 2, "parent and child in the group")
        inside = shares.group("p").pids()
    for pid in inside:  # both still run: removal sends them home
        assert started_at(pid) is not None
        os.kill(pid, signal.SIGKILL)
    parent.wait()


@needs_cgroups
def test_groups_of_a_killed_run_are_swept_by_the_next_one():
    code = """
        import subprocess, sys, time
        from penstock.spark.actuators.cgroup import find_hierarchy
        from penstock.spark.actuators.cpu_share import CpuShare
        shares = CpuShare(find_hierarchy(name="penstock-killed"))  # runs beside us sweep the usual one
        shares.set_share("left", 0.5)
        child = subprocess.Popen(["sleep", "900"])
        shares.add_tree("left", child.pid)
        print(shares.group("left").path, child.pid, flush=True)
        time.sleep(900)
    """
    run = subprocess.Popen([sys.executable, "-c", textwrap.dedent(code)], stdout=subprocess.PIPE, text=True)
    path, child = run.stdout.readline().split()
    run.kill()
    run.wait()
    hierarchy = find_hierarchy(name="penstock-killed")
    left = CpuGroup(type(hierarchy.base)(path), hierarchy.version, hierarchy.home)
    assert left.path.exists()
    assert left.path.parent.name in sweep(hierarchy)
    assert not left.path.parent.exists()
    hierarchy.base.rmdir()
    os.kill(int(child), signal.SIGKILL)


@needs_cgroups
def test_a_sweep_leaves_the_groups_of_living_runs_alone():
    with CpuShare() as shares:
        path = shares.group("mine").path
        sweep()
        assert path.exists()


@needs_cgroups
def test_a_worker_joins_the_group_of_the_pipeline_it_runs():
    with CpuShare() as shares:
        path = shares.group("pipeline").path
        code = f"""
            import os
            from penstock.spark.actuators.cpu_share import join
            assert join({str(path)!r}) and join({str(path)!r})
            assert not join("/no/such/group")
            print(os.getpid() in map(int, open({str(path / "cgroup.procs")!r})))
        """
        told = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True
        )
    assert told.stdout.strip() == "True"


@needs_cgroups
@pytest.mark.parametrize("name", ["", "a/b", "..", ".hidden"])
def test_names_that_would_leave_the_folder_are_refused(name):
    with CpuShare() as shares, pytest.raises(PenstockError, match="cannot name"):
        shares.group(name)
