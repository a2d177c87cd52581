"""Spark's own Kafka connector, which is no part of Spark's Python package."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyspark
from pyspark.sql import SparkSession

from penstock.core.errors import PenstockError
from penstock.spark.maven import fetched

_CONNECTOR = "org.apache.spark:spark-sql-kafka-0-10_2.13"
_TOKENS = "org.apache.spark:spark-token-provider-kafka-0-10_2.13"

#: The release before each, whose connector works too; tried where a release's own is not (yet) to be had.
_BEFORE = {"4.3": "4.2.0"}
#: A part of the connector that has not changed since, where it is missing.
_OLD_TOKENS = "4.0.0"


def kafka_connector(version: bool | str) -> Sequence[Path]:
    """The connector's jars: of this Spark's release, of the one before, or of the version that is asked for."""
    wanted = [version] if isinstance(version, str) else _candidates(pyspark.__version__)
    problem: PenstockError | None = None
    for release in wanted:
        for overrides in ({}, {_TOKENS: _OLD_TOKENS}):
            try:
                folder = fetched(f"spark-kafka-{release}", [f"{_CONNECTOR}:{release}"], overrides)
            except PenstockError as error:
                problem = problem or error
            else:
                return _new_jars(folder)
    raise PenstockError(
        f"Spark's Kafka connector is not to be had. {problem} Give its jars with config={{'spark.jars': ...}}, or read with "
        "format('penstock-kafka'), which needs none."
    )


def has_kafka(spark: SparkSession) -> bool:
    """Whether a session has the connector."""
    jvm: Any = spark._jvm
    try:
        jvm.java.lang.Class.forName(
            "org.apache.spark.sql.kafka010.KafkaSourceProvider",
            True,
            jvm.java.lang.Thread.currentThread().getContextClassLoader(),
        )
    except Exception:  # noqa: BLE001 - whatever keeps the class from loading
        return False
    return True


def _candidates(version: str) -> list[str]:
    """
    >>> _candidates("4.3.0")
    ['4.3.0', '4.2.0']
    """
    before = _BEFORE.get(".".join(version.split(".")[:2]))
    return [version, *([before] if before else [])]


def _new_jars(folder: Path) -> list[Path]:
    """Jars that Spark does not bring itself."""
    own = {path.name.rsplit("-", 1)[0] for path in (Path(pyspark.__file__).parent / "jars").glob("*.jar")}
    return sorted(p for p in folder.glob("*.jar") if p.name.rsplit("-", 1)[0] not in own)
