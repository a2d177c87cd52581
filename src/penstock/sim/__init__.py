"""The virtual-time simulator: plants behind the same interface as Spark, and closed-loop runs of policies on them."""

from typing import TYPE_CHECKING

from penstock.core.deprecation import moved
from penstock.sim.closed_loop import compare
from penstock.sim.load import load
from penstock.sim.plants.micro_batch import SparkCosts, SparkLike

__all__ = ["SparkLike", "SparkCosts", "compare", "load"]

if not TYPE_CHECKING:
    __getattr__ = moved("penstock.sim", {"VirtualPlant": "plants.virtual"})
