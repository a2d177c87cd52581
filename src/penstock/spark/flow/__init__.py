"""Flows on Spark: an elastic dataflow whose replicas, routing and pipelines change while it runs."""
