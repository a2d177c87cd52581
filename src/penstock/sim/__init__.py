"""The virtual-time simulator: plants behind the same interface as Spark, and closed-loop runs of policies on them."""

from penstock.sim.closed_loop import compare
from penstock.sim.load import load
from penstock.sim.plants.micro_batch import SparkCosts, SparkLike
from penstock.sim.plants.virtual import VirtualPlant

__all__ = ["SparkLike", "SparkCosts", "VirtualPlant", "compare", "load"]
