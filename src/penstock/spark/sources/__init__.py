"""Spark sources: ``penstock-traffic`` and ``penstock-replay`` (generated and recorded streams), ``penstock-kafka``."""

from pyspark.sql import SparkSession

from penstock.spark.sources.kafka import KafkaSource
from penstock.spark.sources.replay import ReplaySource
from penstock.spark.sources.traffic import TrafficSource


def register(spark: SparkSession) -> None:
    """Make these formats known to a session, for ``spark.readStream.format("penstock-traffic")`` and ``spark.read``."""
    spark.dataSource.register(TrafficSource)
    spark.dataSource.register(ReplaySource)
    spark.dataSource.register(KafkaSource)
