"""Everything that touches Spark: sessions, sources, the micro-batch runtime, queries, actuators."""

from penstock.spark.cluster import LocalCluster
from penstock.spark.delta import DeltaTable
from penstock.spark.kafka.topic import KafkaTopic
from penstock.spark.session import running, session

__all__ = ["session", "running", "LocalCluster", "KafkaTopic", "DeltaTable"]
