"""Autoscaling of real Spark: watch queries, decide, change executors and CPU shares."""

from penstock.spark.attach.autoscaler import Autoscaler
from penstock.spark.attach.settings import Settings, default_guards

__all__ = ["Autoscaler", "Settings", "default_guards"]
