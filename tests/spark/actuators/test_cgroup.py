"""Control groups: version 1 and 2 on a folder that looks like the kernel's, and the real one where allowed."""

from pathlib import Path

import pytest

from penstock.core.errors import PenstockError
from penstock.spark.actuators.cgroup import CgroupUnavailableError, CpuGroup, find_hierarchy


def pretend(folder: Path, mountinfo: str, cgroup: str) -> Path:
    proc = folder / "proc"
    proc.mkdir()
    (proc / "mountinfo").write_text(mountinfo)
    (proc / "cgroup").write_text(cgroup)
    return proc


def version_2_folder(path: Path, controllers: str = "cpu memory") -> Path:
    path.mkdir(parents=True, exist_ok=True)
    (path / "cgroup.controllers").write_text(controllers)
    (path / "cgroup.subtree_control").write_text(controllers)
    (path / "cgroup.procs").write_text("")
    (path / "cpu.max").write_text("max 100000")
    return path


def test_version_2_quota_is_written_as_quota_and_period(tmp_path):
    group = CpuGroup(version_2_folder(tmp_path / "g"), 2, tmp_path)
    assert group.quota() is None
    group.set_quota(0.4, period_us=100_000)
    assert (tmp_path / "g" / "cpu.max").read_text() == "40000 100000"
    assert group.quota() == 0.4


def test_version_1_quota_is_written_in_two_files(tmp_path):
    (tmp_path / "cpu.cfs_period_us").write_text("100000")
    (tmp_path / "cpu.cfs_quota_us").write_text("-1")
    group = CpuGroup(tmp_path, 1, tmp_path)
    assert group.quota() is None
    group.set_quota(1.5, period_us=20_000)
    assert (tmp_path / "cpu.cfs_quota_us").read_text() == "30000"
    assert group.quota() == 1.5


def test_a_tiny_quota_is_raised_to_what_the_kernel_accepts(tmp_path):
    group = CpuGroup(version_2_folder(tmp_path / "g"), 2, tmp_path)
    group.set_quota(0.0001)
    assert (tmp_path / "g" / "cpu.max").read_text().startswith("1000 ")


def test_a_quota_of_nothing_is_refused(tmp_path):
    with pytest.raises(PenstockError, match="above 0"):
        CpuGroup(tmp_path, 2, tmp_path).set_quota(0)


def test_version_2_goes_up_to_the_ancestor_that_hands_the_controller_down(tmp_path):
    root = version_2_folder(tmp_path / "cg")
    own = version_2_folder(root / "slice" / "scope", controllers="")
    version_2_folder(root / "slice", controllers="memory")
    version_2_folder(root / "penstock")
    proc = pretend(tmp_path, f"1 0 0:1 / {root} rw - cgroup2 none rw\n", "0::/slice/scope\n")
    found = find_hierarchy(proc)
    assert (found.version, found.base, found.home) == (2, root / "penstock", own)


def test_version_1_is_taken_where_its_cpu_controller_is_mounted(tmp_path):
    root = tmp_path / "cg" / "cpu"
    base = root / "penstock"
    base.mkdir(parents=True)
    (base / "cgroup.procs").write_text("")
    (base / "cpu.cfs_quota_us").write_text("-1")
    mounts = (
        f"1 0 0:1 / {tmp_path}/u rw - cgroup2 none rw\n2 0 0:1 / {root} rw - cgroup cgroup rw,cpu,cpuacct\n"
    )
    proc = pretend(tmp_path, mounts, "0::/\n3:cpu,cpuacct:/as/the/host/sees/it\n")
    found = find_hierarchy(proc)
    assert (found.version, found.base, found.home) == (1, base, root)


def test_no_hierarchy_at_all_is_said_with_a_remedy(tmp_path):
    proc = pretend(tmp_path, "1 0 0:1 / / rw - ext4 none rw\n", "")
    with pytest.raises(CgroupUnavailableError, match=r"No CPU control group.*Mount one"):
        find_hierarchy(proc)


def test_version_2_without_the_controller_says_so(tmp_path):
    root = version_2_folder(tmp_path / "cg", controllers="memory")
    proc = pretend(tmp_path, f"1 0 0:1 / {root} rw - cgroup2 none rw\n", "0::/\n")
    with pytest.raises(CgroupUnavailableError, match=r"cpu controller is not available.*Delegate"):
        find_hierarchy(proc)


def test_throttled_time_is_read_from_both_versions(tmp_path):
    (tmp_path / "cpu.stat").write_text("nr_periods 4\nnr_throttled 2\nthrottled_time 1500000000\n")
    assert CpuGroup(tmp_path, 1, tmp_path).throttled() == (2, 1.5)
    (tmp_path / "cpu.stat").write_text("usage_usec 1\nnr_throttled 3\nthrottled_usec 250000\n")
    assert CpuGroup(tmp_path, 2, tmp_path).throttled() == (3, 0.25)
