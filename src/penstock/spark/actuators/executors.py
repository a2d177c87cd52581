"""Executors: how many a running application has, changed through Spark's scheduler backend.

Three counts are told apart. *Planned* is what the control loop wants, *requested* what the cluster manager was last
told, *observed* how many have registered and take tasks. A new request waits until the last one is fulfilled or has
been given up, so that slow clusters do not collect requests; taking a request back (a smaller total) never waits.
"""

from collections.abc import Sequence
from typing import Any

from pyspark.sql import SparkSession

from penstock.core.errors import PenstockError
from penstock.spark.actuators.executor_status import RegisteredExecutor, registered
from penstock.spark.actuators.warming import Warmth

NAME = "executors"


class Executors:
    """The executors of one application.

    Parameters
    ----------
    spark
        The session whose application is scaled.
    patience
        Seconds after which executors that did not arrive are given up; the request is then taken back.
    grace
        Seconds a busy executor may take to finish its tasks before it is removed all the same (its tasks then run
        again elsewhere).
    handover
        Seconds that a decommissioned executor (``spark.decommission.enabled``) has to hand over its blocks before it is
        removed at its first idle moment.
    retry_after
        Seconds for which no more is asked for than was there when executors had been given up.
    warm
        Modules that new executors import as they are warmed (see :mod:`~penstock.spark.actuators.warming`), before they
        count as observed; empty for no warming.
    """

    def __init__(
        self,
        spark: SparkSession,
        *,
        patience: float = 60.0,
        grace: float = 20.0,
        handover: float = 4.0,
        retry_after: float = 300.0,
        warm: Sequence[str] = ("pyarrow",),
    ) -> None:
        refuse_unscalable(spark)
        self._spark = spark
        self._context: Any = spark.sparkContext._jsc.sc()
        self._backend: Any = self._context.schedulerBackend()
        self._jvm: Any = spark.sparkContext._jvm
        self._patience, self._retry_after = patience, retry_after
        self._grace, self._handover = grace, handover
        self._decommission = spark.conf.get("spark.decommission.enabled", "false") == "true"
        self._warmth = Warmth(spark, tuple(warm))
        self._leaving: dict[str, float] = {}
        self._there: list[RegisteredExecutor] = []
        self._warm_now = 0
        self.refresh()
        self.planned = self.requested = max(1, len(self._there))
        self._commanded = False
        self._short_since: float | None = None
        #: The most that seems obtainable: lowered when executors did not arrive, until ``retry_after`` has passed.
        self.limit = float("inf")
        self._limited_until = float("-inf")

    @property
    def observed(self) -> int:
        """Executors that were registered, warm and not on their way out when last looked at."""
        return self._warm_now

    @property
    def cold(self) -> set[str]:
        """Those that are there and not warm yet, by id."""
        return {e.id for e in self._there} - {e.id for e in self._warmth.warm(self._there)}

    @property
    def leaving(self) -> int:
        """Executors that were released and still finish their tasks."""
        return len(self._leaving)

    @property
    def seen(self) -> list[RegisteredExecutor]:
        """The active executors when last looked at, oldest first."""
        return self._there

    def refresh(self) -> None:
        """Look at Spark's status; nothing is changed."""
        active = [e for e in registered(self._spark) if e.id != "driver" and e.id not in self._leaving]
        self._there = [e for e in active if self._backend.isExecutorActive(e.id)]
        self._warm_now = len(self._warmth.warm(self._there))

    def set_target(self, count: int, now: float) -> str:
        """Plan so many executors; returns in words what was done about it."""
        if count < 1:
            raise PenstockError(f"An application needs at least 1 executor, not {count}.")
        self.planned, self._commanded = count, True
        return self.advance(now)

    def advance(self, now: float) -> str:
        """Look, and bring requests closer to the plan; called at every step of the loop, it never waits."""
        self._let_go(now)
        self.refresh()
        self._warmth.begin(self._there)
        there = len(self._there)
        if now >= self._limited_until:
            self.limit = float("inf")
        if not self._commanded:  # an application that just started may still be collecting executors
            self.planned = self.requested = max(1, there)
            return ""
        self._short_since = (self._short_since or now) if self.requested > there else None
        if self._short_since is not None and now - self._short_since > self._patience:
            return self._give_up(there, now)
        if self.planned < max(self.requested, there):
            return self._shrink(now)
        if self.planned > self.requested:
            if self._short_since is not None:
                return f"waits for {self.requested - there} executor(s) requested before"
            return self._request(self.planned, now)
        return ""

    def _request(self, count: int, now: float) -> str:
        before, self.requested, self._short_since = self.requested, count, None
        empty = getattr(getattr(self._jvm.scala.collection.immutable, "Map$"), "MODULE$").empty()

        def ask() -> None:
            taken_back = self.requested != count
            if not taken_back and not self._context.requestTotalExecutors(count, 0, empty):
                self.requested = before

        self._warmth.expect(count - len(self._there), self._there, ask)
        if self.requested != count:
            return "the cluster manager refused the request"
        return f"requested {count} executor(s) in place of {before}"

    def _give_up(self, there: int, now: float) -> str:
        missing = self.requested - there
        self.planned = max(1, there)
        self.limit, self._limited_until = float(self.planned), now + self._retry_after
        self._request(self.planned, now)
        self.requested, self._short_since = self.planned, None
        return f"gave up {missing} executor(s) that did not arrive within {self._patience:.0f} s"

    def _shrink(self, now: float) -> str:
        there = self._there
        answer = self._request(self.planned, now) if self.planned < self.requested else ""
        self.requested = self.planned
        # Idle ones go first, then those with the least to lose, then the youngest.
        order = sorted(there, key=lambda e: (e.active_tasks > 0, e.blocks, -e.added))
        for executor in order[: max(0, len(there) - self.planned)]:
            self._leaving[executor.id] = now
        if self._leaving and self._decommission:
            self._decommission_all(list(self._leaving))
        self._let_go(now)
        self.refresh()
        return answer or f"released down to {self.planned} executor(s)"

    def _decommission_all(self, ids: list[str]) -> None:
        info = self._jvm.org.apache.spark.scheduler.ExecutorDecommissionInfo(
            "released by Penstock", getattr(self._jvm, "scala.None$").__getattr__("MODULE$")
        )
        for id_ in ids:
            self._backend.decommissionExecutor(id_, info, False, False)

    def _let_go(self, now: float) -> None:
        """Remove leaving executors that became idle, or that used up their grace.

        Until a leaving executor is gone the cluster manager counts it, and no other comes in its place. A
        decommissioned one first has time to hand over its blocks; Spark itself would keep it for half a minute
        after that, however idle.
        """
        for id_, since in list(self._leaving.items()):
            if not self._backend.getExecutorIds().contains(id_):
                del self._leaving[id_]
            elif not self._decommission or now - since > self._handover:
                self._backend.killExecutors(self._seq([id_]), False, False, now - since > self._grace)

    def _seq(self, values: list[str]) -> Any:
        return self._jvm.scala.jdk.javaapi.CollectionConverters.asScala(values).toSeq()


def refuse_unscalable(spark: SparkSession) -> None:
    """One sentence where the application's executors cannot be changed."""
    context: Any = spark.sparkContext
    master = context.master
    if master.startswith("local") and not master.startswith("local-cluster"):
        raise PenstockError(
            f"Executors cannot be added in local mode (master {master}): connect to a cluster, "
            "for example one of penstock.spark.cluster.LocalCluster, or scale slots or CPU shares."
        )
    if context.getConf().get("spark.dynamicAllocation.enabled", "false") == "true":
        raise PenstockError(
            "Spark's own dynamic allocation is on and would fight over the executors: "
            "set spark.dynamicAllocation.enabled=false."
        )
