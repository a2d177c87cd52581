"""Executors: how many a running application has, changed through Spark's scheduler backend.

Three counts are told apart. *Planned* is what the control loop wants, *requested* what the cluster manager was last
told, *observed* how many have registered and take tasks. A new request waits until the last one is fulfilled or has
been given up, so that slow clusters do not collect requests; taking a request back (a smaller total) never waits.
"""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from penstock.core.errors import PenstockError
from penstock.spark.actuators.ability import Ability

NAME = "executors"
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Executor:
    """One executor as Spark's status shows it."""

    id: str
    host: str
    cores: int
    active_tasks: int
    #: Task time of finished tasks so far, in seconds.
    busy: float
    #: Cached blocks it holds.
    blocks: int
    #: When it registered, seconds since the epoch.
    added: float


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
        Modules that new executors import before they count as observed; empty for no warming.
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
        self._warmth = _Warmth(spark, tuple(warm))
        self._leaving: dict[str, float] = {}
        self._there: list[Executor] = []
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
    def leaving(self) -> int:
        """Executors that were released and still finish their tasks."""
        return len(self._leaving)

    @property
    def seen(self) -> list[Executor]:
        """The active executors when last looked at, oldest first."""
        return self._there

    def refresh(self) -> None:
        """Look at Spark's status."""
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
        empty = getattr(getattr(self._jvm.scala.collection.immutable, "Map$"), "MODULE$").empty()
        if not self._context.requestTotalExecutors(count, 0, empty):
            return "the cluster manager refused the request"
        before, self.requested, self._short_since = self.requested, count, None
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
        told = self._request(self.planned, now) if self.planned < self.requested else ""
        self.requested = self.planned
        # Idle ones go first, then those with the least to lose, then the youngest.
        order = sorted(there, key=lambda e: (e.active_tasks > 0, e.blocks, -e.added))
        for executor in order[: max(0, len(there) - self.planned)]:
            self._leaving[executor.id] = now
        if self._leaving and self._decommission:
            self._decommission_all(list(self._leaving))
        self._let_go(now)
        self.refresh()
        return told or f"released down to {self.planned} executor(s)"

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


class _Warmth:
    """Which executors have started a Python worker and imported what the tasks will need.

    A first Python task on a new executor takes seconds. Spark offers a new executor to every job from the moment it
    registers and has no way to hold it back, so a warming job is sent to it at once, in a thread, and the executor
    counts as observed when that job is done.
    """

    def __init__(self, spark: SparkSession, modules: tuple[str, ...]) -> None:
        self._spark, self._modules = spark, modules
        self._warm: set[str] = set()
        self._warming: set[str] = set()
        self._lock = threading.Lock()

    def warm(self, executors: list[Executor]) -> list[Executor]:
        """Those that are warm; warming begins for the others."""
        if not self._modules:
            return executors
        with self._lock:
            cold = [e for e in executors if e.id not in self._warm and e.id not in self._warming]
            self._warming |= {e.id for e in cold}
        for executor in cold:
            threading.Thread(target=self._run, args=(executor,), daemon=True, name="penstock-warm").start()
        return [e for e in executors if e.id in self._warm]

    def _run(self, executor: Executor) -> None:
        try:
            _on_executor(self._spark, executor, _importing(self._modules))
        except Exception as error:  # noqa: BLE001 - warming is a favour: whatever fails, the executor still works
            log.debug("warming executor %s failed: %s", executor.id, error)
        with self._lock:
            self._warming.discard(executor.id)
            self._warm.add(executor.id)


def _on_executor(spark: SparkSession, executor: Executor, task: Callable[[Any], Any]) -> None:
    """Run one Python task that prefers the given executor."""
    context: Any = spark.sparkContext
    jvm = context._jvm
    context.setJobGroup("penstock-warm", "Penstock warms a new executor")
    place = f"executor_{executor.host}_{executor.id}"
    convert = jvm.scala.jdk.javaapi.CollectionConverters
    item = getattr(jvm, "scala.Tuple2")(bytearray(b"N."), convert.asScala([place]).toSeq())
    tag = jvm.scala.reflect.ClassTag.Byte().wrap()
    jrdd = context._jsc.sc().makeRDD(convert.asScala([item]).toSeq(), tag).toJavaRDD()
    from pyspark import RDD
    from pyspark.serializers import CPickleSerializer

    RDD(jrdd, context, CPickleSerializer()).map(task).count()


def _importing(modules: tuple[str, ...]) -> Callable[[Any], None]:
    def task(_: Any) -> None:
        import contextlib
        from importlib import import_module

        for name in modules:
            with contextlib.suppress(ImportError):
                import_module(name)

    return task


def registered(spark: SparkSession) -> list[Executor]:
    """All executors that Spark's status shows as active, oldest first; in local mode the driver is the only one."""
    context: Any = spark.sparkContext
    listed = context._jsc.sc().statusStore().executorList(True)
    return sorted((_executor(listed.apply(i)) for i in range(listed.size())), key=lambda e: e.added)


def _executor(summary: Any) -> Executor:
    return Executor(
        id=summary.id(),
        host=summary.hostPort().rpartition(":")[0],
        cores=summary.totalCores(),
        active_tasks=summary.activeTasks(),
        busy=summary.totalDuration() / 1e3,
        blocks=summary.rddBlocks(),
        added=summary.addTime().getTime() / 1e3,
    )


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


def probe(spark: SparkSession | None = None, wait: float = 60.0) -> Ability:
    """Ask a cluster for one more executor and give it back; without a session a cluster is started on loopback."""
    try:
        if spark is None:
            return _probe_on_loopback(wait)
        executors = Executors(spark, warm=())
        start = executors.observed
        seconds = _reach(executors, start + 1, wait)
        _reach(executors, start, wait)
    except PenstockError as error:
        return Ability(NAME, False, str(error), "Use a standalone, YARN or Kubernetes master.")
    return Ability(
        NAME,
        True,
        f"{start} to {start + 1} executors in {seconds:.1f} s and back on {spark.sparkContext.master}.",
    )


def _reach(executors: Executors, count: int, wait: float) -> float:
    start = time.monotonic()
    executors.set_target(count, start)
    while (now := time.monotonic()) - start < wait:
        executors.advance(now)
        if executors.observed == count:
            return now - start
        time.sleep(0.1)
    raise PenstockError(f"The cluster did not come to {count} executor(s) within {wait:.0f} s.")


def _probe_on_loopback(wait: float) -> Ability:
    """In a child process: a process has one Spark context, and a probe must not occupy it."""
    import json
    import subprocess
    import sys

    try:
        told = subprocess.run(
            [sys.executable, "-m", "penstock.spark.actuators.try_executors", str(wait)],
            capture_output=True,
            text=True,
            timeout=wait * 2,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise PenstockError(
            f"A standalone cluster on loopback did not answer within {wait * 2:.0f} s."
        ) from None
    lines = told.stdout.strip().splitlines()
    if not lines or not lines[-1].startswith("{"):
        why = (told.stderr.strip().splitlines() or ["it ended without a word"])[-1]
        raise PenstockError(f"A standalone cluster on loopback could not be tried ({why}).")
    return Ability(**json.loads(lines[-1]))
