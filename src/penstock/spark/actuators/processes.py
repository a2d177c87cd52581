"""Processes of this machine as ``/proc`` shows them: who is alive, whose child is whom, what it runs."""

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

PROC = Path("/proc")


def started_at(pid: int, proc: Path = PROC) -> int | None:
    """The start time of a process in clock ticks since boot, or None where it is gone or a zombie.

    A process id is used again after a while; id and start time together name one process for good.
    """
    fields = _stat(pid, proc)
    return None if fields is None or fields[0] in "ZX" else int(fields[19])


def tree(pid: int, proc: Path = PROC) -> list[int]:
    """A process and all its descendants, parents before children."""
    children: dict[int, list[int]] = defaultdict(list)
    for other in pids(proc):
        if (fields := _stat(other, proc)) is not None:
            children[int(fields[1])].append(other)
    found = [pid]
    for parent in found:  # grows while it is read: breadth first
        found.extend(children[parent])
    return found


def pids(proc: Path = PROC) -> Iterator[int]:
    """All process ids."""
    for entry in proc.iterdir():
        if entry.name.isdigit():
            yield int(entry.name)


def command_line(pid: int, proc: Path = PROC) -> list[str]:
    """The words a process was started with; empty where it is gone."""
    try:
        return (proc / str(pid) / "cmdline").read_bytes().decode(errors="replace").rstrip("\0").split("\0")
    except OSError:
        return []


def _stat(pid: int, proc: Path) -> list[str] | None:
    """Fields of ``stat`` after the name, which may hold spaces and parentheses itself; the state is first."""
    try:
        return (proc / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
