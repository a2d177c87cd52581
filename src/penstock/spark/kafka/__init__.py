"""Kafka: topics as streaming sources (``format("penstock-kafka")``) and as places for results (:class:`KafkaTopic`)."""

from penstock.spark.kafka.topic import KafkaTopic

__all__ = ["KafkaTopic"]
