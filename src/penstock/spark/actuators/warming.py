"""Warming: what a task needs is loaded on new executors before work comes to them.

The first task of a query on a new executor loads Spark's classes, compiles the plan, starts Python and imports what its
functions need: seconds on a whole core, ten and more on half of one, and the batch waits for it. Spark offers a new
executor to all its jobs from the moment it registers and cannot hold it back. But jobs are served in the order in which
they were begun, and a task can ask for one executor by its number, which is known before the executor is there: numbers
are given in turn. So warming tasks for executors that were asked for wait for them ahead of the batches to come, and
take all their slots at once. A task waits so as long as Spark waits for a place (``spark.locality.wait``, three seconds)
and then runs anywhere, which costs milliseconds on an executor that is warm; another is sent meanwhile.
"""

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from math import inf
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from penstock.spark.actuators.executor_status import RegisteredExecutor, highest_number, registered

log = logging.getLogger(__name__)

GROUP = "penstock-warm"
#: Seconds for which executors are waited for, and between two looks whether they have come.
PATIENCE, LOOK = 60.0, 0.5
#: Waiting tasks at a time that any application may have; more only as it has slots, since they may end up on those.
FEW = 4


class Warmth:
    """Which executors have done what tasks will need.

    An executor counts as warm when warming tasks have run on all its slots.
    """

    def __init__(self, spark: SparkSession, modules: tuple[str, ...]) -> None:
        self._spark, self._modules = spark, modules
        self._warm: set[str] = set()
        self._warming: set[str] = set()
        self._awaited: frozenset[str] = frozenset()
        self._lock = threading.Lock()

    def warm(self, executors: list[RegisteredExecutor]) -> list[RegisteredExecutor]:
        """Those that are warm."""
        return [e for e in executors if e.id in self._warm] if self._modules else executors

    def begin(self, executors: list[RegisteredExecutor]) -> None:
        """Begin to warm those that are not."""
        if not self._modules:
            return
        with self._lock:
            cold = [e for e in executors if e.id not in self._warm and e.id not in self._warming]
            self._warming |= {e.id for e in cold}
        for executor in cold:
            _beside(self._run, executor)

    def expect(self, count: int, executors: list[RegisteredExecutor], ask: Callable[[], None]) -> None:
        """Let warming tasks wait for so many executors more than these, then ask for them.

        They are asked for when all jobs that were begun before are done, since those would come first; but what is long
        is not waited for.
        """
        unreserved = not self._modules or not executors
        first = 0 if unreserved else highest_number(self._spark) + 1
        awaited = frozenset(() if unreserved else (str(first + i) for i in range(count)))
        with self._lock:
            begun, self._awaited = bool(self._awaited), awaited
        if not awaited:
            ask()
            return
        if not begun:
            _beside(self._wait)
        _beside(self._ask_as_the_oldest, ask)

    def _ask_as_the_oldest(self, ask: Callable[[], None]) -> None:
        give_up = time.monotonic() + self._locality_wait()
        try:
            tracker = self._spark.sparkContext.statusTracker()
            while time.monotonic() < give_up:
                if min(tracker.getActiveJobsIds(), default=-1) in tracker.getJobIdsForGroup(GROUP):
                    break
                time.sleep(0.05)
            ask()
        except Exception as error:  # noqa: BLE001 - the session may end at any time
            log.debug("executors could not be asked for: %s", error)

    def _wait(self) -> None:
        """Send waiting tasks, twice in the time that each of them waits, until all who were asked for are there."""
        now = time.monotonic()
        give_up, again, sent, for_whom = now + PATIENCE, self._locality_wait() / 2, -inf, frozenset[str]()
        while True:
            there, now = self._there(), time.monotonic()
            with self._lock:
                over = now > give_up or not there or again <= LOOK
                awaited = self._awaited = frozenset() if over else self._awaited - {e.id for e in there}
            if not awaited:
                return
            if now - sent >= again or awaited - for_whom:
                _beside(self._reserve, there, awaited)
                sent, for_whom = now, awaited
            time.sleep(LOOK)

    def _locality_wait(self) -> float:
        """Seconds that Spark waits for an executor which a task prefers; where it hardly does, nothing can be reserved."""
        try:
            conf: Any = self._spark.sparkContext._jsc.sc().conf()
            of_all = conf.get("spark.locality.wait", "3s")
            return float(conf.getTimeAsMs("spark.locality.wait.process", of_all)) / 1e3
        except Exception:  # noqa: BLE001 - the session may end at any time
            return 0.0

    def _there(self) -> list[RegisteredExecutor]:
        try:
            return [e for e in registered(self._spark) if e.id != "driver"]
        except Exception:  # noqa: BLE001 - the session may end at any time
            return []

    def _reserve(self, there: list[RegisteredExecutor], awaited: frozenset[str]) -> None:
        anchor, slots = there[0], sum(e.cores for e in there)
        # One task for an executor that is there: with none, Spark would see no place worth waiting for.
        places = [_place(anchor.host, anchor.id)]
        first = sorted(awaited, key=int)[: max(1, max(FEW, slots) // anchor.cores)]
        self._try(places + [_place("awaited", id_) for id_ in first for _ in range(anchor.cores)])

    def _run(self, executor: RegisteredExecutor) -> None:
        self._try([_place(executor.host, executor.id)] * executor.cores)
        with self._lock:
            self._warming.discard(executor.id)
            self._warm.add(executor.id)

    def _try(self, places: Sequence[str]) -> None:
        try:
            _warm_up(self._spark, places, self._modules)
        except Exception as error:  # noqa: BLE001 - warming is a favour: whatever fails, the executor still works
            log.debug("warming tasks at %s failed: %s", ", ".join(places), error)


def _beside(work: Callable[..., None], *given: Any) -> None:
    threading.Thread(target=work, args=given, daemon=True, name="penstock-warm").start()


def _place(host: str, executor: str) -> str:
    """An executor as Spark's scheduler spells it where a task prefers it."""
    return f"executor_{host}_{executor}"


def _warm_up(spark: SparkSession, places: Sequence[str], modules: tuple[str, ...]) -> None:
    """A task for each place that does what tasks of queries do: rows to Python and back, and to a sink."""
    from pyspark.sql.functions import udf

    def imported(row: int) -> int:
        for name in modules:
            with contextlib.suppress(ImportError):
                import_module(name)
        return row

    def same(batches: Iterator[Any]) -> Iterator[Any]:
        yield from batches

    spark.sparkContext.setJobGroup(GROUP, "Penstock warms new executors")
    plain = udf(imported, "int", useArrow=False)
    frame = _placed(spark, places).select(plain("row").alias("row")).where("row > 0")
    frame = frame.mapInArrow(same, "row int")
    frame.write.format("noop").mode("append").save()


def _placed(spark: SparkSession, places: Sequence[str]) -> DataFrame:
    """A partition of one row for each place, which asks for it."""
    context: Any = spark.sparkContext
    session: Any = spark._jsparkSession
    jvm = context._jvm
    convert = jvm.scala.jdk.javaapi.CollectionConverters
    pair, row = getattr(jvm, "scala.Tuple2"), jvm.org.apache.spark.sql.RowFactory
    values = context._gateway.new_array(jvm.java.lang.Object, 1)
    values[0] = 1
    items = [pair(row.create(values), convert.asScala([place]).toSeq()) for place in places]
    tag = getattr(jvm.scala.reflect, "ClassTag$").__getattr__("MODULE$").Any()
    rows = context._jsc.sc().makeRDD(convert.asScala(items).toSeq(), tag).toJavaRDD()
    schema = session.parseDataType(StructType().add("row", "integer").json())
    return DataFrame(session.createDataFrame(rows, schema), spark)
