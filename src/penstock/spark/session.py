"""The one place that builds a Spark session."""

import atexit
import contextlib
import logging
import os
import re
import signal
import sys
from collections.abc import Iterator, Mapping
from importlib.resources import files
from types import FrameType
from typing import Any

from pyspark.sql import SparkSession

from penstock.core.errors import PenstockError
from penstock.spark import sources
from penstock.spark.cluster import credentials
from penstock.spark.java import find_java
from penstock.spark.kafka.connector import has_kafka, kafka_connector
from penstock.spark.runtime.starting import refuse_connect
from penstock.spark.submitted import has_gateway, submitted, workers_interpreter

_LOOPBACK = re.compile(
    r"^(local(\[.*\])?|spark://(127\.\d+\.\d+\.\d+|localhost|\[::1\]):\d+|local-cluster\[.*\])$"
)


ALL_CORES = "local[*]"

#: Masters that may be those of a LocalCluster, which lets in only who knows its secret.
_LOCAL_CLUSTER = re.compile(r"^spark://127\.0\.0\.1:\d+$")

#: On one machine, Python workers talk to the JVM without TCP, whose delayed acknowledgements cost up to 40 ms a task.
_QUICK_LOCAL = {"spark.python.unix.domain.socket.enabled": "true"}


def session(
    master: str | None = None,
    *,
    app: str | None = None,
    ui: bool = False,
    kafka: bool | str = False,
    config: Mapping[str, str] | None = None,
    existing: SparkSession | None = None,
) -> SparkSession:
    """A Spark session fit for Penstock; the running one where there is one.

    Parameters
    ----------
    master
        Any Spark master; by default the one that ``spark-submit`` was given, and ``local[*]`` elsewhere. Local ones and those
        on loopback are bound to 127.0.0.1. ``local[*]`` has two slots a core, so that resident workers, which keep theirs,
        leave as many free for other tasks; parallelism stays one a core.
    app
        The application's name; by default the one that ``spark-submit`` was given, or ``penstock``.
    ui
        Whether Spark's own web interface is started.
    kafka
        Whether ``format("kafka")`` is there: Spark's Kafka connector is fetched from Maven Central at the first time and
        kept. A version such as ``"4.2.0"`` asks for that release. ``format("penstock-kafka")`` needs no connector.
    config
        Further Spark options; they win over those of ``spark-submit``, which win over Penstock's.
    existing
        A session the caller already has: it is given back, with Arrow switched on, and never stopped here.
    """
    active = existing or SparkSession.getActiveSession()
    if active is not None:
        refuse_connect(active)
        if _is_stopped(active):
            raise PenstockError(
                "This Spark session has been stopped; start a new one with penstock.spark.session()."
            )
        if kafka and not has_kafka(active):
            raise PenstockError(
                "The running Spark session was started without Spark's Kafka connector, which cannot be added later; stop it "
                "first, or read with format('penstock-kafka')."
            )
        active.conf.set("spark.sql.execution.arrow.pyspark.enabled", "true")
        sources.register(active)
        return active
    if not has_gateway():
        os.environ["JAVA_HOME"] = str(find_java().home)
    given = submitted()
    master = master or given.get("spark.master", ALL_CORES)
    name = app or given.get("spark.app.name", "penstock")
    builder = SparkSession.builder.appName(name).master(_with_room(master))
    ours = {key: value for key, value in _defaults(master, ui).items() if key not in given}
    options = {**ours, **(config or {})}
    if kafka:
        before = options.get("spark.jars", given.get("spark.jars"))
        jars = [*filter(None, [before]), *map(str, kafka_connector(kafka))]
        options["spark.jars"] = ",".join(jars)
    for key, value in options.items():
        builder = builder.config(key, value)
    if _LOOPBACK.match(master):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    with _quiet_start(), workers_interpreter():
        spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    sources.register(spark)
    atexit.register(_stop, spark)
    return spark


@contextlib.contextmanager
def running(spark: SparkSession) -> Iterator[SparkSession]:
    """Stop ``spark`` at the end, also on Ctrl-C and on SIGTERM, so that no process stays behind."""

    def interrupt(_signal: int, _frame: FrameType | None) -> None:
        # The signal may come in the midst of a call into Java, which Py4J logs as an error with its stack. Here it is
        # how runs are ended.
        logging.getLogger().addFilter(_is_news)
        logging.getLogger("py4j").setLevel(logging.CRITICAL)
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield spark
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        # Spark's server for accumulators may see the JVM go before it is told to end, and would print a stack for it.
        server: Any = getattr(spark.sparkContext, "_accumulatorServer", None)
        if server is not None:
            server.handle_error = lambda *_: None
        _stop(spark)


def _is_news(record: logging.LogRecord) -> bool:
    return not record.getMessage().startswith("KeyboardInterrupt while sending command")


def _defaults(master: str, ui: bool) -> dict[str, str]:
    options = {
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.enabled": str(ui).lower(),
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "2g",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={files('penstock.spark') / 'log4j2.properties'}",
        "spark.sql.shuffle.partitions": str(_cores()),
        # Python workers are told to use one thread each: Spark's tasks are the parallelism.
        "spark.executorEnv.OMP_NUM_THREADS": "1",
        # Forks of a daemon that has Penstock loaded already: a resident worker is there in a tenth of a second.
        "spark.python.daemon.module": "penstock.spark.runtime.daemon",
        # Metadata of old batches is not needed to go on; keeping less keeps a long run's checkpoint small.
        "spark.sql.streaming.minBatchesToRetain": "20",
    }
    if _LOOPBACK.match(master):
        options |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1", **_QUICK_LOCAL}
    if _LOCAL_CLUSTER.match(master):
        options |= credentials()
    if master == ALL_CORES:
        options |= {"spark.default.parallelism": str(_cores())}
    return options


def _with_room(master: str) -> str:
    """Two slots a core where all cores are meant: one for a resident worker, one for tasks of Spark's."""
    return f"local[{2 * _cores()}]" if master == ALL_CORES else master


def _cores() -> int:
    return os.cpu_count() or 2


@contextlib.contextmanager
def _quiet_start() -> Iterator[None]:
    """Keep the launcher's banner off the terminal; errors of the launch still raise."""
    sys.stderr.flush()
    kept = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def _is_stopped(spark: SparkSession) -> bool:
    context = spark.sparkContext
    return getattr(context, "_jsc", None) is None or bool(context._jsc.sc().isStopped())


def _stop(spark: SparkSession) -> None:
    with contextlib.suppress(Exception):  # a JVM that is already gone needs no stopping
        spark.stop()
