"""Autoscaling of real Spark: watch queries, decide, change executors and CPU shares."""

from typing import TYPE_CHECKING

from penstock.core.deprecation import moved

if not TYPE_CHECKING:
    __getattr__ = moved("penstock.spark.attach", {"default_guards": "settings"})
