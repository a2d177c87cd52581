"""Autoscaling of real Spark: watch queries, decide, change executors and CPU shares."""

from penstock.spark.attach.settings import Settings as Settings
from penstock.spark.attach.settings import default_guards

__all__ = ["default_guards"]
