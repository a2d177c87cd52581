"""CPU shares: a control group per executor, operator or pipeline, its quota set by level, nothing restarted.

The groups of one run live in one folder named by the run's process, so that a later run can tell which groups
belong to nobody any more (their owner was killed) and sweep them away.
"""

import contextlib
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from penstock.core.errors import PenstockError
from penstock.spark.actuators.cgroup import CgroupUnavailableError, CpuGroup, Hierarchy, find_hierarchy
from penstock.spark.actuators.probe_result import ProbeResult
from penstock.spark.actuators.processes import PROC, started_at, tree

NAME = "CPU share"


class CpuShare:
    """The CPU quotas of one run, in a hierarchy that is found and tried by default."""

    def __init__(self, hierarchy: Hierarchy | None = None) -> None:
        self._hierarchy = hierarchy or find_hierarchy()
        sweep(self._hierarchy)
        self._folder = self._hierarchy.base / _run_name(os.getpid())
        self._groups: dict[str, CpuGroup] = {}
        try:
            self._folder.mkdir(exist_ok=True, parents=True)
            if self._hierarchy.version == 2 and self._hierarchy.base.joinpath("cgroup.controllers").exists():
                (self._folder / "cgroup.subtree_control").write_text("+cpu")
        except OSError as error:
            raise CgroupUnavailableError(
                f"No CPU group may be made in {self._hierarchy.base} ({error.strerror}).", "Run as root."
            ) from None

    @property
    def shares(self) -> Mapping[str, float]:
        """The quota of every group in cores, read back from the kernel."""
        return {name: quota for name, group in self._groups.items() if (quota := group.quota()) is not None}

    def group(self, name: str) -> CpuGroup:
        """The group of that name, made on first use."""
        if not name or "/" in name or name.startswith("."):
            raise PenstockError(f"'{name}' cannot name a CPU group: use letters, digits, '-' and '_'.")
        if name not in self._groups:
            made = CpuGroup(self._folder / name, self._hierarchy.version, self._hierarchy.home)
            self._groups[name] = made.create()
            self._weigh()
        return self._groups[name]

    def _weigh(self) -> None:
        """A quota must only limit.

        Without this, all groups of a run together would count as one process wherever CPU is short, and executors would
        become slower just by being put into groups.
        """
        for folder in (self._hierarchy.base, self._folder):
            with contextlib.suppress(OSError):  # an old kernel or a pretended one has no weights
                CpuGroup(folder, self._hierarchy.version, folder).set_weight(len(self._groups))

    def set_share(self, name: str, share: float) -> float:
        """Give a group a share of a core, or several cores; returns the quota the kernel then reports, in cores."""
        group = self.group(name)
        group.set_quota(share)
        read_back = group.quota()
        return float("inf") if read_back is None else read_back

    def add_tree(self, name: str, pid: int) -> list[int]:
        """Move a process and its descendants into a group; what they start later is born there."""
        group = self.group(name)
        inside = set(group.pids())
        return [p for p in tree(pid) if p not in inside and group.add(p)]

    def remove(self, name: str) -> None:
        """Send the group's processes home and remove it."""
        if (group := self._groups.pop(name, None)) is not None:
            group.remove()

    def close(self) -> None:
        """Remove every group of this run."""
        for name in list(self._groups):
            self.remove(name)
        _remove_folder(self._folder, self._hierarchy)
        with contextlib.suppress(OSError):  # other runs still have groups in it
            self._hierarchy.base.rmdir()

    def __enter__(self) -> "CpuShare":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


_joined: str | None = None


def join(path: str | os.PathLike[str]) -> bool:
    """Move the calling process into a group: what a Python worker does as its task begins.

    Workers are used again for tasks of other pipelines, so the membership is remembered and only a change costs a
    system call. A group that does not exist on this host is not an error: the task then runs without a quota.
    """
    global _joined
    target = os.fspath(path)
    if target == _joined:
        return True
    try:
        Path(target, "cgroup.procs").write_text("0")
    except OSError:
        return False
    _joined = target
    return True


def sweep(hierarchy: Hierarchy | None = None, proc: Path = PROC) -> list[str]:
    """Remove groups whose run is gone, for example killed; returns the names of those runs."""
    hierarchy = hierarchy or find_hierarchy()
    gone = []
    for folder in sorted(hierarchy.base.glob("run-*-*")):
        _, pid, start = folder.name.split("-", 2)
        if pid.isdigit() and str(started_at(int(pid), proc)) != start:
            _remove_folder(folder, hierarchy)
            gone.append(folder.name)
    return gone


def probe() -> ProbeResult:
    """Make a group, set 40 %, read it back, let a process join, and remove it all again."""
    try:
        hierarchy = find_hierarchy()
        with CpuShare(hierarchy) as shares:
            read_back = shares.set_share("probe", 0.4)
            with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
                moved = shares.add_tree("probe", process.pid)
                inside = shares.group("probe").pids()
                process.terminate()
    except CgroupUnavailableError as error:
        return ProbeResult(NAME, False, error.why, error.how)
    except OSError as error:
        return ProbeResult(NAME, False, f"Setting a CPU quota failed ({error}).", "Run as root on Linux.")
    if abs(read_back - 0.4) > 1e-6 or moved != inside:
        return ProbeResult(
            NAME,
            False,
            f"A quota of 0.4 cores was read back as {read_back}.",
            "Use a kernel with CONFIG_CFS_BANDWIDTH.",
        )
    return ProbeResult(
        NAME,
        True,
        f"cgroup v{hierarchy.version} in {hierarchy.base}: a quota of 40 % was written and read back, "
        "a process joined and left.",
    )


def _run_name(pid: int) -> str:
    return f"run-{pid}-{started_at(pid)}"


def _remove_folder(folder: Path, hierarchy: Hierarchy) -> None:
    for child in sorted(p for p in folder.glob("*") if p.is_dir()):
        _suppressing_vanished(CpuGroup(child, hierarchy.version, hierarchy.home))
    _suppressing_vanished(CpuGroup(folder, hierarchy.version, hierarchy.home))


def _suppressing_vanished(group: CpuGroup) -> None:
    with contextlib.suppress(FileNotFoundError):  # another run sweeps the same folder at the same time
        group.remove()
