"""The virtual-time simulator: plants behind the same interface as Spark, and closed-loop runs of policies on them."""

from penstock.sim.closed_loop import Outcome, compare, run_policy
from penstock.sim.load import Load, load
from penstock.sim.spark_like import SparkCosts, SparkLike
from penstock.sim.virtual import VirtualPlant

__all__ = ["Load", "Outcome", "SparkCosts", "SparkLike", "VirtualPlant", "compare", "load", "run_policy"]
