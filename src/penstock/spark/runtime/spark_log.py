"""Spark's own logs in a checkpoint: which batches were planned (``offsets``) and which ended (``commits``)."""

import contextlib
import threading
from collections.abc import Iterator

from pyspark.sql import SparkSession

from penstock.spark.runtime.locations import Location

#: The file system of the logs, and the one without checksum files. Each log entry is two files with checksums, and the
#: JVM forks a process for the permissions of each: about 30 ms an entry, twice a batch.
_LOCAL_FILES = "fs.AbstractFileSystem.file.impl"
_WITHOUT_CHECKSUMS = "org.apache.hadoop.fs.local.RawLocalFs"
_setting = threading.Lock()


@contextlib.contextmanager
def light_logs(spark: SparkSession) -> Iterator[None]:
    """Have the query that is started here write its logs without checksum files.

    A query takes a copy of the session's settings as it starts, so queries started elsewhere keep theirs; logs that are
    not on a local disk are not concerned.
    """
    with _setting:
        before = spark.conf.get(_LOCAL_FILES, None)
        if before is None:
            spark.conf.set(_LOCAL_FILES, _WITHOUT_CHECKSUMS)
        try:
            yield
        finally:
            if before is None:
                spark.conf.unset(_LOCAL_FILES)


def last_commit(spark_folder: Location) -> int:
    """The last batch that Spark takes for done; -1 where there is none."""
    return max(_batches(spark_folder / "commits"), default=-1)


def remove_leftovers(spark_folder: Location) -> None:
    """Remove temporary files of a process that died: Spark refuses a first batch beside them, and beside any other file."""
    logs = [spark_folder / log for log in ("offsets", "commits")]
    pattern = ".*.tmp*" if any(_batches(log) for log in logs) else "*"
    for path in (path for log in logs for path in log.glob(pattern)):
        path.unlink(missing_ok=True)


def can_go_back(spark_folder: Location, batch: int) -> bool:
    """Whether Spark still knows the rows of the batch after ``batch``, or never had any: the run read its source itself."""
    planned = _batches(spark_folder / "offsets")
    return not planned or batch + 1 in planned


def go_back(spark_folder: Location, batch: int) -> None:
    """Make Spark run the batch after ``batch`` again, with the rows it had, and forget what came after that."""
    for log, first in (("commits", batch + 1), ("offsets", batch + 2)):
        for number in _batches(spark_folder / log):
            if number >= first:
                for name in (str(number), f".{number}.crc"):
                    (spark_folder / log / name).unlink(missing_ok=True)


def _batches(folder: Location) -> list[int]:
    return [int(path.name) for path in folder.glob("*") if path.name.isdigit()]
