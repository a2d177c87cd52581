"""The virtual-time simulator: plants behind the same interface as Spark, and closed-loop runs of policies on them."""

from penstock.sim.closed_loop import ClosedLoopResult, compare, run_policy
from penstock.sim.load import Load, load
from penstock.sim.plants.micro_batch import SparkCosts, SparkLike
from penstock.sim.plants.virtual import VirtualPlant

__all__ = [
    "Load",
    "ClosedLoopResult",
    "SparkCosts",
    "SparkLike",
    "VirtualPlant",
    "compare",
    "load",
    "run_policy",
]
