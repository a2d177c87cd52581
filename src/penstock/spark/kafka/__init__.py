"""Kafka: topics as streaming sources (``format("penstock-kafka")``) and as places for results (:class:`KafkaTopic`)."""
