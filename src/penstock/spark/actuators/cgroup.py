"""CPU control groups of Linux, versions 1 and 2, behind one small interface.

A quota of ``cores`` lets the processes of a group use ``cores * period`` of CPU time in each scheduling period:

    version 1   cpu.cfs_period_us = period,  cpu.cfs_quota_us = cores * period  (-1: no limit)
    version 2   cpu.max = "<cores * period> <period>"                            ("max <period>": no limit)
"""

import errno
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from penstock.core.errors import PenstockError

#: Scheduling period in microseconds. The kernel's default of 100 ms stalls a throttled process for tens of
#: milliseconds at a time; half of it halves the stall at no cost that could be measured.
PERIOD_US = 50_000
#: The kernel refuses quotas below one millisecond.
SMALLEST_QUOTA_US = 1_000


class CgroupUnavailableError(PenstockError):
    """No CPU quota can be set here; ``how`` says how to get it."""

    def __init__(self, why: str, how: str) -> None:
        super().__init__(f"{why} {how}")
        self.why, self.how = why, how


@dataclass(frozen=True)
class Hierarchy:
    """Where groups can be made: the folder for ours, and the one where evicted processes go home to."""

    version: int
    base: Path
    home: Path


@dataclass(frozen=True)
class CpuGroup:
    """One control group with a CPU quota."""

    path: Path
    version: int
    home: Path

    @property
    def name(self) -> str:
        """The last part of its path."""
        return self.path.name

    def create(self) -> "CpuGroup":
        """Make the folder; making it twice is no mistake."""
        self.path.mkdir(exist_ok=True)
        return self

    def set_quota(self, cores: float, period_us: int = PERIOD_US) -> None:
        """Limit the group to so many cores from now on."""
        if not cores > 0:
            raise PenstockError(
                f"A CPU quota must be above 0 cores, not {cores}; use 0.4 for 40 % of a core."
            )
        quota = max(SMALLEST_QUOTA_US, round(cores * period_us))
        if self.version == 2:
            (self.path / "cpu.max").write_text(f"{quota} {period_us}")
        else:
            (self.path / "cpu.cfs_period_us").write_text(str(period_us))
            (self.path / "cpu.cfs_quota_us").write_text(str(quota))

    def quota(self) -> float | None:
        """The limit in cores as the kernel has it, or None where there is none."""
        if self.version == 2:
            limit, period = (self.path / "cpu.max").read_text().split()
        else:
            limit = (self.path / "cpu.cfs_quota_us").read_text().strip()
            period = (self.path / "cpu.cfs_period_us").read_text().strip()
        return None if limit in ("max", "-1") else int(limit) / int(period)

    def set_weight(self, groups: int) -> None:
        """Count as much as so many plain groups when the machine is short of CPU."""
        if self.version == 2:
            (self.path / "cpu.weight").write_text(str(min(10_000, 100 * groups)))
        else:
            (self.path / "cpu.shares").write_text(str(min(262_144, 1024 * groups)))

    def add(self, pid: int) -> bool:
        """Move a process into the group; False where it is gone already."""
        return _move(pid, self.path)

    def pids(self) -> list[int]:
        """Its processes."""
        try:
            return [int(line) for line in (self.path / "cgroup.procs").read_text().split()]
        except FileNotFoundError:
            return []

    def throttled(self) -> tuple[int, float]:
        """How many periods ended in a stall so far, and the seconds lost in them."""
        stat = dict(line.split() for line in (self.path / "cpu.stat").read_text().splitlines() if line)
        seconds = int(stat.get("throttled_time", 0)) / 1e9 + int(stat.get("throttled_usec", 0)) / 1e6
        return int(stat.get("nr_throttled", 0)), seconds

    def remove(self, patience: float = 2.0) -> None:
        """Send its processes home and remove it, waiting for those that are just exiting."""
        give_up = time.monotonic() + patience
        while self.path.exists():
            for pid in self.pids():
                _move(pid, self.home)
            try:
                self.path.rmdir()
            except OSError as error:
                if error.errno == errno.ENOENT:
                    return
                if error.errno != errno.EBUSY or time.monotonic() > give_up:
                    raise
                time.sleep(0.02)


def _move(pid: int, folder: Path) -> bool:
    try:
        (folder / "cgroup.procs").write_text(str(pid))
    except ProcessLookupError:
        return False
    except OSError as error:
        if error.errno in (errno.ESRCH, errno.ENOENT) and folder.exists():
            return False
        raise
    return True


def find_hierarchy(proc: Path = Path("/proc/self"), name: str = "penstock") -> Hierarchy:
    """The CPU hierarchy this process may make groups in, tried, not guessed.

    Version 1 is taken where its ``cpu`` controller is mounted. In version 2 a group with processes of its own cannot
    hand the controller down, so its ancestors are tried too, the nearest first.
    """
    mounted = dict(_mounts(proc))
    if not mounted:
        raise CgroupUnavailableError(
            "No CPU control group hierarchy is mounted.",
            "Mount one (mount -t cgroup2 none /sys/fs/cgroup), or start the container with cgroups.",
        )
    if 1 in mounted:
        return _try_version_1(mounted[1], _own_path(proc, 1), name)
    return _try_version_2(mounted[2], _own_path(proc, 2), name)


def _try_version_1(mount: Path, own: str, name: str) -> Hierarchy:
    home = _inside(mount, own)
    base = home / name if home.name != name else home
    _make(base, mount)
    if not (base / "cpu.cfs_quota_us").exists():
        raise CgroupUnavailableError(
            f"The kernel offers no CPU quota in {base}.", "Use a kernel with CONFIG_CFS_BANDWIDTH."
        )
    return Hierarchy(1, base, home)


def _try_version_2(mount: Path, own: str, name: str) -> Hierarchy:
    home = _inside(mount, own)
    refusals = []
    for parent in [home, *home.parents]:
        if not parent.is_relative_to(mount):
            break
        try:
            _hand_down(parent)
            base = parent / name
            _make(base, mount)
            _hand_down(base)
            return Hierarchy(2, base, home)
        except (OSError, CgroupUnavailableError) as error:
            refusals.append(f"{parent}: {getattr(error, 'strerror', None) or error}")
    raise CgroupUnavailableError(
        f"No group may be made in {refusals[0] if refusals else mount}.",
        "Run as root, or under systemd with a delegated group (systemd-run --user --scope -p Delegate=yes ...).",
    )


def _hand_down(group: Path) -> None:
    """Let the children of a version 2 group have CPU quotas."""
    handed = group / "cgroup.subtree_control"
    if "cpu" not in handed.read_text().split():
        if "cpu" not in (group / "cgroup.controllers").read_text().split():
            raise OSError(errno.ENOENT, "the cpu controller is not available there")
        handed.write_text("+cpu")


def _make(base: Path, mount: Path) -> None:
    try:
        base.mkdir(exist_ok=True)
        if not os.access(base / "cgroup.procs", os.W_OK):
            raise PermissionError(errno.EACCES, "its processes may not be moved")
    except OSError as error:
        how = (
            "Mount it writable (for a container: --privileged, or -v /sys/fs/cgroup:/sys/fs/cgroup:rw)."
            if error.errno == errno.EROFS
            else f"Run as root, or let root hand a folder over (mkdir {base}; chown -R $USER {base})."
        )
        raise CgroupUnavailableError(f"No group may be made under {mount} ({error.strerror}).", how) from None


def _inside(mount: Path, own: str) -> Path:
    """Our own group; in a container the path may be told as the host sees it, then the mount itself is ours."""
    path = mount / own.lstrip("/")
    return path if path.is_dir() else mount


def _mounts(proc: Path) -> Iterator[tuple[int, Path]]:
    for line in (proc / "mountinfo").read_text().splitlines():
        before, _, after = line.partition(" - ")
        kind, _, options = after.split(" ", 2)
        point = Path(before.split()[4])
        if kind == "cgroup" and "cpu" in options.split(","):
            yield 1, point
        elif kind == "cgroup2":
            yield 2, point


def _own_path(proc: Path, version: int) -> str:
    for line in (proc / "cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if (version == 2 and controllers == "") or (version == 1 and "cpu" in controllers.split(",")):
            return path
    return "/"
