"""Autoscaling of real Spark: watch queries, decide, change executors and CPU shares."""

from penstock.spark.attach.settings import Settings, default_guards

__all__ = ["Settings", "default_guards"]
