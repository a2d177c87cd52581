"""Warming: new executors start a Python worker and import what tasks will need before they count as working."""

import contextlib
import logging
import threading
from collections.abc import Callable
from importlib import import_module
from typing import Any

from pyspark import RDD
from pyspark.serializers import CPickleSerializer
from pyspark.sql import SparkSession

from penstock.spark.actuators.executor_status import RegisteredExecutor

log = logging.getLogger(__name__)


class Warmth:
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
            threading.Thread(target=self._run, args=(executor,), daemon=True, name="penstock-warm").start()

    def _run(self, executor: RegisteredExecutor) -> None:
        try:
            _on_executor(self._spark, executor, _importing(self._modules))
        except Exception as error:  # noqa: BLE001 - warming is a favour: whatever fails, the executor still works
            log.debug("warming executor %s failed: %s", executor.id, error)
        with self._lock:
            self._warming.discard(executor.id)
            self._warm.add(executor.id)


def _on_executor(spark: SparkSession, executor: RegisteredExecutor, task: Callable[[Any], Any]) -> None:
    """Run one Python task that prefers the given executor."""
    context: Any = spark.sparkContext
    jvm = context._jvm
    context.setJobGroup("penstock-warm", "Penstock warms a new executor")
    place = f"executor_{executor.host}_{executor.id}"
    convert = jvm.scala.jdk.javaapi.CollectionConverters
    item = getattr(jvm, "scala.Tuple2")(bytearray(b"N."), convert.asScala([place]).toSeq())
    tag = jvm.scala.reflect.ClassTag.Byte().wrap()
    jrdd = context._jsc.sc().makeRDD(convert.asScala([item]).toSeq(), tag).toJavaRDD()
    RDD(jrdd, context, CPickleSerializer()).map(task).count()


def _importing(modules: tuple[str, ...]) -> Callable[[Any], None]:
    def task(_: Any) -> None:
        for name in modules:
            with contextlib.suppress(ImportError):
                import_module(name)

    return task
