"""A CPU quota for every executor of an application that runs on this host."""

import time

from penstock.core.errors import PenstockError
from penstock.spark.actuators.cpu_share import CpuShare
from penstock.spark.actuators.executor_status import RegisteredExecutor
from penstock.spark.actuators.local_executors import local_pids


class ExecutorGroups:
    """Puts each executor (its JVM and its Python workers) into a control group of its own.

    ``share`` is the part of its cores that every executor may use, from ``settle`` seconds after it registered: a JVM
    that must load its classes on half a core would start for half a minute. Executors on other hosts are out of reach;
    their number is told in ``elsewhere``.
    """

    def __init__(
        self, application: str, share: float, shares: CpuShare | None = None, settle: float = 8.0
    ) -> None:
        if not 0 < share <= 1:
            raise PenstockError(f"A CPU share must be above 0 and at most 1, not {share}.")
        self._shares = shares or CpuShare()
        self._application, self.share = application, share
        self._grouped: dict[str, RegisteredExecutor] = {}
        self._settle = settle
        self.elsewhere = 0

    def set_share(self, share: float, executors: list[RegisteredExecutor]) -> None:
        """Give all executors another share, at once."""
        self.share = share
        self._grouped.clear()
        self.update(executors)

    def update(self, executors: list[RegisteredExecutor]) -> None:
        """Take in executors that are new, drop groups of those that are gone."""
        alive = {e.id: e for e in executors}
        for gone in [id_ for id_ in self._grouped if id_ not in alive]:
            del self._grouped[gone]
            self._shares.remove(_name(gone))
        settled = time.time() - self._settle
        missing = [e for e in executors if e.id not in self._grouped and e.added <= settled]
        if not missing:
            return
        here = local_pids(self._application)
        for executor in missing:
            if (pid := here.get(executor.id)) is not None:
                self._shares.set_share(_name(executor.id), self.share * executor.cores)
                self._shares.add_tree(_name(executor.id), pid)
                self._grouped[executor.id] = executor
        self.elsewhere = sum(1 for e in missing if e.id not in self._grouped)

    def observed(self) -> float:
        """The share as the kernel has it: the largest part of its cores that any executor has, 1 where none has a quota."""
        cores = {_name(id_): executor.cores for id_, executor in self._grouped.items()}
        quotas = self._shares.shares.items()
        return max((quota / cores[name] for name, quota in quotas if name in cores), default=1.0)

    def close(self) -> None:
        """Send all executors home and remove the groups."""
        self._shares.close()


class Ungrouped(ExecutorGroups):
    """Executors that keep all of their cores, as in a dry run: what is decided about their shares is only recorded."""

    def __init__(self) -> None:
        self.share, self.elsewhere = 1.0, 0

    def set_share(self, share: float, executors: list[RegisteredExecutor]) -> None:
        """Nothing is set."""

    def update(self, executors: list[RegisteredExecutor]) -> None:
        """Nobody is taken in."""

    def observed(self) -> float:
        """All of them."""
        return 1.0

    def close(self) -> None:
        """There is nothing to remove."""


def _name(id_: str) -> str:
    return f"executor-{id_}"
