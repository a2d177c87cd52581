"""Which executors of an application run on this machine, by their processes."""

from collections.abc import Iterable

from penstock.spark.actuators.executor_status import RegisteredExecutor
from penstock.spark.actuators.processes import command_line, pids


class LocalExecutors:
    """Tells the executors on this machine from those elsewhere; processes are looked at where a new executor came."""

    def __init__(self, application: str) -> None:
        self._application = application
        self._here = {"driver"}  # which is the only executor of a local master

    def elsewhere(self, executors: Iterable[RegisteredExecutor]) -> tuple[str, ...]:
        """Hosts of those that do not run on this machine."""
        everyone = list(executors)
        if any(e.id not in self._here for e in everyone):
            self._here |= set(local_pids(self._application))
        return tuple(sorted({e.host for e in everyone if e.id not in self._here}))


def local_pids(application: str) -> dict[str, int]:
    """Process ids of an application's executors on this machine, by executor id."""
    found = {}
    for pid in pids():
        words = command_line(pid)
        if "--executor-id" in words and application in words and words[0].endswith("java"):
            found[words[words.index("--executor-id") + 1]] = pid
    return found
