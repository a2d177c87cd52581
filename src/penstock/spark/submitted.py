"""What ``spark-submit`` says about the session that a program is to build."""

import contextlib
import os
import shlex
import sys
from collections.abc import Iterator
from itertools import pairwise

from pyspark import SparkConf, SparkContext

#: Words of ``spark-submit`` that stand for one option.
_WORDS = {"--master": "spark.master", "--name": "spark.app.name"}


def has_gateway() -> bool:
    """Whether the program runs under ``spark-submit``, whose JVM is there already."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def submitted() -> dict[str, str]:
    """Options given to ``spark-submit``, or in ``PYSPARK_SUBMIT_ARGS`` for a JVM that is still to be started."""
    if has_gateway():
        SparkContext._ensure_initialized()
        return dict(SparkConf(_jvm=SparkContext._jvm).getAll())
    return options_in(os.environ.get("PYSPARK_SUBMIT_ARGS", ""))


def options_in(arguments: str) -> dict[str, str]:
    """Options among the arguments of ``spark-submit``.

    >>> options_in("--master yarn --conf spark.executor.cores=2 pyspark-shell")
    {'spark.master': 'yarn', 'spark.executor.cores': '2'}
    """
    found = {}
    for word, value in pairwise(shlex.split(arguments)):
        if word in _WORDS:
            found[_WORDS[word]] = value
        elif word in ("--conf", "-c"):
            key, _, given = value.partition("=")
            found[key] = given
    return found


@contextlib.contextmanager
def workers_interpreter() -> Iterator[None]:
    """While a session is built: workers run the driver's interpreter, or a virtual environment lacks pyarrow on the other side.

    One that ``PYSPARK_PYTHON`` names is kept: in containers of YARN the driver's path is not the executors'. It is not left
    behind, since a program started from here may have another interpreter.
    """
    if "PYSPARK_PYTHON" in os.environ:
        yield
        return
    os.environ["PYSPARK_PYTHON"] = sys.executable
    try:
        yield
    finally:
        del os.environ["PYSPARK_PYTHON"]
