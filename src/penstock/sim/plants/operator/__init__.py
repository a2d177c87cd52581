"""A partitioned-stateful operator: splitter, replicas, merger, keys, CPU frequency, migration of state."""

from penstock.sim.plants.operator.partitioned_operator import OperatorCosts, PartitionedOperator
from penstock.sim.plants.operator.triggers import Triggers, triggers

__all__ = ["OperatorCosts", "PartitionedOperator", "Triggers", "triggers"]
