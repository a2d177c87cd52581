"""Spark's own logs in a checkpoint: which batches were planned (``offsets``) and which ended (``commits``)."""

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from penstock.spark.runtime.locations import Location

#: What keeps a log entry cheap. By default each is two files with checksums, and the JVM, which has no native code for
#: it, forks a process for the permissions of each file and for every look whether a path is a link: 5 to 10 processes
#: an entry, three entries a batch. Renaming by Hadoop's older interface looks at no links.
_LIGHT = {
    "fs.AbstractFileSystem.file.impl": "org.apache.hadoop.fs.local.RawLocalFs",
    "fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "fs.file.impl.disable.cache": "true",  # or the one with checksums, which is there already, would be taken
}
_MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
#: Where Spark 4.2 and later, and those before, have the manager that renames so.
_MANAGERS = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager",
    "org.apache.spark.sql.execution.streaming.FileSystemBasedCheckpointFileManager",
)
_setting = threading.Lock()


@contextlib.contextmanager
def light_logs(spark: SparkSession, spark_folder: Location) -> Iterator[None]:
    """Have the query that is started here write its logs without checksum files and with few processes.

    A query takes a copy of the session's settings as it starts, so queries started elsewhere keep theirs; what the user
    has set stays. Logs that are not on a local disk are left as they are: their renames are not those of a file system.
    """
    if not isinstance(spark_folder, Path):
        yield
        return
    with _setting:
        wanted = _LIGHT | ({_MANAGER: name} if (name := _manager(spark)) else {})
        ours = {key: value for key, value in wanted.items() if spark.conf.get(key, None) is None}
        for key, value in ours.items():
            spark.conf.set(key, value)
        try:
            yield
        finally:
            for key in ours:
                spark.conf.unset(key)


def _manager(spark: SparkSession) -> str | None:
    assert spark._jvm is not None
    for name in _MANAGERS:
        with contextlib.suppress(Py4JJavaError):
            spark._jvm.java.lang.Class.forName(name)
            return name
    return None


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


def has_planned(spark_folder: Location, batch: int) -> bool:
    """Whether Spark knows the rows of a batch."""
    return batch in _batches(spark_folder / "offsets")


def go_back(spark_folder: Location, batch: int) -> None:
    """Make Spark run the batch after ``batch`` again, with the rows it had, and forget what came after that."""
    for log, first in (("commits", batch + 1), ("offsets", batch + 2)):
        for number in _batches(spark_folder / log):
            if number >= first:
                for name in (str(number), f".{number}.crc"):
                    (spark_folder / log / name).unlink(missing_ok=True)


def _batches(folder: Location) -> list[int]:
    return [int(path.name) for path in folder.glob("*") if path.name.isdigit()]
